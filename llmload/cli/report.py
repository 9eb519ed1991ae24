"""`llmload report RUN`: the summary of a run, worked out anew from its record, and judged by other objectives if asked.

Reads `run.json` and `completions.jsonl` and nothing else, so it also works for a run that broke off.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from llmload.errors import EXIT_INVALID, EXIT_MISSED, EXIT_OK, RecordError, SetupError
from llmload.metrics.goodput import marked, parse_goodput
from llmload.metrics.objectives import missed, parse_objectives
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.reports.text import render
from llmload.sinks.record import find_run, read_run
from llmload.swarm.gates import read_slo_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run",
        nargs="?",
        default="runs",
        metavar="RUN",
        help="a run directory, or a directory of them: then the newest (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    judging = parser.add_argument_group(
        "judging anew", "with any of these, code 3 says missed and 4 a run that is not valid"
    )
    judging.add_argument("--slo", action="append", metavar="OBJECTIVES", help="instead of the run's own; repeatable")
    judging.add_argument("--slo-file", metavar="FILE", help="more of them, one a line")
    judging.add_argument("--goodput", metavar="LIMITS", help="instead of the run's own, e.g. 'ttft:500 e2e:5000'")


def run(args: argparse.Namespace) -> int:
    """Print the summary to standard output and what is wrong with the record to standard error.

    Raises:
        RecordError: there is no run, or the files are not ours.
        SetupError: objectives do not parse.
    """
    asked = _asked(args)
    path = find_run(args.run)
    if str(path) != args.run.rstrip("/"):
        print(f"llmload report: {path} (the newest)", file=sys.stderr)
    info, completions, problems = read_run(path)
    if asked:
        info = {**info, "settings": {**(info.get("settings") or {}), **asked}}
    if args.goodput is not None:
        completions = marked(completions, parse_goodput(args.goodput))
    try:
        summary = summarise(Tallies(completions), info)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise RecordError(
            f"{path} holds values that no run can have ({type(error).__name__}: {error})", "it was changed by hand"
        ) from error
    # of a run that broke off the last line may be half: it is not valid anyway, and nothing else is wrong with it
    damage = [] if info.get("ended_at") is None else [*problems, *_missing(info, summary)]
    if damage:
        summary["run"]["valid"] = False
        summary["run"]["reasons"].append(f"the record is damaged: {damage[0]}")
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(summary, indent=2, allow_nan=False) if args.json else render(summary), flush=True)
    for problem in damage or problems:
        print(f"llmload report: {problem}", file=sys.stderr)
    if damage or (asked and not summary["run"]["valid"]):
        return EXIT_INVALID
    return EXIT_MISSED if asked and missed(summary["objectives"]) else EXIT_OK


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that are judged by instead of the run's own; none where nothing was asked."""
    texts = [*(args.slo or ()), *(read_slo_file(args.slo_file) if args.slo_file else ())]
    asked: dict[str, Any] = {}
    if args.slo is not None or texts:
        parse_objectives(texts)
        asked["slo"] = texts
    if args.goodput is not None:
        if parse_goodput(args.goodput) is None:
            raise SetupError("--goodput is empty", "give e.g. 'ttft:500 e2e:5000', or leave it out")
        asked["goodput"] = args.goodput
    return asked


def _missing(info: Mapping[str, Any], summary: Mapping[str, Any]) -> list[str]:
    """Compare what the processes of an ended run said they had finished with what is there."""
    if not info.get("workers") or info.get("record_lost"):
        return []
    said = sum(
        worker["ledger"][outcome]
        for worker in info.get("workers", {}).values()
        for outcome in ("ok", "failed", "cancelled")
    )
    found = sum(summary["ledger"][outcome] for outcome in ("ok", "failed", "cancelled"))
    return [] if said == found else [f"{found} completions are there, {said} were finished"]

"""`llmload report RUN`: the summary of a run, worked out anew from its record.

Reads `run.json` and `completions.jsonl` and nothing else, so it also works for a run that broke off.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from llmload.errors import EXIT_INVALID, EXIT_OK, RecordError
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.reports.text import render
from llmload.sinks.record import find_run, read_run


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


def run(args: argparse.Namespace) -> int:
    """Print the summary to standard output and what is wrong with the record to standard error.

    Raises:
        RecordError: there is no run, or the files are not ours.
    """
    path = find_run(args.run)
    if str(path) != args.run.rstrip("/"):
        print(f"llmload report: {path} (the newest)", file=sys.stderr)
    info, completions, problems = read_run(path)
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
    return EXIT_INVALID if damage else EXIT_OK


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

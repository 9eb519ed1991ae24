"""`llmload history DIR`: the runs of an archive, the oldest first, with a trend for each metric."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmload.cli.baseline import limits_of, value_of
from llmload.errors import EXIT_OK, RecordError, SetupError
from llmload.metrics.evidence import GOODPUTS, Key
from llmload.reports.history import render, render_page
from llmload.sinks.archive import entries
from llmload.sinks.facts import read_summary

SHOWN: tuple[Key, ...] = (
    ("ttft_s", "p50"), ("ttft_s", "p95"), ("itl_s", "p50"), ("itl_s", "p99"), ("tpot_s", "p50"), ("e2e_s", "p50"),
    ("e2e_s", "p95"), ("output_tps", "p50"), ("request_throughput", ""), ("output_throughput", ""), ("error_rate", ""),
    ("goodput", ""), ("goodput_rate", ""),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "folder", nargs="?", default="archive", metavar="DIR", help="an archive, or a folder of run directories "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--scenario", metavar="NAME", help="only runs that have this scenario")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", metavar="FILE", help="also write a page with charts")


def run(args: argparse.Namespace) -> int:
    """Print the history and return the exit code.

    Raises:
        RecordError: there are no runs.
        SetupError: the page cannot be written.
    """
    history = _history(Path(args.folder), args.scenario)
    if args.html:
        try:
            Path(args.html).write_text(render_page(history), encoding="utf-8")
        except OSError as error:
            raise SetupError(f"cannot write {args.html} ({error.strerror})", "name a file that can be made") from error
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(history, indent=2, allow_nan=False) if args.json else render(history), flush=True)
    if args.html:
        print(f"llmload history: wrote {args.html}", file=sys.stderr)
    return EXIT_OK


def _history(folder: Path, scenario: str | None) -> dict[str, Any]:
    """Return `runs`, of the valid ones `metrics` with a value a run, and the limits of the newest with a `goodput`."""
    found, skipped = [], 0
    for path in entries(folder):
        summary = read_summary(path)
        if summary is None:
            skipped += 1
        elif scenario is None or scenario in summary["scenarios"]:
            found.append((path, summary))
    if skipped:
        print(f"llmload history: {skipped} runs have no summary.json of this version, skipped", file=sys.stderr)
    if not found:
        raise RecordError(f"{folder} has no run to show", "leave --scenario out, or archive a run")
    summaries = [summary for _, summary in found]
    limits = next(filter(None, map(limits_of, reversed(summaries))), None)
    return {
        "runs": [_run(path, summary) for path, summary in found],
        "metrics": [
            {
                "metric": key[0],
                "statistic": key[1] or None,
                "values": [_value(summary, key, limits) for summary in summaries],
            }
            for key in SHOWN
        ],
        "goodput": limits,
    }


def _value(summary: dict[str, Any], key: Key, limits: Mapping[str, float] | None) -> float | None:
    """Return the value of a valid run; a goodput by other limits than those of the newest run is none of this line."""
    if not summary["run"]["valid"] or (key[0] in GOODPUTS and limits_of(summary) != limits):
        return None
    return value_of(summary, key)


def _run(path: Path, summary: dict[str, Any]) -> dict[str, Any]:
    run, ledger = summary["run"], summary["ledger"]
    return {
        "id": run["id"] or path.name,
        "started_at": run["started_at"],
        "valid": run["valid"],
        "ok": ledger["ok"],
        "failed": ledger["failed"],
        "scenarios": sorted(summary["scenarios"]),
        "model": run["load"]["model"],
    }

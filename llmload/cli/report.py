"""`llmload report RUN`: the summary of a run, worked out anew from its record.

Reads `run.json` and `completions.jsonl` and nothing else, so it also works for a run that broke off.
"""

from __future__ import annotations

import argparse
import json
import sys

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
    summary = summarise(Tallies(completions), info)
    print(json.dumps(summary, indent=2, allow_nan=False) if args.json else render(summary))
    for problem in problems:
        print(f"llmload report: {problem}", file=sys.stderr)
    return 0

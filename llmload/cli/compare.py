"""`llmload compare BASE NEW`: two runs, or two sets of rounds, metric by metric, each change with its interval.

The exit code is 3 when a rule of --fail-on failed, 4 when one could not be judged, else 0.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llmload.cli.arms import run_arms
from llmload.cli.baseline import AGAINST_HELP, choose
from llmload.cli.reading import Reader
from llmload.errors import EXIT_INVALID, EXIT_MISSED, EXIT_OK, SetupError
from llmload.metrics.comparison import Facts, compare
from llmload.metrics.goodput import Goodput, wanted_goodput
from llmload.metrics.regression import Rule, parse_rule
from llmload.reports.comparison import render, render_markdown
from llmload.reports.comparison_page import render_page
from llmload.sinks.facts import Part


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="BASE NEW [MORE…]: run directories or archive entries; rounds of the "
        "same thing with commas: base1,base2 new1,new2")  # fmt: skip
    add("--base", nargs="+", default=[], metavar="RUN", help="rounds of base, instead of the first RUN")
    add("--new", nargs="+", default=[], metavar="RUN", help="rounds of new")
    add("--against", metavar="WHICH", help=AGAINST_HELP)
    add("--archive", default="archive", metavar="DIR", help="where --against looks (default: %(default)s)")
    add("--fail-on", action="append", default=[], metavar="RULE", help="exit with 3 when the interval says so: 'ttft "
        "p95 worse by 10%%'; repeatable")  # fmt: skip
    add("--confidence", default="95", metavar="PERCENT", help="of the intervals, in %% (default: %(default)s)")
    add("--scenario", metavar="NAME", help="compare this scenario only")
    add("--step", metavar="LABEL", help="compare this step of a sweep only, in all its rounds")
    add("--goodput", metavar="LIMITS", help="judge every request of both sides by these, e.g. 'ttft:500 tpot:50', "
        "instead of what each run was given")  # fmt: skip
    add("--arms", metavar="RUN", help="compare the arms of one A/B run in pairs instead")
    add("--all", action="store_true", help="print every metric and statistic")
    add("--json", action="store_true", help="print JSON")
    add("--md", action="store_true", help="print Markdown")
    add("--html", metavar="FILE", help="also write a page")


def run(args: argparse.Namespace) -> int:
    """Compare, print, and return the exit code.

    Raises:
        SetupError: the arguments make no sense.
        RecordError: a run cannot be read, or measured nothing.
    """
    confidence = _confidence(args.confidence)
    if args.arms is not None:
        return run_arms(args, confidence)
    rules = [parse_rule(text) for text in args.fail_on]
    goodput = wanted_goodput(args.goodput)
    base_paths, sides = _sides(args, goodput)
    with Reader(Part(args.scenario, args.step, goodput)) as reader:
        base = reader.side(base_paths)
        comparisons = []
        for paths in sides:
            new = reader.side(paths)
            _refuse(base, new, chosen=args.scenario is not None)
            comparisons.append(_compare(base, new, confidence, rules))
    _write(comparisons, args)
    return _exit_code(comparisons)


def _compare(base: Sequence[Facts], new: Sequence[Facts], confidence: float, rules: Sequence[Rule]) -> dict[str, Any]:
    found = compare(base, new, confidence=confidence)
    return {**found, "rules": [rule.judge(found) for rule in rules]}


def _confidence(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = 0.0
    if not 50 <= value <= 99.9:
        raise SetupError(f"--confidence {text!r} is not from 50 to 99.9", "write e.g. 95")
    return value / 100


def _sides(args: argparse.Namespace, goodput: Goodput | None) -> tuple[list[str], list[list[str]]]:
    """Return the runs of base, and of each side that is compared with it."""
    given = [[name for name in text.split(",") if name] for text in args.runs]
    base, new = [one for text in args.base for one in text.split(",") if one], args.new
    if args.against is not None:
        if base or len(given) + bool(new) != 1:
            raise SetupError("--against needs one side, NEW", "write llmload compare NEW --against last")
        side = given[0] if given else new
        return choose(args.against, Path(args.archive), side, goodput), [side]
    if base:
        sides = [*given, *([[one for text in new for one in text.split(",") if one]] if new else [])]
    elif given and new:
        base, sides = given[0], [*given[1:], new]
    else:
        base, sides = (given[0], given[1:]) if given else ([], [])
    if not base or not sides or not all(sides):
        raise SetupError("two sides are needed", "write llmload compare BASE NEW, or --base A B --new C D")
    return base, sides


def _refuse(base: Sequence[Facts], new: Sequence[Facts], *, chosen: bool) -> None:
    """Refuse what has no meaning: a run with itself, or runs that have no scenario in common."""
    names = [one.name for one in (*base, *new)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SetupError(f"{twice} is given twice", "a run compared with itself shows nothing: name two runs")
    was, now = ({name for one in side for name in one.summary["scenarios"]} for side in (base, new))
    if not chosen and not was & now:
        raise SetupError(
            f"base has the scenarios {', '.join(sorted(was))}, new {', '.join(sorted(now))}: nothing in common",
            "compare runs of the same scenarios, or name arms of one run with --arms",
        )


def _write(comparisons: Sequence[dict[str, Any]], args: argparse.Namespace) -> None:
    if args.html:
        try:
            Path(args.html).write_text(render_page(comparisons), encoding="utf-8")
        except OSError as error:
            raise SetupError(f"cannot write {args.html} ({error.strerror})", "name a file that can be made") from error
    if args.json:
        text = json.dumps({"comparisons": comparisons}, indent=2, allow_nan=False)
    elif args.md:
        text = "\n\n".join(render_markdown(one, everything=args.all) for one in comparisons)
    else:
        text = "\n\n".join(render(one, everything=args.all) for one in comparisons)
    with contextlib.suppress(BrokenPipeError):
        print(text, flush=True)
    if args.html:
        print(f"llmload compare: wrote {args.html}", file=sys.stderr)


def _exit_code(comparisons: Sequence[dict[str, Any]]) -> int:
    verdicts = {rule["verdict"] for one in comparisons for rule in one["rules"]}
    if "failed" in verdicts:
        return EXIT_MISSED
    return EXIT_INVALID if "not judged" in verdicts else EXIT_OK

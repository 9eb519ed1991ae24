"""Objectives and goodput as lines of the text report, each as (head, text).

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmload.metrics.definitions import metric
from llmload.metrics.objective import shown
from llmload.metrics.objectives import missed


def objective_lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the verdict on every objective, the missed ones first; nothing where there are none."""
    verdicts = summary.get("objectives")
    if not verdicts:
        return
    bad = missed(verdicts)
    head = f"{len(bad)} of {len(verdicts)} MISSED" if bad else f"{len(verdicts)} of {len(verdicts)} met"
    yield "objectives: ", head + ("" if summary["run"]["valid"] else ", of a run that is not valid")
    width = min(40, max(len(one["text"]) for one in verdicts))
    for one in [*bad, *(one for one in verdicts if one["met"])]:
        mark = "met" if one["met"] else "MISSED"
        samples = f" (n = {one['n']:,})" if one["n"] and one["metric"] != "requests" else ""
        yield f"  {mark:<7} ", f"{one['text']:<{width}}  {one['why']}{samples}"


def goodput_lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield share and rate of good completions, of the run and of its scenarios; nothing without --goodput."""
    goodput = summary.get("goodput")
    if goodput is None:
        return
    limits = ", ".join(f"{metric(name).label} <= {shown(limit, 's')}" for name, limit in goodput["objectives"].items())
    yield "goodput: ", f"{_goodput(goodput)}; good is ok with {limits}"
    for name, count in goodput["missing"].items():
        if count:
            yield "  ", f"{count:,} ok completions have no {metric(name).label} and are not good"
    if len(summary["scenarios"]) > 1:
        for name, scenario in summary["scenarios"].items():
            yield f"  {name}: ", _goodput(scenario["goodput"])


def _goodput(goodput: Mapping[str, Any]) -> str:
    if goodput["share"] is None:
        return "-, nothing was started"
    rate = "" if goodput["rate"] is None else f", {goodput['rate']:.2f} req/s"
    return f"{goodput['good']:,} of {goodput['started']:,} started ({shown(goodput['share'], 'share')}){rate}"

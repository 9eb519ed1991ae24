"""Objectives that would be gates that do not look: limits that all runs or none meet, or that contradict each other.

No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from llmload.metrics.objective import UNITS, Objective, Op, percentile_of

_ABOVE_ZERO = frozenset(
    ("ttft_s", "ttfa_s", "itl_s", "tpot_s", "e2e_s", "closed_s", "ttft_intended_s", "e2e_intended_s", "headers_s",
     "first_byte_s", "output_tps", "input_tokens", "output_tokens")
)  # fmt: skip
"""Metrics of a request that are never 0 where they are defined; waits and shares can be."""


def pointless(metric: str, statistic: str | None, op: Op, limit: float) -> tuple[str, str] | None:
    """Return what is wrong with a limit and what to do; None where some runs meet it and others do not.

    A count that is 0 is "no samples", which meets nothing.

    >>> pointless("error_rate", None, "<=", 1.0)
    ('every run meets this limit', 'give one that can be missed')
    """
    counted = statistic == "n" or metric == "requests"
    above = metric in _ABOVE_ZERO and not counted
    low, top = (1.0 if counted else 0.0), (1.0 if UNITS[metric] == "share" and not counted else float("inf"))
    never = {"<": limit <= low, "<=": limit < low or (above and limit <= 0), ">": limit >= top, ">=": False}
    always = {"<": False, "<=": limit >= top, ">": above and limit <= 0, ">=": limit <= 0}
    if never[op]:
        return "no run can meet this limit", "give one between the possible values"
    return ("every run meets this limit", "give one that can be missed") if always[op] else None


def contradiction(objectives: Iterable[Objective]) -> tuple[Objective, Objective] | None:
    """Return two objectives that no run can meet together, None where there are none.

    Only what follows from the words themselves: p50 is never above p95, and what did not fail was a success.
    """
    both = [(one, _as_error_rate(one)) for one in objectives]
    lows = [pair for pair in both if pair[1].op in (">", ">=")]
    highs = [pair for pair in both if pair[1].op in ("<", "<=")]
    for (said_low, low), (said_high, high) in product(lows, highs):
        if (low.scope, low.metric) != (high.scope, high.metric) or not _at_most(low.statistic, high.statistic):
            continue
        touching = low.limit == high.limit and not (low.op == ">=" and high.op == "<=")
        if low.limit > high.limit or touching:
            return said_low, said_high
    return None


_TURNED: dict[Op, Op] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _as_error_rate(one: Objective) -> Objective:
    if one.metric != "success_rate":
        return one
    return replace(one, metric="error_rate", op=_TURNED[one.op], limit=round(1 - one.limit, 12))


def _at_most(low: str | None, high: str | None) -> bool:
    """Whether the first statistic of the same samples can never be above the second."""
    if low == high:
        return True
    if low is None or high is None or "n" in (low, high):
        return False
    if "mean" in (low, high):
        return low == "min" or high == "max"
    return _rank(low) <= _rank(high)


def _rank(statistic: str) -> float:
    return {"min": 0.0, "max": 100.0}.get(statistic) or percentile_of(statistic) or 0.0

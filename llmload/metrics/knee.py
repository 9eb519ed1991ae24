"""The knee of a sweep: the last level before latency rises faster than throughput.

No I/O, no clock. Between two levels throughput grows by some factor, and latency by another. As long as throughput
grows by more, their quotient, Kleinrock's power X / R, rises; from the knee on it falls. So the knee is the level of
the highest power (L. Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
communications", ICC 1979). Of c servers with constant service time in a closed loop it is at c users exactly.

Which levels a knee could be is told by the rounds: every level whose power in some round reached the worst round of
the best level. Of one round there is no spread to see; then 5 % are taken for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

METHOD = "the level of the highest throughput / mean E2E latency: beyond it latency rises faster than throughput"
ONE_ROUND_SPREAD = 0.05
MIN_LEVELS = 3

Point = tuple[float, float]
"""Throughput, per second, and latency, seconds."""


def find_knee(points: Mapping[float, Sequence[Point | None]]) -> dict[str, Any]:
    """Return the knee, JSON-ready.

    `level` is None with a `reason` where there is no knee to see; `candidates` are the levels that it could be,
    `between` the measured levels around them, in which the true knee lies; `rounds` the best level of each round.

    Args:
        points: by level, one point a round; None where a round has none.

    Example: 16 slots of 1 s at 8, 16 and 32 users: power 8 / 1, 16 / 1 and 16 / 2, so the knee is 16, between 8 and 32.
    """
    levels = sorted(points)
    powers = {level: [_power(point) for point in points[level]] for level in levels}
    known = {level: [one for one in values if one is not None] for level, values in powers.items()}
    found: dict[str, Any] = {
        "level": None,
        "reason": None,
        "method": METHOD,
        "candidates": [],
        "between": None,
        "rounds": _by_round(levels, powers),
    }
    if missing := [level for level in levels if not known[level]]:
        return {**found, "reason": f"level {missing[0]:g} has no throughput or no latency"}
    if len(levels) < MIN_LEVELS:
        return {**found, "reason": f"{len(levels)} levels show no bend: sweep at least {MIN_LEVELS}"}
    best = max(levels, key=lambda level: median(known[level]))
    candidates = _candidates(known, best)
    found["candidates"] = candidates
    if best == levels[-1]:
        reason = f"up to {best:g}, the highest level, throughput grows as fast as latency: sweep higher"
    elif best == levels[0]:
        reason = f"from {best:g}, the lowest level, on latency grows faster than throughput: sweep lower"
    elif candidates[-1] == levels[-1] or candidates[0] == levels[0]:
        reason = f"the levels {candidates[0]:g} to {candidates[-1]:g} cannot be told apart: take more rounds or levels"
    else:
        low, high = levels[levels.index(candidates[0]) - 1], levels[levels.index(candidates[-1]) + 1]
        return {**found, "level": best, "between": [low, high]}
    return {**found, "reason": reason}


def _power(point: Point | None) -> float | None:
    return None if point is None or point[0] <= 0 or point[1] <= 0 else point[0] / point[1]


def _candidates(known: Mapping[float, Sequence[float]], best: float) -> list[float]:
    """The best level, and every level that noise could have kept from being it; always neighbours."""
    floor = min(known[best]) if len(known[best]) > 1 else known[best][0] * (1 - ONE_ROUND_SPREAD)
    within = [level for level, values in known.items() if level == best or max(values) >= floor]
    return [level for level in sorted(known) if min(within) <= level <= max(within)]


def _by_round(levels: Sequence[float], powers: Mapping[float, Sequence[float | None]]) -> list[float | None]:
    count = max((len(values) for values in powers.values()), default=0)
    rounds: list[float | None] = []
    for number in range(count):
        values = {level: powers[level][number] for level in levels if number < len(powers[level])}
        measured = {level: value for level, value in values.items() if value is not None}
        rounds.append(max(measured, key=lambda level: measured[level]) if len(measured) == len(levels) else None)
    return rounds

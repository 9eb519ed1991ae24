"""Two levels of load of one run, low and high, and what latency was at each.

No I/O, no clock. A sweep says its levels; in a plain run the slots of time with the fewest and the most requests in
flight are taken, if those differ enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from llmload.metrics.details import Details
from llmload.metrics.grid import BINS, Slot, percentile_s

APART = 2.0
"""High over low load below which two levels are not worth comparing."""
SAMPLES = 30
"""Requests that each level must have at least: fewer have no median to speak of."""
SLOTS = 6
"""Slots with requests that a plain run must have at least."""
PART = 0.25
"""Share of the slots, those with the lowest and those with the highest load, that make a level."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Medians at two levels of load, seconds; None where a level has no sample."""

    axis: str
    low: str
    high: str
    low_n: int
    high_n: int
    low_ttft_s: float | None
    high_ttft_s: float | None
    low_itl_s: float | None
    high_itl_s: float | None


def levels_of(summary: Mapping[str, Any], evidence: Details | None) -> Levels | None:
    """Return the lowest and the highest level of a run's load; None when it had but one."""
    steps = ((summary.get("sweep") or {}).get("steps")) or []
    if len(steps) > 1:
        return _of_steps(str(summary["sweep"]["axis"]), steps)
    return None if evidence is None else _of_slots(evidence)


def _of_steps(axis: str, steps: list[Mapping[str, Any]]) -> Levels | None:
    known = sorted(
        (step for step in steps if step["metrics"]["ttft_s"]["n"] >= SAMPLES), key=lambda step: float(step["level"])
    )
    if len(known) < 2 or float(known[-1]["level"]) < APART * float(known[0]["level"]):
        return None
    low, high = known[0], known[-1]
    return Levels(
        axis.replace("_", " "),
        f"{low['level']:g}",
        f"{high['level']:g}",
        low["metrics"]["ttft_s"]["n"],
        high["metrics"]["ttft_s"]["n"],
        low["metrics"]["ttft_s"]["p50"],
        high["metrics"]["ttft_s"]["p50"],
        low["metrics"]["itl_s"]["p50"],
        high["metrics"]["itl_s"]["p50"],
    )


def _of_slots(evidence: Details) -> Levels | None:
    slots = [(in_flight, slot) for _, slot, in_flight in evidence.grid.rows() if slot.distributions and in_flight > 0]
    if len(slots) < SLOTS:
        return None
    slots.sort(key=lambda entry: entry[0])
    part = max(1, int(len(slots) * PART))
    low, high = slots[:part], slots[-part:]
    low_load, high_load = (sum(load for load, _ in group) / part for group in (low, high))
    if high_load < APART * low_load:
        return None
    ttfts = [_merged("ttft_s", [slot for _, slot in group]) for group in (low, high)]
    itls = [_merged("itl_s", [slot for _, slot in group]) for group in (low, high)]
    counts = [int(ttft.sum()) for ttft in ttfts]
    if min(counts) < SAMPLES:
        return None
    return Levels(
        "requests in flight",
        f"{low_load:.0f}",
        f"{high_load:.0f}",
        counts[0],
        counts[1],
        percentile_s(ttfts[0], 50),
        percentile_s(ttfts[1], 50),
        percentile_s(itls[0], 50),
        percentile_s(itls[1], 50),
    )


def _merged(metric: str, slots: list[Slot]) -> Any:
    total = np.zeros(BINS, dtype=np.int64)
    for slot in slots:
        if metric in slot.distributions:
            total += slot.distributions[metric]
    return total

"""A run over time, for charts: counts and coarse distributions per slot of wall-clock time, in bounded memory.

No I/O, no clock. Slots begin as seconds; when there are too many of them two neighbours become one. Values fall into
buckets that grow by 2 %, so a percentile is within 1 % of that of a sorted list; better ones stand in the summary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

MAX_SLOTS = 1200
BINS = 1000
LOWEST_US = 10
"""Values below it count as it: no server answers in less."""
GROWTH = log(1.02)
"""1,000 buckets of 2 % reach from 10 us to more than an hour."""

COLUMNS = ("started", "ok", "failed", "cancelled", "refused", "tokens")
"""Counts of a slot. `refused`: failed by status 429; `tokens`: output tokens of every outcome, by arrival."""

Counts = NDArray[np.int64]


def bin_of(value_us: float) -> int:
    """Return the bucket of a value in microseconds."""
    return min(BINS - 1, int(log(value_us / LOWEST_US) / GROWTH)) if value_us > LOWEST_US else 0


def bins_of(values_us: Counts) -> Counts:
    """The same for many values."""
    found = (np.log(np.maximum(values_us, LOWEST_US) / LOWEST_US) / GROWTH).astype(np.int64)
    return np.minimum(found, BINS - 1)


def value_s(index: int) -> float:
    """Return the middle of a bucket, seconds."""
    return LOWEST_US / 1e6 * exp((index + 0.5) * GROWTH)


def percentile_s(counts: Counts | None, p: float) -> float | None:
    """Return a percentile by nearest rank, seconds; None when nothing was counted."""
    n = 0 if counts is None else int(counts.sum())
    if counts is None or not n:
        return None
    return value_s(int(np.searchsorted(np.cumsum(counts), max(1, ceil(p * n / 100)))))


@dataclass(slots=True)
class Slot:
    """What happened in one slot: `counts` by COLUMNS, distributions by metric, the worst lag of the client."""

    counts: list[int] = field(default_factory=lambda: [0] * len(COLUMNS))
    distributions: dict[str, Counts] = field(default_factory=dict)
    lag_max_s: float | None = None

    def distribution(self, metric: str) -> Counts:
        """Return the counts per bucket of a metric, to be added to."""
        found = self.distributions.get(metric)
        if found is None:
            found = self.distributions[metric] = np.zeros(BINS, dtype=np.int64)
        return found

    def lag(self, lag_s: float | None) -> None:
        """Take a lag of the client."""
        if lag_s is not None and (self.lag_max_s is None or lag_s > self.lag_max_s):
            self.lag_max_s = lag_s

    def merge(self, other: Slot) -> None:
        """Add another slot."""
        self.counts = [sum(both) for both in zip(self.counts, other.counts, strict=True)]
        for metric, counts in other.distributions.items():
            mine = self.distribution(metric)
            mine += counts
        self.lag(other.lag_max_s)

    def __getitem__(self, column: str) -> int:
        return self.counts[COLUMNS.index(column)]

    def percentile_s(self, metric: str, p: float) -> float | None:
        """Return a percentile of a metric in this slot, seconds; None without samples."""
        return percentile_s(self.distributions.get(metric), p)


class Grid:
    """Slots of `width` seconds; a slot's key is its first unix second, a multiple of the width."""

    __slots__ = ("_max_slots", "slots", "width")

    def __init__(self, *, max_slots: int = MAX_SLOTS) -> None:
        self.slots: dict[int, Slot] = {}
        self.width = 1
        self._max_slots = max_slots

    def at(self, second: int) -> Slot:
        """Return the slot of a second, to be added to at once: the next call may merge it away."""
        key = second - second % self.width
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = Slot()
            if len(self.slots) > self._max_slots:
                self._widen()
                return self.at(second)
        return found

    def _widen(self) -> None:
        old, self.slots, self.width = self.slots, {}, self.width * 2
        for second, slot in old.items():
            key = second - second % self.width
            if key in self.slots:
                self.slots[key].merge(slot)
            else:
                self.slots[key] = slot

    def rows(self) -> Iterator[tuple[int, Slot, int]]:
        """Yield (first unix second, slot, requests in flight at the slot's end) in order, slots without events too.

        A gap of more than `MAX_SLOTS` slots, the mark of a clock that jumped, is left out.
        """
        in_flight, before = 0, None
        for second in sorted(self.slots):
            if before is not None and (second - before) // self.width <= MAX_SLOTS:
                for empty in range(before + self.width, second, self.width):
                    yield empty, Slot(), in_flight
            slot = self.slots[second]
            in_flight += slot["started"] - slot["ok"] - slot["failed"] - slot["cancelled"]
            yield second, slot, in_flight
            before = second

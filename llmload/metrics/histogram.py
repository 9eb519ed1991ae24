"""A mergeable histogram with three significant digits, in HdrHistogram's buckets.

No I/O, no clock. Values are counted as whole ticks (of a time: microseconds) from 0 to `HIGHEST_TICK`.

Only the buckets that hold something are kept and sent, in a dict: HdrHistogram's own array takes 188 kB a histogram,
1.5 us a value and 1.5 ms to encode, too much for a histogram per metric, scenario and step that is sent each second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import Any

HIGHEST_TICK = 3_600_000_000
"""One hour in microseconds."""

_HALF_BITS = 10
"""Three digits need 2,048 sub-buckets, of which the upper half, 2**10, is used from the second bucket on."""
_FULL_BITS = _HALF_BITS + 1


class Histogram:
    """Counts of values; n, mean, min and max are exact, percentiles are within 0.05 %.

    Args:
        ticks_per_unit: how many ticks one unit of `record` has, e.g. 1,000,000 for seconds.

    >>> h = Histogram(1_000_000)
    >>> for value_s in (0.001, 0.002, 0.006):
    ...     h.record(value_s)
    >>> h.n, h.mean, h.percentile(50), h.max
    (3, 0.003, 0.002, 0.006)
    """

    __slots__ = ("_counts", "_highest", "_lowest", "_total", "clamped", "n", "ticks_per_unit")

    def __init__(self, ticks_per_unit: int) -> None:
        self.ticks_per_unit = ticks_per_unit
        self.n = 0
        self.clamped = 0
        """Values that were below 0 or above the range and are counted at its edge."""
        self._counts: Counter[int] = Counter()
        self._total = 0
        self._lowest = HIGHEST_TICK
        self._highest = 0

    def record(self, value: float) -> None:
        """Count one value, given in units."""
        tick = round(value * self.ticks_per_unit)
        if tick < 0 or tick > HIGHEST_TICK:
            self.record_many((tick,))
            return
        self.n += 1
        self._total += tick
        if tick < self._lowest:
            self._lowest = tick
        if tick > self._highest:
            self._highest = tick
        self._counts[_index(tick)] += 1

    def record_many(self, ticks: Sequence[int]) -> None:
        """Count values given in ticks; about 0.25 us each."""
        if not ticks:
            return
        lowest, highest = min(ticks), max(ticks)
        if lowest < 0 or highest > HIGHEST_TICK:
            self.clamped += sum(tick < 0 or tick > HIGHEST_TICK for tick in ticks)
            ticks = [min(max(tick, 0), HIGHEST_TICK) for tick in ticks]
            lowest, highest = min(ticks), max(ticks)
        self.n += len(ticks)
        self._total += sum(ticks)
        self._lowest = min(self._lowest, lowest)
        self._highest = max(self._highest, highest)
        self._counts.update([_index(tick) for tick in ticks])

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram of the same unit."""
        if other.ticks_per_unit != self.ticks_per_unit:
            raise ValueError(f"cannot merge {other.ticks_per_unit} with {self.ticks_per_unit} ticks a unit")
        self.n += other.n
        self.clamped += other.clamped
        self._total += other._total
        self._lowest = min(self._lowest, other._lowest)
        self._highest = max(self._highest, other._highest)
        self._counts.update(other._counts)

    def at_least(self, value: float) -> Histogram:
        """Return a new histogram of the values in the buckets from that of `value`, in units, on."""
        tick = min(max(round(value * self.ticks_per_unit), 0), HIGHEST_TICK)
        part = Histogram(self.ticks_per_unit)
        for index, count in self._counts.items():
            if index >= _index(tick):
                middle = round(min(max(_middle(index), self._lowest, tick), self._highest))
                part.record_many([middle] * count)
        return part

    @property
    def mean(self) -> float | None:
        """Arithmetic mean from the exact sum, in units; None when empty."""
        return self._total / self.n / self.ticks_per_unit if self.n else None

    @property
    def min(self) -> float | None:
        return self._lowest / self.ticks_per_unit if self.n else None

    @property
    def max(self) -> float | None:
        return self._highest / self.ticks_per_unit if self.n else None

    def percentile(self, p: float) -> float | None:
        """Return the p-th percentile in units; None when empty."""
        return self.percentiles((p,))[0]

    def percentiles(self, ps: Iterable[float]) -> list[float | None]:
        """Return percentiles by nearest rank: the value at rank ceil(p / 100 * n) of the sorted values.

        No interpolation: every percentile is a value that occurred, within half a bucket (0.05 %).
        """
        if not self.n:
            return [None for _ in ps]
        indices = sorted(self._counts)
        ranks = list(accumulate(self._counts[index] for index in indices))
        return [self._at(_rank(p, self.n), indices, ranks) / self.ticks_per_unit for p in ps]

    def _at(self, rank: int, indices: list[int], ranks: list[int]) -> float:
        if rank in (1, self.n):
            return self._lowest if rank == 1 else self._highest
        return min(max(_middle(indices[bisect_left(ranks, rank)]), self._lowest), self._highest)

    def to_wire(self) -> dict[str, Any]:
        """Return ints and lists of ints for `from_wire`: `buckets` by HdrHistogram's numbers, and their `counts`."""
        buckets = sorted(self._counts)
        return {
            "buckets": buckets,
            "counts": [self._counts[bucket] for bucket in buckets],
            "ticks_per_unit": self.ticks_per_unit,
            "total": self._total,
            "lowest": self._lowest,
            "highest": self._highest,
            "clamped": self.clamped,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Histogram:
        """Return the histogram that `to_wire` was called on."""
        histogram = cls(wire["ticks_per_unit"])
        histogram._total, histogram.clamped = wire["total"], wire["clamped"]
        histogram._lowest, histogram._highest = wire["lowest"], wire["highest"]
        histogram._counts.update(dict(zip(wire["buckets"], wire["counts"], strict=True)))
        histogram.n = sum(wire["counts"])
        return histogram


def _index(tick: int) -> int:
    """The number of a value's bucket, as HdrHistogram counts them: its upper 11 bits decide."""
    shift = tick.bit_length() - _FULL_BITS
    return tick if shift <= 0 else (shift << _HALF_BITS) + (tick >> shift)


def _rank(p: float, n: int) -> int:
    """ceil(p / 100 * n), at least 1; exact, because 99.9 * 3000 / 100 is not 2997 in floats."""
    return max(1, ceil(Fraction(str(p)) * n / 100))


def _middle(index: int) -> float:
    """The middle of a bucket's whole ticks; a bucket below 2,048 holds one."""
    shift = max(0, (index >> _HALF_BITS) - 1)
    return ((index - (shift << _HALF_BITS)) << shift) + ((1 << shift) - 1) / 2

"""Samples of one metric in the order of time, in cells: what intervals are worked out from.

Pure maths, no I/O, no clock. A cell holds neighbours in time, and cells are put together to blocks by
`bootstrap`. Two forms: `Series` keeps every sample, `Binned` keeps counts in narrow classes for samples that are
too many to keep, such as the gaps between tokens of a million answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_CELLS = 1024
"""A finer cut would say more about correlation than a block needs."""


class Samples(Protocol):
    """Samples in cells; `counts` and `sums` have one number a cell, in the order of time."""

    n: int
    counts: Floats
    sums: Floats

    @property
    def ranks(self) -> Floats:
        """Sum of (rank of a sample − 1/2 of all), per cell: what shows correlation whatever the distribution."""

    @property
    def shape(self) -> tuple[float, float]:
        """Variance and skewness of the samples."""

    def below(self, value: float) -> Floats:
        """Return the samples that are not above a value, per cell."""

    def quantile(self, levels: Floats) -> Floats:
        """Return the values at levels from 0 to 1, between neighbours in proportion."""

    def percentile(self, percent: float) -> float:
        """Return the smallest sample that `percent` % of all are not above."""


def _shape(values: Floats, weights: Floats) -> tuple[float, float]:
    """Return variance and skewness of values, whose weights are 1 together."""
    off = values - weights @ values
    square = off * off  # numpy's power of 3 takes ten times as long as two products
    variance = float(weights @ square)
    return variance, float(weights @ (square * off)) / variance**1.5 if variance > 1e-300 else 0.0


class Series:
    """Every sample, each a float, in the order of time; at least one."""

    def __init__(self, values: Sequence[float] | Floats) -> None:
        self._values = np.asarray(values, dtype=np.float64)
        self.n = len(self._values)
        cells = min(self.n, MAX_CELLS)
        self._starts = (np.arange(cells) * self.n) // cells
        self.counts = np.diff(np.append(self._starts, self.n)).astype(np.float64)
        self.sums = self._per_cell(self._values)

    def _per_cell(self, values: Floats) -> Floats:
        return np.add.reduceat(values, self._starts)

    @cached_property
    def _sorted(self) -> Floats:
        return np.sort(self._values)

    @cached_property
    def ranks(self) -> Floats:
        """See `Samples.ranks`; equal samples share the middle of their ranks."""
        low = np.searchsorted(self._sorted, self._values, side="left")
        high = np.searchsorted(self._sorted, self._values, side="right")
        return self._per_cell((low + high) / (2 * self.n) - 0.5)

    @cached_property
    def shape(self) -> tuple[float, float]:
        """See `Samples.shape`."""
        return _shape(self._values, np.full(self.n, 1 / self.n))

    def below(self, value: float) -> Floats:
        """See `Samples.below`."""
        return self._per_cell((self._values <= value).astype(np.float64))

    def quantile(self, levels: Floats) -> Floats:
        """See `Samples.quantile`; sample i of n stands at i / (n + 1)."""
        at = np.clip(levels * (self.n + 1) - 1, 0, self.n - 1)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, self.n - 1)
        return np.asarray(self._sorted[low] + (at - low) * (self._sorted[high] - self._sorted[low]))

    def percentile(self, percent: float) -> float:
        """See `Samples.percentile`."""
        return float(self._sorted[max(int(np.ceil(round(percent * self.n / 100, 9))) - 1, 0)])


class Binned:
    """Counts in classes.

    Args:
        counts: per cell and class.
        edges: lower edges of the classes and the upper one of the last, one more than classes.
        sums: exact sums, per cell.
    """

    def __init__(self, counts: NDArray[np.int64], edges: Floats, sums: Floats) -> None:
        self._bins, self._edges, self.sums = counts, edges, sums
        self.counts = counts.sum(axis=1).astype(np.float64)
        self.n = int(self.counts.sum())
        self._cumulative = np.cumsum(counts.sum(axis=0))

    @cached_property
    def ranks(self) -> Floats:
        """See `Samples.ranks`."""
        middle = (self._cumulative - self._bins.sum(axis=0) / 2) / self.n - 0.5
        return np.asarray(self._bins @ middle)

    @cached_property
    def shape(self) -> tuple[float, float]:
        """See `Samples.shape`; a class counts as its middle."""
        return _shape((self._edges[:-1] + self._edges[1:]) / 2, self._bins.sum(axis=0) / self.n)

    def below(self, value: float) -> Floats:
        """See `Samples.below`; a class counts when it begins at or below the value."""
        upto = int(np.searchsorted(self._edges, value, side="right"))
        return np.asarray(self._bins[:, :upto].sum(axis=1), dtype=np.float64)

    def quantile(self, levels: Floats) -> Floats:
        """See `Samples.quantile`; within a class samples are spread evenly."""
        wanted = np.clip(levels, 0, 1) * self.n
        at = np.minimum(np.searchsorted(self._cumulative, wanted), len(self._cumulative) - 1)
        held = np.maximum(np.diff(np.concatenate(([0], self._cumulative)))[at], 1)
        share = np.clip(1 - (self._cumulative[at] - wanted) / held, 0, 1)
        return np.asarray(self._edges[at] + share * (self._edges[at + 1] - self._edges[at]))

    def percentile(self, percent: float) -> float:
        """See `Samples.percentile`, within a class's width."""
        return float(self.quantile(np.array([percent / 100]))[0])

"""Gaps between tokens, counted in narrow classes and cells of time: a million answers have too many to keep.

Pure maths, no I/O, no clock. Memory is bounded: when there are too many cells of time, two neighbours become one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmload.metrics.series import Binned, Floats

MAX_CELLS = 256
WIDTH = 0.002
"""Relative width of a class."""
_CLASSES = int(np.log(3.6e9) / WIDTH) + 2
_EDGES_S: Floats = np.concatenate(([0.0], np.exp(np.arange(_CLASSES) * WIDTH) * 1e-6))
FIRST_CELL_NS = 125_000_000


class Gaps:
    """Counts of gaps by the time at which their request started."""

    def __init__(self) -> None:
        self.width_ns = FIRST_CELL_NS
        self._cells: dict[int, NDArray[np.int64]] = {}
        self._sums_s: dict[int, float] = {}

    def add(self, started_ns: NDArray[np.int64], gap_counts: NDArray[np.int64], gaps_us: NDArray[np.int64]) -> None:
        """Count the gaps of some requests; `gap_counts` says how many of `gaps_us` belong to each."""
        if not len(gaps_us):
            return
        keys, places = np.unique(np.repeat(started_ns, gap_counts) // self.width_ns, return_inverse=True)
        classes = np.where(gaps_us < 1, 0, np.log(np.maximum(gaps_us, 1)) / WIDTH + 1).astype(np.int64)
        classes = np.minimum(classes, _CLASSES - 1)
        sums = np.bincount(places, weights=gaps_us / 1e6)
        for at, key in enumerate(keys.tolist()):
            found = np.bincount(classes[places == at], minlength=_CLASSES)
            self._put(key, found, float(sums[at]))
        while len(self._cells) > MAX_CELLS:
            self._widen()

    def _put(self, key: int, counts: NDArray[np.int64], sum_s: float) -> None:
        held = self._cells.get(key)
        self._cells[key] = counts if held is None else held + counts
        self._sums_s[key] = self._sums_s.get(key, 0.0) + sum_s

    def _widen(self) -> None:
        cells, sums, self._cells, self._sums_s = self._cells, self._sums_s, {}, {}
        self.width_ns *= 2
        for key, counts in cells.items():
            self._put(key // 2, counts, sums[key])

    def binned(self) -> Binned | None:
        """Return the counts in the order of time, None when there are none."""
        if not self._cells:
            return None
        order = sorted(self._cells)
        counts = np.stack([self._cells[key] for key in order])
        return Binned(counts, _EDGES_S[: _CLASSES + 1], np.array([self._sums_s[key] for key in order]))

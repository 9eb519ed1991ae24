"""How much samples say that resemble their neighbours in time: the variance of their sum, and how sure that is.

Pure maths, no I/O, no clock.

* The variance of the sum comes from the slowest waves of the samples: with cosines of 1 to B half turns over the run,
  each product with the samples has that variance, and is nearly independent of the others, so that a sum divided by it
  follows Student's t with B degrees of freedom (Müller 2007; Lazarus, Lewis, Stock and Watson 2018).
* B comes from how alike neighbours are, as autoregression of order 1 sees it (Andrews 1991): the more alike, the fewer
  waves are slow. It is looked at in cells of 1, 2, 4 … samples, since a weak likeness that lasts drowns in the noise of
  single samples, and the most cautious answer counts. Correlation of short series is too small on average: Marriott
  and Pope (1954) say by how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import pi, sqrt

import numpy as np

from llmload.metrics.series import Floats

MAX_WAVES = 128
MIN_WAVES = 2
MIN_CELLS = 64
"""Likeness is looked at in as many cells at least: of fewer it is mostly noise."""
BIAS = 0.1
"""The share by which the variance of the waves may be wrong, under autoregression of order 1."""
DOUBT = 1.0
"""Standard errors by which a correlation that stands out of the noise is taken for larger in `Likeness.variance`."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What neighbours in time have in common."""

    waves: int
    """So many waves are slow enough to tell the variance of the sum: degrees of freedom of its doubt."""
    variance: float
    """Of the sum, as autoregression of order 1 sees it: rough, but its doubt is another than that of the waves."""
    found: bool
    """Whether a correlation stands out of the noise."""


def likeness(cells: Floats) -> Likeness:
    """Return how alike neighbours are; the cells are sums over equal parts of the time, at least 2 of them."""
    waves, variance, found = min(MAX_WAVES, len(cells) / 2), 0.0, False
    least = min(MIN_CELLS, len(cells))
    while len(cells) >= least:
        n, off = len(cells), cells - cells.mean()
        square = float(off @ off)
        if square <= 1e-300:
            break
        r = _correlation(off, square)
        stands_out, error = r > 2 / sqrt(n), sqrt(max(1 - r * r, 0.0) / n)
        if r < -2 / sqrt(n):
            waves = min(waves, _slow_waves(n, r - error))
        if stands_out or not variance:
            waves = min(waves, _slow_waves(n, max(r + error, 0.0)))
            sure = min(r + DOUBT * error, 0.999) if stands_out else 0.0
            variance = max(variance, square * (1 + sure) / (1 - sure))
        found = found or stands_out
        cells = cells[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    return Likeness(max(int(waves), MIN_WAVES), variance, found)


def _correlation(off: Floats, square: float) -> float:
    """Return the correlation of neighbours, as of a long series."""
    n = len(off)
    r = float(2 * (off[1:] @ off[:-1]) / (2 * square - off[0] ** 2 - off[-1] ** 2))
    return min(r + (1 + 3 * r) / n, 0.999)


def _slow_waves(n: int, r: float) -> float:
    """Return how many waves differ from the slowest by `BIAS` on average: fall short, or with r below 0 exceed it.

    The spectrum of autoregression of order 1 is `1 / (1 + 2 r (1 - cos w) / (1 - r)**2)` of its value at 0, wave j has
    `w = pi j / n`, and the mean of j**2 up to B is near B**2 / 3.
    """
    return n * (1 - min(r, 0.999)) / pi * sqrt(3 * BIAS / abs(r)) if r else float(n)


def sum_variance(cells: Floats, waves: int) -> float:
    """Return the variance of the sum of cells whose mean is near 0, by their slowest waves."""
    found = _cosines(len(cells))[:waves] @ cells
    return float(found @ found) / len(found)


@lru_cache(maxsize=8)
def _cosines(n: int) -> Floats:
    turns = np.outer(np.arange(1, min(MAX_WAVES, n - 1) + 1), np.arange(n) + 0.5) / n
    return np.asarray(sqrt(2) * np.cos(pi * turns))

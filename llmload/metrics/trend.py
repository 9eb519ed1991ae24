"""Whether a series of runs goes up or down: Mann and Kendall's test. Pure maths, no I/O, no clock.

It asks in how many pairs the later value is the larger, and needs no shape and no distribution:
`S = sum of sign(x_j - x_i), i < j`; for unrelated values the variance of S is `(n (n - 1) (2 n + 5) - ties) / 18`, with
`t (t - 1) (2 t + 5)` for each group of t equal values (Mann 1945, Kendall 1975). With 4 runs or fewer no order is rare
enough to show anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import Literal

Trend = Literal["rising", "falling", "no trend shown"]
MIN_RUNS = 5


def trend(values: Sequence[float], *, confidence: float = 0.95) -> Trend:
    """Return what a series of at least `MIN_RUNS` values shows, the oldest first.

    >>> trend([1, 2, 3, 4, 5, 6]), trend([1, 3, 2, 1, 3, 2])
    ('rising', 'no trend shown')
    """
    n = len(values)
    if n < MIN_RUNS:
        return "no trend shown"
    s = sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1 :])
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    if variance <= 0 or abs(s) <= 1:
        return "no trend shown"
    z = (abs(s) - 1) / sqrt(variance)
    if z < NormalDist().inv_cdf(1 - (1 - confidence) / 2):
        return "no trend shown"
    return "rising" if s > 0 else "falling"

"""Quantiles of the normal and of Student's t distribution. Pure maths, without a statistics library.

>>> round(t_quantile(0.975, 4), 3), round(t_quantile(0.975, None), 3)
(2.776, 1.96)
"""

from __future__ import annotations

from math import atan, cos, pi, sin, sqrt
from statistics import NormalDist


def t_quantile(level: float, freedom: int | None) -> float:
    """Return the value below which a share `level` (above 1/2) of Student's t lies.

    Args:
        level: above 0.5 and below 1.
        freedom: degrees of freedom, at least 1; None is the normal distribution.
    """
    if freedom is None:
        return NormalDist().inv_cdf(level)
    low, high = 0.0, 1e7
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_cdf(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def _t_cdf(t: float, freedom: int) -> float:
    """The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = atan(t / sqrt(freedom))
    term = total = cos(angle) if freedom % 2 else 1.0
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cos(angle) ** 2 * (k - 1) / k
        total += term
    if freedom % 2:
        inner = 0.0 if freedom == 1 else sin(angle) * total
        return 0.5 + (angle + inner) / pi
    return 0.5 + sin(angle) * total / 2

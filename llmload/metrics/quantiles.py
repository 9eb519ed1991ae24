"""Quantiles of the normal and of Student's t distribution. Pure maths, without a statistics library.

>>> round(t_quantile(0.975, 4), 3), round(t_quantile(0.975, None), 3)
(2.776, 1.96)
"""

from __future__ import annotations

from math import atan, pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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
        short = _t_cdf(np.array([atan(middle / sqrt(freedom))]), freedom)[0] < level
        low, high = (middle, high) if short else (low, middle)
    return (low + high) / 2


def t_quantiles(levels: Floats, freedom: int) -> Floats:
    """Return the values below which shares `levels` (0 to 1) of Student's t lie, to four digits."""
    angles = np.linspace(-pi / 2, pi / 2, 2049)
    return np.asarray(sqrt(freedom) * np.tan(np.interp(levels, _t_cdf(angles, freedom), angles)))


def _t_cdf(angle: Floats, freedom: int) -> Floats:
    """The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4; the angle's tangent is t / sqrt(freedom)."""
    cosine, sine = np.cos(angle), np.sin(angle)
    term = total = cosine if freedom % 2 else np.ones_like(cosine)
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term = term * cosine**2 * (k - 1) / k
        total = total + term
    if freedom % 2:
        return np.asarray(0.5 + (angle + (0.0 if freedom == 1 else sine * total)) / pi)
    return np.asarray(0.5 + sine * total / 2)

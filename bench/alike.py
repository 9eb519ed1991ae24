"""Made-up samples with a known truth, alike in time as a server's are: what intervals are tested on."""

from __future__ import annotations

from math import exp, sqrt
from statistics import NormalDist

import numpy as np

SIGMA = 0.6
"""Spread of the logarithm: the 99th percentile is four times the median."""


def latencies(rng, n, rho, series):
    """Return `series` columns of n log-normal latencies around 1; neighbours correlate by `rho` (AR(1))."""
    steps = rng.standard_normal((n, series)) * sqrt(1 - rho * rho)
    steps[0] /= sqrt(1 - rho * rho)
    if rho:
        for at in range(1, n):
            steps[at] += rho * steps[at - 1]
    return np.exp(SIGMA * steps)


def truth(statistic):
    """Return the true value of a statistic of `latencies`."""
    if statistic == "mean":
        return exp(SIGMA**2 / 2)
    return exp(SIGMA * NormalDist().inv_cdf(float(statistic[1:]) / 100))

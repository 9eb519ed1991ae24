"""Made-up samples with a known truth, alike in time as a server's are: what intervals are tested on."""

from __future__ import annotations

from math import exp, log, pi, sqrt
from statistics import NormalDist

import numpy as np

SIGMA = 0.6
"""Spread of the logarithm: the 99th percentile is four times the median."""
STAYS = (80, 20)
"""Requests for which a server stays fast, and slow, on average."""
SLOWER = log(2)
LOAD = 0.5
FAILING = 10
"""Answers for which a server goes on failing, on average."""


def latencies(rng, n, rho, series):
    """Return `series` columns of n log-normal latencies around 1; neighbours correlate by `rho` (AR(1))."""
    return np.exp(SIGMA * _likeness(rng, n, rho, series))


def _likeness(rng, n, rho, series):
    steps = rng.standard_normal((n, series)) * sqrt(1 - rho * rho)
    steps[0] /= sqrt(1 - rho * rho)
    if rho:
        for at in range(1, n):
            steps[at] += rho * steps[at - 1]
    return steps


def truth(statistic, shifts=(0.0,), weights=(1.0,)):
    """Return the true value of a statistic of `latencies`, also where some are shifted on the logarithmic scale."""
    shifts, weights = np.asarray(shifts), np.asarray(weights) / np.sum(weights)
    if statistic == "mean":
        return exp(SIGMA**2 / 2) * float(weights @ np.exp(shifts))
    level, low, high = float(statistic[1:]) / 100, -9.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2
        below = sum(w * NormalDist().cdf((middle - s) / SIGMA) for s, w in zip(shifts, weights, strict=True))
        low, high = (middle, high) if below < level else (low, middle)
    return exp(low)


def regimes(rng, n, stays, series):
    """Return columns of 0 and 1: a state that lasts for so many samples on average, then the other."""
    states = np.empty((n, series), dtype=np.int64)
    states[0] = rng.random(series) < stays[1] / sum(stays)
    leave = 1 / np.asarray(stays)
    for at in range(1, n):
        states[at] = states[at - 1] ^ (rng.random(series) < leave[states[at - 1]])
    return states


def averages(rng, n, series):
    """Each latency shares nine of its ten causes with the next: a moving average."""
    steps = np.cumsum(np.vstack([np.zeros((1, series)), rng.standard_normal((n + 9, series))]), axis=0)
    return np.exp(SIGMA * (steps[10:] - steps[:-10]) / sqrt(10)), truth


def two_speeds(rng, n, series):
    """A server that is twice as slow for 20 requests now and then."""
    states = regimes(rng, n, STAYS, series)
    return latencies(rng, n, 0.0, series) * np.exp(SLOWER * states), lambda one: truth(one, (0, SLOWER), STAYS)


def queue(rng, n, series):
    """The time in an M/M/1 queue at half load: who meets a full queue waits, and so does the next."""
    found = np.empty((n, series))
    found[0] = rng.exponential(1 / (1 - LOAD), series)
    for at in range(1, n):
        waited = np.maximum(found[at - 1] - rng.exponential(1 / LOAD, series), 0)
        found[at] = waited + rng.exponential(1, series)
    return found, lambda one: (1 if one == "mean" else -log(1 - float(one[1:]) / 100)) / (1 - LOAD)


def waves(rng, n, series):
    """Load that comes and goes ten times, by 30 % both ways."""
    phases = 2 * pi * (10 * np.arange(n)[:, None] / n + rng.random(series))
    return _moved(rng, n, series, 0.3 * np.sin(phases), 0.3 * np.sin(2 * pi * np.arange(n) * 10 / n))


def drift(rng, n, series):
    """A server that gets slower, by 40 % from begin to end."""
    return _moved(rng, n, series, np.linspace(-0.2, 0.2, n)[:, None], np.linspace(-0.2, 0.2, n))


def step(rng, n, series):
    """A server that is 40 % slower from the middle on."""
    level = np.repeat([-0.2, 0.2], [n // 2, n - n // 2])
    return _moved(rng, n, series, level[:, None], level)


def _moved(rng, n, series, by, shifts):
    """The truth is that of all of the run, whatever it was at which time."""
    return latencies(rng, n, 0.3, series) * np.exp(by), lambda one: truth(one, shifts, np.ones(n))


KINDS = {
    "moving average of 10": averages,
    "two speeds": two_speeds,
    "queue at half load": queue,
    "waves": waves,
    "drift of 40 %": drift,
    "step of 40 %": step,
}


def failures(rng, n, rate, series, *, bursts):
    """Return columns of n answers, 1 for a failed one, `rate` of all; with `bursts` they fail ten in a row."""
    if not bursts:
        return (rng.random((n, series)) < rate).astype(np.float64)
    return regimes(rng, n, (FAILING * (1 - rate) / rate, FAILING), series).astype(np.float64)

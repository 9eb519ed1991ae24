"""How sure a mean or a percentile is, when samples that are near in time resemble each other.

Pure maths with a seeded generator: the same samples give the same interval. docs/compare.md has the method, its
sources, and tables of how often its intervals hold the truth.

Samples are cut into blocks over time, long enough that one block says little about the next; blocks are what is
drawn again. Their length comes from the data: twice that of Politis and White (2004, corrected by Patton, Politis and
White 2009), found for the ranks of the samples and for what the statistic looks at, the longer of the two.

* A mean: the bootstrap-t over blocks, `mean - t * SE` with t from resampled blocks.
* A percentile: resampling is inverted, as in Schultzberg and Ankargren (2022). The level at which the true percentile
  lies among the samples follows a beta distribution, as with order statistics; n is replaced by the effective number
  of samples, `n p (1 - p) / Var`, with the variance that the blocks show, and the doubt about that variance is drawn
  from its chi-square distribution, which is what makes an interval wider with few blocks.

Each result is a whole confidence distribution, so that differences and ratios of two runs are worked out from pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, log10, sqrt

import numpy as np

from llmload.metrics.series import Floats, Samples, Series

DRAWS = 2000
POINTS = 127
"""Quantiles by which a confidence distribution is kept: 127 squared pairs make a difference."""
LEVELS: Floats = (np.arange(POINTS) + 0.5) / POINTS
MIN_BLOCKS, MAX_BLOCKS = 8, 128
"""A weak correlation hides in the noise of many short blocks; 128 tell the variance well enough."""
MIN_EFFECTIVE = 30.0
MIN_BEYOND = 5.0
"""Effective samples beyond a percentile: with fewer, an interval is a guess and none is given. p95 needs 100
independent samples, p99 500."""


class TooFew(ValueError):
    """There are too few samples, or they resemble each other too much, for an interval. The text says which."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic of a run and its confidence distribution."""

    value: float
    n: int
    effective: float
    """So many independent samples say as much as the `n` do."""
    blocks: int
    block: float
    """Samples in a block, on average."""
    grid: Floats
    """Quantiles of the confidence distribution at `LEVELS`, ascending."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds the true value with this confidence (0 to 1), as far as blocks tell."""
        return bounds(self.grid, confidence)


def bounds(distribution: Floats, confidence: float) -> tuple[float, float]:
    """Return the equal-tailed interval of a confidence distribution that is given by many equally likely values."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(distribution, [tail, 1 - tail], method="hazen")
    return float(low), float(high)


def interval(
    values: Sequence[float] | Floats, statistic: str, *, confidence: float = 0.95, seed: int = 1
) -> tuple[float, float]:
    """Return the interval of `mean` or `pNN` of samples in the order of time.

    Raises:
        TooFew: nothing can be said.
    """
    return estimate(Series(values), statistic, seed=seed).interval(confidence)


def estimate(samples: Samples, statistic: str, *, seed: int = 1) -> Estimate:
    """Return the estimate of `mean` or `pNN`.

    Raises:
        TooFew: nothing can be said; the text tells why.
    """
    level = 0.5 if statistic == "mean" else float(statistic[1:]) / 100
    length = block_length(samples.ranks)
    _refuse_few(samples, length, min(level, 1 - level))
    if statistic == "mean":
        return _mean(samples, length, seed)
    return _percentile(samples, level, length, seed)


def _refuse_few(samples: Samples, length: float, beyond: float) -> None:
    needed = max(MIN_EFFECTIVE, MIN_BEYOND / beyond)
    effective = float(samples.n)
    if length > 1 and samples.n >= needed:
        found = _blocks(samples.ranks, length)
        # the ranks of independent samples have a variance of 1/12 each
        effective = min(effective, samples.n**2 / 12 / (float(np.var(found, ddof=1)) * len(found)))
    if effective < needed * (1 - 1e-9):
        alike = f" that say as much as {effective:.0f} independent ones" if effective < samples.n else ""
        raise TooFew(f"too few samples: {samples.n:,}{alike}, {needed:.0f} are needed")


def _mean(samples: Samples, length: float, seed: int) -> Estimate:
    value = float(samples.sums.sum() / samples.n)
    errors = samples.sums - value * samples.counts
    length = max(length, block_length(errors))
    sums, counts = _blocks(samples.sums, length), _blocks(samples.counts, length)
    k = len(sums)
    error = sqrt(float(np.sum((sums - value * counts) ** 2)) * k / (k - 1)) / samples.n
    drawn = _weights(k, seed)
    means = (drawn @ sums) / (drawn @ counts)
    square = drawn @ sums**2 - 2 * means * (drawn @ (sums * counts)) + means**2 * (drawn @ counts**2)
    errors_drawn = np.sqrt(np.maximum(square, 0) * k / (k - 1)) / (drawn @ counts)
    # a draw that is one block again and again has no spread: its t would be infinite
    usable = errors_drawn > error * 1e-6
    t = (means[usable] - value) / errors_drawn[usable]
    grid = np.quantile(value - t * error, LEVELS) if len(t) else np.full(POINTS, value)
    plain = float(np.sum(errors**2))
    effective = min(samples.n, samples.n * plain / (error * samples.n) ** 2) if error else float(samples.n)
    return Estimate(value, samples.n, effective, k, samples.n / k, grid)


def _percentile(samples: Samples, level: float, length: float, seed: int) -> Estimate:
    value = samples.percentile(level * 100)
    errors = samples.below(value) - level * samples.counts
    length = max(length, block_length(errors))
    found = _blocks(errors - errors.mean(), length)
    k, variance = len(found), level * (1 - level)
    drawn = max(float(np.var(found, ddof=1)) * k, samples.n * variance)
    effective = samples.n * samples.n * variance / drawn
    random = np.random.default_rng(seed)
    size = effective * random.chisquare(k - 1, DRAWS) / (k - 1) + 1
    levels = random.beta(size * level, size * (1 - level))
    return Estimate(value, samples.n, effective, k, samples.n / k, np.quantile(samples.quantile(levels), LEVELS))


def share(flags: Samples, *, seed: int = 1) -> Estimate:
    """Return the share of samples that are 1 and not 0, such as failures among answers.

    Also where none or all are: Jeffreys' interval, `Beta(x + 1/2, n - x + 1/2)`, with the effective number of samples.

    Raises:
        TooFew: nothing can be said; the text tells why.
    """
    if flags.n < MIN_EFFECTIVE:
        raise TooFew(f"too few samples: {flags.n:,}, {MIN_EFFECTIVE:.0f} are needed")
    value = float(flags.sums.sum() / flags.n)
    errors = flags.sums - value * flags.counts
    found = _blocks(errors, block_length(errors))
    k, plain = len(found), flags.n * value * (1 - value)
    drawn = max(float(np.var(found, ddof=1)) * k, plain)
    effective = flags.n * (plain / drawn if drawn > 0 else 1.0)
    random = np.random.default_rng(seed)
    size = effective * random.chisquare(k - 1, DRAWS) / (k - 1)
    drawn_shares = random.beta(size * value + 0.5, size * (1 - value) + 0.5)
    return Estimate(value, flags.n, effective, k, flags.n / k, np.quantile(drawn_shares, LEVELS))


def scaled(one: Estimate, value: float, *, n: int) -> Estimate:
    """Return an estimate of the same relative doubt around another value, of `n` samples."""
    return replace(one, value=value, n=n, grid=one.grid * (value / one.value))


def _blocks(cells: Floats, length: float) -> Floats:
    """Return sums over blocks of `length` cells or more, `MIN_BLOCKS` of them where there are as many cells."""
    count = min(max(min(MIN_BLOCKS, len(cells)), int(len(cells) / length)), MAX_BLOCKS)
    return np.add.reduceat(cells, (np.arange(count) * len(cells)) // count)


@lru_cache(maxsize=64)
def _weights(blocks: int, seed: int) -> Floats:
    """How often each draw takes each block; the same for every metric of a run."""
    return np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), DRAWS).astype(np.float64)


def block_length(cells: Floats) -> float:
    """Return how many cells a block should hold, 1 where neighbours do not resemble each other.

    The rule of Politis and White: autocorrelations up to the last that stands out of the noise, weighted by a flat-top
    window, give the length that makes the variance most exact. It is doubled here, because with few blocks a variance
    that is too small does more harm than one that is noisy.
    """
    n = len(cells)
    if n < 2 * MIN_BLOCKS:
        return 1.0
    centred = cells - cells.mean()
    covariance = np.fft.irfft(np.abs(np.fft.rfft(centred, 2 * n)) ** 2)[:n] / n
    if covariance[0] <= 1e-300:
        return 1.0
    last = _last_lag(covariance / covariance[0])
    if last == 0:
        return 1.0
    span = min(2 * last, n - 1)
    lags = np.arange(1, span + 1)
    weighted = np.clip(2 * (1 - lags / span), 0, 1) * covariance[1 : span + 1]
    flat = 4 / 3 * (covariance[0] + 2 * weighted.sum()) ** 2
    if flat <= 0:
        return 1.0
    best = float(2 * (2 * (lags * weighted).sum()) ** 2 / flat) ** (1 / 3) * n ** (1 / 3)
    return float(max(1, ceil(2 * best))) if best > 1 else 1.0


def _last_lag(correlation: Floats) -> int:
    """Return the lag after which a run of several autocorrelations stays within the noise."""
    n = len(correlation)
    together, most = max(5, ceil(sqrt(log10(n)))), min(ceil(sqrt(n)) + 5, n // 2)
    loud = np.abs(correlation[1 : most + together + 1]) >= 2 * sqrt(log10(n) / n)
    for lag in range(most):
        if not loud[lag : lag + together].any():
            return lag
    return most

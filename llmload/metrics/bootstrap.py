"""How sure a mean, a percentile or a share is, when samples that are near in time resemble each other.

Pure maths with a seeded generator: the same samples give the same interval. docs/compare.md has the method, its
sources, and tables of how often its intervals hold the truth.

`longrun` says what the variance of a sum over the whole run is, and how sure that is (degrees of freedom).

* A mean: Student's t, corrected for the skewness of the samples (Hall 1992).
* A percentile: resampling is inverted, as in Schultzberg and Ankargren (2022). The level at which the true percentile
  lies among the samples follows a beta distribution, as with order statistics; n is replaced by the effective number
  of samples, `n p (1 - p) / Var`, and the doubt about that variance is drawn from its chi-square distribution.
* A share: Jeffreys' interval, in the same way.

Each result is a whole confidence distribution, so that differences and ratios of two runs are worked out from pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt

import numpy as np

from llmload.metrics.longrun import Likeness, likeness, sum_variance
from llmload.metrics.quantiles import t_quantiles
from llmload.metrics.series import Floats, Samples, Series

DRAWS = 4000
POINTS = 127
"""Quantiles by which a confidence distribution is kept: 127 squared pairs make a difference."""
LEVELS: Floats = (np.arange(POINTS) + 0.5) / POINTS
MIN_SAMPLES = 30
MIN_EFFECTIVE = 20.0
MIN_BEYOND = 5.0
"""Effective samples beyond a percentile: with fewer, an interval is a guess and none is given. p95 needs 100
independent samples, p99 500."""
NEAR = 1.1
"""Up to so many times what is needed, the likeness of neighbours may have been found too small by chance."""


class TooFew(ValueError):
    """There are too few samples, or they resemble each other too much, for an interval. The text says which."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic of a run and its confidence distribution."""

    value: float
    n: int
    effective: float
    """So many independent samples say as much as the `n` do."""
    grid: Floats
    """Quantiles of the confidence distribution at `LEVELS`, ascending."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds the true value with this confidence (0 to 1)."""
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
    alike = likeness(samples.ranks)
    near = _room(samples, alike, min(level, 1 - level))
    if statistic == "mean":
        return _mean(samples, alike, near)
    return _percentile(samples, level, alike, near, seed)


def _room(samples: Samples, alike: Likeness, beyond: float) -> float:
    """Return how near the samples are to being too few: the effective number that is surely enough / what they have.

    Likeness is seen in the ranks, whatever the distribution; those of independent samples have a variance of 1/12.
    """
    needed = max(MIN_EFFECTIVE, MIN_BEYOND / beyond)
    least = max(MIN_SAMPLES, MIN_BEYOND / beyond)
    if samples.n < least * (1 - 1e-9):
        raise TooFew(f"too few samples: {samples.n:,}, {least:.0f} are needed")
    effective = min(samples.n, samples.n**2 / 12 / alike.variance) if alike.variance else samples.n
    if effective < needed * (1 - 1e-9):
        raise TooFew(
            f"too few samples: {samples.n:,} that say as much as {effective:.0f} independent ones, "
            f"{needed:.0f} are needed"
        )
    return min(NEAR * needed, samples.n) / effective


def _variance(errors: Floats, alike: Likeness, near: float) -> tuple[float, int]:
    """Return the variance of the sum of the errors, and its degrees of freedom.

    Samples that are hardly enough would often have been refused, had their likeness not been found too small by
    chance. So there, and more the nearer they are, the rougher variance counts too, if it is larger.
    """
    errors = errors - errors.mean()
    found = likeness(errors)
    waves = min(found.waves, alike.waves)
    rough = found.variance * (near**2 if found.found else float(near >= 1))
    return max(sum_variance(errors, waves), rough), waves


def _mean(samples: Samples, alike: Likeness, near: float) -> Estimate:
    value = float(samples.sums.sum() / samples.n)
    variance, waves = _variance(samples.sums - value * samples.counts, alike, near)
    spread, skewness = samples.shape
    effective = min(samples.n, samples.n**2 * spread / variance) if variance > 0 else float(samples.n)
    t = _with_skewness(t_quantiles(LEVELS, waves), skewness / sqrt(effective))
    return Estimate(value, samples.n, effective, np.sort(value - t * sqrt(variance) / samples.n))


def _with_skewness(t: Floats, skewness: float) -> Floats:
    """Return quantiles of a studentised mean whose skewness is this, from those of t: Hall's cubic, inverted.

    `t + s t**2 / 3 + s**2 t**3 / 27 + s / 6` has hardly a skewness left.
    """
    if abs(skewness) < 1e-6:
        return t
    return np.asarray(3 / skewness * (np.cbrt(1 + skewness * (t - skewness / 6)) - 1))


def _percentile(samples: Samples, level: float, alike: Likeness, near: float, seed: int) -> Estimate:
    value = samples.percentile(level * 100)
    variance, waves = _variance(samples.below(value) - level * samples.counts, alike, near)
    plain = samples.n * level * (1 - level)
    effective = samples.n * plain / variance if variance > 0 else float(samples.n)
    size = effective * _doubt(waves, seed) + 1
    levels = np.random.default_rng(seed).beta(size * level, size * (1 - level))
    return Estimate(value, samples.n, min(effective, samples.n), np.quantile(samples.quantile(levels), LEVELS))


@lru_cache(maxsize=256)
def _doubt(waves: int, seed: int) -> Floats:
    """Return draws of variance as found / true variance."""
    return np.random.default_rng((seed, waves)).chisquare(waves, DRAWS) / waves


def share(flags: Samples, *, seed: int = 1) -> Estimate:
    """Return the share of samples that are 1 and not 0, such as failures among answers.

    Also where none or all are: Jeffreys' interval, `Beta(x + 1/2, n - x + 1/2)`, with the effective number of samples.

    Raises:
        TooFew: nothing can be said; the text tells why.
    """
    if flags.n < MIN_SAMPLES:
        raise TooFew(f"too few samples: {flags.n:,}, {MIN_SAMPLES} are needed")
    value = float(flags.sums.sum() / flags.n)
    errors = flags.sums - value * flags.counts
    variance, waves = _variance(errors, likeness(errors), 1.0)
    plain = flags.n * value * (1 - value)
    effective = flags.n * plain / max(variance, plain) if plain else float(flags.n)
    size = effective * _doubt(waves, seed)
    shares = np.random.default_rng(seed).beta(size * value + 0.5, size * (1 - value) + 0.5)
    return Estimate(value, flags.n, effective, np.quantile(shares, LEVELS))


def as_shared(one: Estimate, share_of_n: float) -> Estimate:
    """Return the estimate of a share of 0 or 1 whose samples say as much as this part of their number.

    A run without a failure does not tell whether its failures would come one by one or many at a time; another does.
    """
    effective = one.n * share_of_n
    drawn = np.random.default_rng(1).beta(0.5, effective + 0.5, DRAWS)
    return replace(one, effective=effective, grid=np.quantile(drawn if one.value == 0 else 1 - drawn, LEVELS))


def scaled(one: Estimate, value: float, *, n: int) -> Estimate:
    """Return an estimate of the same relative doubt around another value, of `n` samples."""
    return replace(one, value=value, n=n, grid=one.grid * (value / one.value))

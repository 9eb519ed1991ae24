"""Arrival schedules against closed forms, without a clock: mean, variance and distribution of the merged stream."""

import heapq
import itertools
import math
from statistics import NormalDist

import pytest

from llmload.pacing.arrivals import Arrivals, processes_for, radical_inverse

SECONDS = 400.0


def merged(arrivals, *, workers, count, rate=1.0, seconds=SECONDS):
    """Return the arrivals of all processes, each worker's merged first, as they would reach a server."""
    streams = [
        heapq.merge(*(arrivals.times(i, count=count, rate=rate) for i in range(worker, count, workers)))
        for worker in range(workers)
    ]
    return list(itertools.takewhile(lambda at_s: at_s <= seconds, heapq.merge(*streams)))


def gaps(times):
    return [after - before for before, after in itertools.pairwise([0.0, *times])]


def moments(values):
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / len(values)


def ks(values, cdf):
    """Return the Kolmogorov-Smirnov distance times the root of n: below 1.63 in 99 of 100 true cases."""
    ordered, n = sorted(values), len(values)
    distance = max(max((i + 1) / n - cdf(v), cdf(v) - i / n) for i, v in enumerate(ordered))
    return distance * math.sqrt(n)


def erlang_cdf(shape, rate):
    """The gamma distribution of a whole shape, in closed form: 1 - e^-x (1 + x + x²/2! + ...)."""
    return lambda gap: 1 - math.exp(-rate * gap) * sum((rate * gap) ** k / math.factorial(k) for k in range(shape))


def gamma_half_cdf(rate):
    """Of shape 1/2: the square of a normal variable, so erf(√x)."""
    return lambda gap: 2 * NormalDist().cdf(math.sqrt(2 * rate * gap)) - 1


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize(
    ("arrivals", "cdf"),
    [
        (Arrivals("poisson", seed=7), erlang_cdf(1, 24)),
        (Arrivals("gamma", 1.0, seed=7), erlang_cdf(1, 24)),
        (Arrivals("gamma", 4.0, seed=7), erlang_cdf(4, 4 * 24)),
        (Arrivals("gamma", 0.5, seed=7), gamma_half_cdf(0.5 * 24)),
    ],
    ids=["poisson", "gamma 1", "gamma 4", "gamma 0.5"],
)
def test_merged_gaps_have_the_distribution(workers, arrivals, cdf):
    """24 processes of 1/s: mean 1/24 s, variance cv²/24², and the whole distribution, over 1, 3 and 8 workers."""
    values = gaps(merged(arrivals, workers=workers, count=24))
    mean, variance = moments(values)
    assert mean == pytest.approx(1 / 24, rel=0.04)
    assert variance * 24**2 == pytest.approx(arrivals.cv2, rel=0.1)
    assert ks(values, cdf) < 1.63


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize("count", [1, 5, 12, 64, 100])
def test_merged_constant_arrivals_are_even(workers, count):
    """However many processes, however dealt: every gap is 1 / R."""
    times = merged(Arrivals("constant"), workers=workers, count=count, rate=0.5, seconds=20.0)
    assert times == pytest.approx([k / (0.5 * count) for k in range(1, len(times) + 1)])
    assert len(times) == 10 * count


@pytest.mark.parametrize("model", ["constant", "poisson", "gamma"])
def test_the_merged_stream_is_the_same_for_any_number_of_workers(model):
    """Same seed, same arrivals; another seed, others."""
    streams = [merged(Arrivals(model, 0.3, seed=5), workers=n, count=10, seconds=50.0) for n in (1, 3, 8)]
    assert streams[0] == streams[1] == streams[2]
    assert (merged(Arrivals(model, 0.3, seed=6), workers=1, count=10, seconds=50.0) == streams[0]) == (
        model == "constant"
    )


def test_poisson_counts_are_poisson():
    """Arrivals per second: the variance is the mean, and seconds know nothing of each other."""
    times = merged(Arrivals("poisson", seed=3), workers=3, count=12, seconds=2000.0)
    counts = [0] * 2001
    for at_s in times:
        counts[int(at_s)] += 1
    mean, variance = moments(counts[:2000])
    assert mean == pytest.approx(12, rel=0.02)
    assert variance == pytest.approx(12, rel=0.1)
    lagged = sum((a - mean) * (b - mean) for a, b in itertools.pairwise(counts[:2000])) / 1999 / variance
    assert abs(lagged) < 0.07


def test_independent_gamma_processes_would_lose_their_burstiness():
    """Why gamma is one process dealt out: of 24 independent ones of cv² 10 the merged gaps have half of it or less."""
    alone = [Arrivals("gamma", 0.1, seed=s).times(0, count=1, rate=1.0) for s in range(24)]
    mean, variance = moments(gaps(itertools.takewhile(lambda at_s: at_s < 2000, heapq.merge(*alone))))
    assert variance / mean**2 < 5
    dealt = merged(Arrivals("gamma", 0.1, seed=1), workers=8, count=24, seconds=2000.0)
    mean, variance = moments(gaps(dealt))
    assert variance / mean**2 == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("model", ["constant", "poisson", "gamma"])
def test_a_process_can_be_joined_late(model):
    """Arrivals after an instant are those that a process from the start would still have had."""
    arrivals = Arrivals(model, 0.5, seed=2)
    early = itertools.islice(arrivals.times(4, count=6, rate=0.7), 200)
    late = itertools.islice(arrivals.times(4, count=6, rate=0.7, after_s=90.0), 20)
    assert list(late) == [at_s for at_s in early if at_s > 90.0][:20]


def test_the_first_processes_are_spread_already():
    """While a load is being started its arrivals are not bunched: no gap is more than three times another."""
    for running in (2, 3, 5, 8, 13):
        streams = [Arrivals("constant").times(i, count=100, rate=1.0) for i in range(running)]
        times = list(itertools.takewhile(lambda at_s: at_s < 4, heapq.merge(*streams)))
        between = gaps(times)[1:]
        assert max(between) / min(between) < 3


def test_processes_beyond_the_plan_are_a_load_of_their_own():
    """The slider may go beyond what was planned: the further processes fall between the others, or are independent."""
    twice = [Arrivals("constant").times(i, count=4, rate=1.0) for i in range(8)]
    times = list(itertools.takewhile(lambda at_s: at_s < 3, heapq.merge(*twice)))
    assert gaps(times) == pytest.approx([0.125] * 23)
    gamma = Arrivals("gamma", 0.5)
    first, second = (next(gamma.times(i, count=4, rate=1.0)) for i in (0, 4))
    assert first != second


@pytest.mark.parametrize(
    ("rate", "count"), [(12, 12), (12.5, 13), (0.5, 1), (1, 1), (0.1 + 0.2, 1), (3.0000000000000004, 3)]
)
def test_rates_are_floats(rate, count):
    """STAT-12: a rate need not be whole; no process has more than 1/s."""
    processes, each = processes_for(rate)
    assert (processes, processes * each) == (count, pytest.approx(rate))
    assert each <= 1 + 1e-9


def test_radical_inverse():
    """Van der Corput's sequence."""
    assert [radical_inverse(n) for n in range(6)] == [0, 1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8]


def test_a_late_reader_of_a_gamma_process_sees_the_same():
    """Rounds that were dropped from memory are worked out anew, equal."""
    arrivals = Arrivals("gamma", 0.5, seed=9)
    fast = list(itertools.islice(arrivals.times(0, count=3, rate=1.0), 100))
    list(itertools.islice(arrivals.times(1, count=3, rate=1.0), 100))
    assert list(itertools.islice(arrivals.times(0, count=3, rate=1.0), 100)) == fast

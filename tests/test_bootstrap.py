"""Intervals hold the truth as often as they say, on made-up samples, also when neighbours resemble each other."""

import numpy as np
import pytest

from bench.alike import KINDS, drift, failures, latencies, step, truth
from llmload.metrics.bootstrap import TooFew, as_shared, estimate, interval, scaled, share
from llmload.metrics.gaps import Gaps
from llmload.metrics.longrun import likeness, sum_variance
from llmload.metrics.series import Series


def coverage(columns, statistic, value):
    """Return how many series got a 90 % interval, and the share of these that hold the value."""
    held = []
    for column in columns.T:
        try:
            low, high = estimate(Series(column), statistic).interval(0.9)
        except TooFew:
            continue
        held.append(low <= value <= high)
    return len(held), np.mean(held) if held else None


@pytest.mark.parametrize(
    ("n", "rho", "statistics"),
    [
        (100, 0.0, ("mean", "p50", "p90", "p95")),
        (300, 0.3, ("mean", "p95")),
        (300, 0.6, ("mean", "p50")),
        (1000, 0.0, ("p99",)),
        (1000, 0.9, ("mean", "p50")),
        (3000, 0.6, ("p95",)),
    ],
)
def test_nine_of_ten_intervals_hold_the_truth(n, rho, statistics):
    """A 90 % interval covers 87 to 93 % over 1,000 seeds, with a standard error of 0.95 %; nearly all get one."""
    columns = latencies(np.random.default_rng(n), n, rho, 1000)
    for statistic in statistics:
        given, held = coverage(columns, statistic, truth(statistic))
        assert given > 800, statistic
        assert 0.87 <= held <= 0.93, (statistic, held)


@pytest.mark.parametrize(("n", "rho"), [(100, 0.9), (300, 0.9)])
def test_series_too_much_alike_get_no_interval(n, rho):
    """100 samples with a correlation of 0.9 say as much as 5, 300 as 16: at most 2 % of them pass for more."""
    columns = latencies(np.random.default_rng(n), n, rho, 200)
    for statistic in ("mean", "p50", "p90", "p95"):
        assert coverage(columns, statistic, 1.0)[0] <= 4


def test_other_kinds_of_likeness_are_covered():
    """Two speeds and a queue: 87 % and more, with 3,000 samples."""
    for kind in ("two speeds", "queue at half load"):
        columns, value = KINDS[kind](np.random.default_rng(8), 3000, 400)
        for statistic in ("mean", "p90"):
            given, held = coverage(columns, statistic, value(statistic))
            assert given == 400
            assert held >= 0.87, (kind, statistic, held)


@pytest.mark.parametrize("kind", [drift, step])
def test_a_run_that_moves_is_doubted_more(kind):
    """What drifts or steps leaves the slowest waves large: the interval is wide, not narrow."""
    columns, value = kind(np.random.default_rng(7), 1000, 200)
    given, held = coverage(columns, "mean", value("mean"))
    assert given == 200
    assert held >= 0.93


def test_neighbours_that_resemble_each_other_say_less():
    """What independent samples would allow is too narrow by far."""
    rng = np.random.default_rng(3)
    alike, apart = latencies(rng, 2000, 0.9, 1)[:, 0], latencies(rng, 2000, 0.0, 1)[:, 0]
    one, other = estimate(Series(alike), "p50"), estimate(Series(apart), "p50")
    assert one.effective < 300 < other.effective
    few, many = likeness(Series(alike).ranks), likeness(Series(apart).ranks)
    assert (few.found, many.found) == (True, False)
    assert few.waves < 40 < many.waves
    assert few.variance > 10 * many.variance


def test_neighbours_that_alternate_say_more():
    """With a correlation of −0.5 intervals of the mean are narrower than of independent samples, and hold the truth."""
    widths = []
    for rho in (0.0, -0.5):
        columns = latencies(np.random.default_rng(11), 300, rho, 500)
        found = [estimate(Series(column), "mean").interval(0.9) for column in columns.T]
        assert 0.87 <= np.mean([low <= truth("mean") <= high for low, high in found]) <= 0.93
        widths.append(np.mean([high - low for low, high in found]))
    assert widths[1] < 0.8 * widths[0]


def test_waves_tell_the_variance_of_a_sum():
    """Of independent samples it is n, of AR(1) with correlation 0.5 three times that; 400 series, a few per cent."""
    rng = np.random.default_rng(9)
    for rho, expected in ((0.0, 1.0), (0.5, 3.0)):
        logs = np.log(latencies(rng, 1000, rho, 400)) / 0.6
        found = [sum_variance(column - column.mean(), 20) / 1000 for column in logs.T]
        assert np.mean(found) == pytest.approx(expected, rel=0.05)


def test_few_samples_give_no_interval():
    """p99 of 499 samples is the word of the largest four: none is given, and the text says how many are needed."""
    values = np.random.default_rng(1).random(499)
    with pytest.raises(TooFew, match="499, 500 are needed"):
        estimate(Series(values), "p99")
    with pytest.raises(TooFew, match="29, 30 are needed"):
        interval(values[:29], "mean")
    with pytest.raises(TooFew, match="say as much as"):
        estimate(Series(np.repeat(values[:4], 30)), "p95")


def test_an_interval_is_the_same_each_time():
    """The generator is seeded: a report that is written again says the same."""
    values = latencies(np.random.default_rng(2), 300, 0.3, 1)[:, 0]
    assert interval(values, "p90") == interval(values, "p90")
    assert interval(values, "mean") == interval(values, "mean")


def test_the_value_is_that_of_a_sorted_list():
    """Percentiles are samples: the smallest that pNN of all are not above; the mean is the mean."""
    values = np.random.default_rng(4).permutation(np.arange(1, 1001)).astype(float)
    series = Series(values)
    assert [estimate(series, name).value for name in ("mean", "p50", "p90", "p95", "p99")] == [
        500.5,
        500,
        900,
        950,
        990,
    ]


def test_equal_samples_leave_no_doubt():
    """1,000 times the same: the interval is a point."""
    assert interval([0.25] * 1000, "p95") == (0.25, 0.25)
    assert interval([0.25] * 1000, "mean") == (0.25, 0.25)


def test_a_share_of_none_is_not_certain():
    """No failure among 400 answers says that at most about 0.6 % fail (97.5 %)."""
    low, high = share(Series(np.zeros(400))).interval(0.95)
    assert low == pytest.approx(0, abs=1e-5)
    assert 0.004 < high < 0.008


def test_failures_that_come_many_at_a_time_are_doubted_more():
    """Of 1,000 answers 5 % fail: one by one the interval covers 87 to 93 %, ten in a row it is wider and holds, too."""
    rng, widths = np.random.default_rng(10), []
    for bursts in (False, True):
        found = [share(Series(one)).interval(0.9) for one in failures(rng, 1000, 0.05, 500, bursts=bursts).T]
        held = np.mean([low <= 0.05 <= high for low, high in found])
        assert held >= 0.87
        assert bursts or held <= 0.93
        widths.append(np.mean([high - low for low, high in found]))
    assert widths[1] > 2 * widths[0]


def test_a_share_of_none_takes_its_doubt_from_another():
    """No failure among 400 answers, where failures come ten at a time, allows ten times as many."""
    one = share(Series(np.zeros(400)))
    low, high = as_shared(one, 0.1).interval(0.95)
    assert high == pytest.approx(10 * one.interval(0.95)[1], rel=0.1)
    assert as_shared(share(Series(np.ones(400))), 0.1).interval(0.95)[0] == pytest.approx(1 - high, abs=1e-9)
    assert low < 1e-4


def test_scaling_keeps_the_relative_doubt():
    """Twice the value, twice the interval."""
    one = estimate(Series(np.random.default_rng(5).random(200)), "mean")
    other = scaled(one, one.value * 2, n=7)
    assert other.n == 7
    assert np.allclose(np.array(other.interval()), 2 * np.array(one.interval()))


def test_gaps_in_classes_tell_what_gaps_do():
    """Counted in classes of 0.2 %, a million gaps give the percentiles and the mean of the gaps themselves."""
    rng = np.random.default_rng(6)
    gaps_us = np.rint(latencies(rng, 100_000, 0.0, 1)[:, 0] * 20_000).astype(np.int64)
    gaps = Gaps()
    starts = np.arange(1000) * 400_000_000  # 400 s: cells have to be put together
    for at in range(0, 1000, 100):
        gaps.add(starts[at : at + 100], np.full(100, 100), gaps_us[at * 100 : (at + 100) * 100])
    binned = gaps.binned()
    assert (binned.n, gaps.width_ns) == (100_000, 2_000_000_000)
    for percent in (50, 95, 99):
        assert binned.percentile(percent) == pytest.approx(np.percentile(gaps_us, percent) / 1e6, rel=0.004)
    assert estimate(binned, "mean").value == pytest.approx(gaps_us.mean() / 1e6, rel=1e-9)
    wide, plain = estimate(binned, "p95").interval(), interval(gaps_us / 1e6, "p95")
    assert np.allclose(wide, plain, rtol=0.01)

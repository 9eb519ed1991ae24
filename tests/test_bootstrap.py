"""Intervals hold the truth as often as they say, on made-up samples, also when neighbours resemble each other."""

import numpy as np
import pytest

from bench.alike import latencies, truth
from llmload.metrics.bootstrap import TooFew, block_length, estimate, interval, scaled, share
from llmload.metrics.gaps import Gaps
from llmload.metrics.series import Series


@pytest.mark.parametrize(
    ("n", "rho", "statistics"),
    [
        (200, 0.0, ("mean", "p50", "p95")),
        (1000, 0.0, ("p99",)),
        (1000, 0.5, ("mean", "p50", "p95")),
        (3000, 0.8, ("mean", "p50", "p95")),
    ],
)
def test_nine_of_ten_intervals_hold_the_truth(n, rho, statistics):
    """A 90 % interval covers 87 to 93 % over 400 seeds; the tail statistics where there are samples for them."""
    columns = latencies(np.random.default_rng(n), n, rho, 400)
    for statistic in statistics:
        held, given = 0, 0
        for column in columns.T:
            try:
                low, high = estimate(Series(column), statistic).interval(0.9)
            except TooFew:
                continue
            given += 1
            held += low <= truth(statistic) <= high
        assert given > 300, statistic
        assert given > 300, statistic
        assert 0.85 <= held / given <= 0.945, (statistic, held / given)


def test_neighbours_that_resemble_each_other_say_less():
    """What independent samples would allow is too narrow by far; the block is longer and the interval wider."""
    rng = np.random.default_rng(3)
    alike, apart = latencies(rng, 2000, 0.9, 1)[:, 0], latencies(rng, 2000, 0.0, 1)[:, 0]
    one, other = estimate(Series(alike), "p50"), estimate(Series(apart), "p50")
    assert other.block == 2000 / 128
    assert one.block > 2 * other.block
    assert one.effective < 300 < other.effective
    assert block_length(rng.standard_normal(200)) == 1.0


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

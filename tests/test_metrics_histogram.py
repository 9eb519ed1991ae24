"""The histogram against a sorted list."""

from __future__ import annotations

import math

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from llmload.metrics.histogram import HIGHEST_TICK, Histogram

TICKS = st.lists(st.integers(0, HIGHEST_TICK) | st.integers(0, 5000), min_size=1, max_size=200)
PERCENTILES = st.sampled_from([0, 1, 50, 90, 95, 99, 99.9, 100])


def filled(ticks: list[int]) -> Histogram:
    histogram = Histogram(1)
    histogram.record_many(ticks)
    return histogram


@given(TICKS, PERCENTILES)
def test_percentiles_are_those_of_the_sorted_list(ticks: list[int], p: float) -> None:
    """Nearest rank, with a relative error of at most 0.1 %, exact below 2,048 ticks."""
    exact = sorted(ticks)[max(1, math.ceil(round(p * len(ticks) / 100, 9))) - 1]
    found = filled(ticks).percentile(p)
    assert found is not None
    assert abs(found - exact) <= (0.001 * exact if exact >= 2048 else 0)


@given(TICKS)
def test_n_mean_min_and_max_are_exact(ticks: list[int]) -> None:
    """Only percentiles are rounded to a bucket."""
    histogram = filled(ticks)
    assert (histogram.n, histogram.min, histogram.max) == (len(ticks), min(ticks), max(ticks))
    assert histogram.mean == sum(ticks) / len(ticks)


@given(TICKS, TICKS)
def test_merging_is_recording_both(first: list[int], second: list[int]) -> None:
    """A merge over the wire equals one histogram of all values, whatever the order."""
    there, back = filled(first), filled(second)
    there.merge(Histogram.from_wire(filled(second).to_wire()))
    back.merge(filled(first))
    assert there.to_wire() == back.to_wire() == filled(first + second).to_wire()


@given(TICKS)
def test_the_buckets_are_those_of_an_hdr_histogram(ticks: list[int]) -> None:
    """hdrh, recording the same values by itself, has the same counts in the same buckets."""
    other = HdrHistogram(1, HIGHEST_TICK, 3, b64_wrap=False)
    for tick in ticks:
        other.record_value(tick)
    wire = filled(ticks).to_wire()
    assert sum(wire["counts"]) == len(ticks)
    filled_buckets = {bucket: count for bucket, count in enumerate(other.counts) if count}
    assert dict(zip(wire["buckets"], wire["counts"], strict=True)) == filled_buckets


def test_an_empty_histogram_has_no_values() -> None:
    """Nothing recorded: n is 0 and everything else is None, also after the wire."""
    empty = Histogram.from_wire(Histogram(1).to_wire())
    assert (empty.n, empty.mean, empty.min, empty.max, empty.percentile(50)) == (0, None, None, None, None)


def test_values_out_of_range_are_clamped_and_counted() -> None:
    """A negative value and one above an hour count at the edges and are reported."""
    histogram = Histogram(1_000_000)
    for value_s in (-0.5, 1.0, 7200.0):
        histogram.record(value_s)
    assert (histogram.n, histogram.clamped, histogram.min, histogram.max) == (3, 2, 0.0, 3600.0)


def test_units_are_scaled() -> None:
    """Tokens per second keep three decimals: 49.5 stays 49.5."""
    histogram = Histogram(1_000)
    histogram.record(49.5)
    assert (histogram.percentile(50), histogram.mean) == (49.5, 49.5)


def test_histograms_of_different_units_do_not_merge() -> None:
    """Microseconds and tokens are refused, not added."""
    with pytest.raises(ValueError, match="cannot merge"):
        Histogram(1).merge(Histogram(1_000))


def test_ranks_do_not_suffer_from_floats() -> None:
    """99.9 % of 3,000 is rank 2,997, although 99.9 * 3000 / 100 is more in floats."""
    assert filled(list(range(1, 3001))).percentile(99.9) == pytest.approx(2997, rel=0.0005)
    assert filled(list(range(1, 1001))).percentile(99.9) == 999


def test_three_digits_where_locust_keeps_two() -> None:
    """STAT-01: 12345.6 ms, 234.5 ms and 0.4 ms come back within 0.05 %, not as 12000, 230 and 0."""
    for value_s in (12.3456, 0.2345, 0.0004):
        histogram = Histogram(1_000_000)
        histogram.record(value_s)
        found = histogram.percentile(50)
        assert found is not None
        assert abs(found / value_s - 1) <= 0.0005

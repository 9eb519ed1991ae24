"""Calibration as sums: which levels are tried, which hold, what limited them, and the workers of a plan."""

from dataclasses import replace

import pytest

from llmload.metrics.calibration import Bound, Measured, Search, Sizes, limit, median_run, workers_needed

GOOD = Measured(
    streams=40,
    events_per_second=1950.0,
    asked_per_second=2000.0,
    cpu_percent=30.0,
    mock_cpu_percent=20.0,
    waited_percent=0.4,
    mock_waited_percent=0.5,
    lag_p99_ms=0.3,
    ttft_ms=Sizes(100, 0.1, 0.2, 0.8),
    ttft_total_ms=Sizes(100, 0.2, 0.5, 3.0),
    itl_ms=Sizes(5000, 0.01, 0.02, 0.1),
    bound_percent=0.5,
    shared_percent=0.2,
    failed=0,
    stamps={"kernel": 150},
)
BAD_TTFT = Sizes(100, 0.1, 0.9, 5.0)


def searched(holds, *, first=40, smallest=5, largest=1000, repeats=3, time_for=100):
    """Run a search against a made-up machine; return the search and the levels that were run."""
    search, levels = Search(first=first, smallest=smallest, largest=largest, repeats=repeats), []
    while len(levels) < time_for and (level := search.next(time_for - len(levels))) is not None:
        search.add(level, holds(level))
        levels.append(level)
    return search, levels


def test_the_search_doubles_and_then_bisects():
    """Levels on the way up are run once; those that miss and the answer as often as the median of three needs."""
    search, levels = searched(lambda level: level <= 200)
    assert levels == [40, 80, 160, 320, 320, 240, 240, 200, 220, 220, 200]
    assert (search.low, search.high, search.confirmed) == (200, 220, True)


def test_a_machine_that_holds_everything():
    """The largest level is the answer, and nothing above it is tried."""
    search, levels = searched(lambda _: True, largest=300)
    assert levels == [40, 80, 160, 300, 300]
    assert (search.low, search.high, search.confirmed) == (300, None, True)


def test_a_machine_that_holds_nothing():
    """The search halves to the smallest level and stops there without an answer."""
    search, levels = searched(lambda _: False)
    assert levels == [40, 40, 20, 20, 10, 10, 5, 5]
    assert (search.low, search.high, search.confirmed) == (None, 5, False)


def test_an_answer_below_the_first_level():
    """Halving finds a level that holds, bisection the one between."""
    search, levels = searched(lambda level: level <= 14, repeats=1)
    assert levels == [40, 20, 10, 15, 12, 13, 14]
    assert (search.low, search.high) == (14, 15)


def test_one_bad_run_of_three_does_not_count():
    """A level that misses once is repeated at once; it holds when two of its three runs do."""
    script = {40: [False, True, True]}
    search, levels = searched(lambda level: level in script and script[level].pop(0))
    assert levels == [40, 40, 40, 80, 80, 60, 60, 50, 50, 45, 45]
    assert (search.low, search.high, search.confirmed) == (40, 45, True)


def test_an_answer_that_does_not_hold_again_is_given_up():
    """The answer is repeated at the end: when the median misses, the next lower level takes its place."""
    script = {40: [True], 80: [True, False, False], 60: [True, False, False], 45: [True, True]}
    search, levels = searched(lambda level: level in script and script[level].pop(0))
    up, down = [40, 80, 160, 160, 120, 120, 100, 100, 90, 90], [80, 80, 60, 70, 70, 65, 65, 60, 60, 50, 50, 45, 45]
    assert levels == up + down
    assert (search.low, search.high, search.confirmed) == (45, 50, True)


def test_the_last_runs_go_to_the_answer():
    """With time for one more run only the answer so far is confirmed, instead of looking for a better one."""
    search, levels = searched(lambda level: level <= 200, time_for=6)
    assert levels == [40, 80, 160, 320, 320, 160]
    assert (search.low, search.high, search.confirmed) == (160, 320, True)


def test_sizes_are_by_nearest_rank():
    """Signs do not matter, and of no errors there is no percentile."""
    assert Sizes.of([-3.0, 1.0, 2.0]) == Sizes(3, 2.0, 3.0, 3.0)
    assert Sizes.of([]) == Sizes(0, None, None, None)
    assert [Sizes(3, 1.0, 2.0, 3.0).at(percent) for percent in (50, 90, 99)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({}, []),
        ({"ttft_ms": BAD_TTFT}, ["TTFT p99"]),
        ({"itl_ms": Sizes(0, None, None, None)}, ["no ITL"]),
        ({"bound_percent": 2.1}, ["2 % of TTFTs are bounds"]),
        ({"shared_percent": 1.2}, ["1 % of events shared a read"]),
        ({"events_per_second": 1800.0}, ["90 % of the pace"]),
        ({"failed": 2, "itl_ms": Sizes(9, 0.1, 0.2, 1.001)}, ["2 requests failed", "ITL p99"]),
        ({"ttft_ms": Sizes(100, 0.1, 0.9, 1.0), "shared_percent": 1.0, "events_per_second": 1900.0}, []),
    ],
)
def test_what_keeps_a_level_from_holding(change, faults):
    """Each criterion by itself; what is exactly at its bound holds."""
    assert replace(GOOD, **change).faults(Bound(1.0)) == faults


def test_a_bound_at_another_percentile():
    """At p90 the p99 is of no interest, and 10 % of the events may have shared a read."""
    assert replace(GOOD, ttft_ms=BAD_TTFT, shared_percent=9.0).faults(Bound(0.9, 90)) == []
    assert str(Bound(0.9, 90)) == "p90 at most 0.9 ms"


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"failed": 3, "cpu_percent": 99.0}, "failures", "3 requests failed at 40 streams"),
        ({"cpu_percent": 95.0, "mock_cpu_percent": 99.0}, "cpu", "the worker's CPU, 95 % of a core at 40 streams"),
        ({"mock_cpu_percent": 97.0, "waited_percent": 8.0}, "mock", "not the client: 97 % of a core"),
        (
            {"waited_percent": 5.4},
            "machine",
            "the worker could run and had no core in 5.4 % of the time, and p99 leaves",
        ),
        (
            {"waited_percent": None, "mock_waited_percent": 2.0},
            "machine",
            "the mock server could run and had no core in 2",
        ),
        ({"lag_p99_ms": 2.5}, "lag", "the worker's event loop, p99 lag 2.5 ms at 30 % CPU"),
        ({"events_per_second": 1000.0}, "mock", "50 % of the events that were asked for"),
        ({}, "unknown", "neither CPU nor cores nor the event loop"),
    ],
)
def test_what_limited_a_level(change, kind, words):
    """The gravest cause comes first, and it is said when that is not the client."""
    found, why = limit(replace(GOOD, **change), Bound(1.0))
    assert found == kind
    assert words in why


def test_the_median_run_is_the_one_with_the_middle_error():
    """By the worse of TTFT and ITL; a run without a TTFT is the worst; of two the worse counts."""
    runs = [replace(GOOD, ttft_ms=Sizes(9, p99, p99, p99)) for p99 in (3.0, None, 2.0)]
    assert median_run(runs, Bound(1.0)).ttft_ms.p99 == 3.0
    assert median_run(runs[::2], Bound(1.0)).ttft_ms.p99 == 3.0


@pytest.mark.parametrize(
    ("users", "rate", "streams", "events", "workers"),
    [
        (1000, 50.0, 200, 9_800.0, 8),  # streams: 1000 / 140 = 7.1; events: 50,000 / 6,860 = 7.3
        (140, 50.0, 200, 10_000.0, 1),  # exactly what 70 % of a worker carries
        (141, 50.0, 200, 10_000.0, 2),
        (1, 1.0, 5, 250.0, 1),
        (1000, 1.0, 200, 9_800.0, 8),  # slow streams: the connections decide
    ],
)
def test_workers_of_a_plan(users, rate, streams, events, workers):
    """Enough for the events and for the streams, with 30 % kept free."""
    assert workers_needed(users=users, tokens_per_second=rate, streams=streams, events_per_second=events) == workers


def test_a_run_is_saved_with_rounded_floats():
    """Plain values, three decimals, None where something is not known."""
    row = replace(GOOD, cpu_percent=33.33333, waited_percent=None).to_dict()
    assert (row["cpu_percent"], row["waited_percent"], row["stamps"]) == (33.333, None, {"kernel": 150})
    assert row["ttft_ms"] == {"n": 100, "p50": 0.1, "p90": 0.2, "p99": 0.8}

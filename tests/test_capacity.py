"""What a summary says of a search for the capacity: from the record alone, with the client's part in it."""

import pytest

from llmload.errors import SetupError
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.pacing.course import CapacitySearch
from llmload.reports.sweep import render_capacity
from tests.test_summary import T0_S
from tests.test_sweep import answered, phase


def record(verdicts, *, cpu=10.0, ended="bracketed"):
    """Return completions and run.json of a search with these (level, held) measurements, 10 s each."""
    rows, phases = [], []
    for number, (level, held) in enumerate(verdicts):
        step, start = f"{level}#{number}", number * 10
        client = {"lag_p99_s": 0.001, "lag_max_s": 0.002, "cpu_percent_max": 10.0 if held else cpu}
        judged = {"held": held, "misses": [] if held else ["p95(ttft) < 1s"], "unfinished": 0}
        more = {"course": "capacity", "client": client, "judged": judged, "started": 10}
        phases.append(phase(step, start, start + 10, level, number, **more))
        rows += [answered(step, start + i) for i in range(10)]
    return rows, {"phases": phases, "capacity": {"ended": ended, "objectives": ["p95(ttft) < 1s"]}}


def capacity(*verdicts, **options):
    rows, run = record(verdicts, **options)
    return summarise(Tallies(rows), run)["capacity"]


def test_the_edges_their_votes_and_the_reason_are_told():
    """Two of three measurements of 4 held, none of 5: the capacity is 4, and the server was the limit."""
    found = capacity((2, True), (4, False), (4, True), (4, True), (5, False), (5, False))
    assert (found["level"], found["between"], found["limited_by"]) == (4, [4, 5], "server")
    assert (found["votes"], found["why"]) == ({"4": [2, 3], "5": [0, 2]}, "the bracket is narrow enough")
    assert [one["request_throughput"] for one in found["measurements"]] == [1.0] * 6
    text = "\n".join(render_capacity(found))
    assert "capacity: 4 users, between 4 and 5, 4 held in 2 of 3 measurements, 5 in 0 of 2" in text


def test_a_client_that_was_the_limit_is_named():
    """LOAD-03: the level that missed had a client at 95 % CPU."""
    found = capacity((4, True), (8, False), cpu=95.0, ended="time")
    assert (found["limited_by"], found["why"]) == ("client", "the time was up")
    assert "THE CLIENT WAS THE LIMIT" in "\n".join(render_capacity(found))


def test_nothing_that_holds_is_none_and_not_zero():
    """No level: null, and the lowest one that was tried missed."""
    found = capacity((1, False), (1, False), ended="none")
    assert (found["level"], found["between"]) == (None, [None, 1])
    assert "capacity: none, 1 already misses, 1 in 0 of 2" in "\n".join(render_capacity(found))


def test_a_search_that_broke_off_shows_what_it_has():
    """Without a recorded end it was stopped; a step without a verdict is not judged and counts for nothing."""
    rows, run = record([(1, True), (2, True)])
    del run["capacity"], run["phases"][1]["judged"]
    found = summarise(Tallies(rows), run)["capacity"]
    assert (found["level"], found["ended"], found["measurements"][1]["held"]) == (1, "stopped", None)
    assert "not judged" in "\n".join(render_capacity(found))


def test_a_run_without_a_search_says_nothing():
    """The part is null."""
    assert summarise(Tallies([answered(None, 1)]), {"started_at": T0_S})["capacity"] is None
    assert list(render_capacity(None)) == []


@pytest.mark.parametrize("text", ["goodput >= 98%", "chat: p95(ttft) < 1s", "step=4: p95(ttft) < 1s"])
def test_objectives_that_no_step_has_are_refused(text):
    """A search looks at whole steps."""
    from llmload.swarm.seeking import sought

    with pytest.raises(SetupError) as caught:
        sought(CapacitySearch(text, limit=9, time_s=60, step_s=9, settle_s=1))
    assert "--find-capacity cannot look at" in str(caught.value)

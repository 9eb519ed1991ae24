"""The time series of real runs: what sinks get while a run goes on, and what its record gives afterwards."""

import json
from collections import Counter

import pytest

from llmload.mock.process import MockProcess
from llmload.sinks.points import EVENT, INTERVAL, REQUEST, WORKER, Point, request_point, typed
from llmload.sinks.record import read_series
from llmload.sinks.replay import recorded_points
from tests.locusts import check_ledger, run_locust


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run with two workers, some failures and a warm-up."""
    with MockProcess(
        "--ttft-ms", "40", "--itl-ms", "4", "--tokens", "8", "--fault", "http_500=0.1", "--seed", "3"
    ) as mock:
        return run_locust(
            tmp_path_factory.mktemp("series"), "--processes", "2", "-u", "6", "-r", "6", "-t", "4s", "--warmup", "1s",
            "--host", mock.url, "--model", "mock", "--slo", "p50(ttft) < 1ms",
        )  # fmt: skip


def last(points):
    """Return the points by series and time, the last one of each."""
    return {(one.measurement, tuple(sorted(one.tags.items())), one.time_ns): one for one in points}


def test_the_record_gives_every_point(ran):
    """One point a completion, none of them over another; a row for each second; counts that add up to the ledger."""
    ledger = check_ledger(ran)
    points = list(last(recorded_points(ran.run)).values())
    requests = [one for one in points if one.measurement == REQUEST]
    assert len(requests) == ledger["ok"] + ledger["failed"] + ledger["cancelled"]
    assert Counter(one.tags["outcome"] for one in requests) == Counter(line["outcome"] for line in ran.completions)
    seconds = sorted((one for one in points if one.tags.get("scenario") == "all"), key=lambda one: one.time_ns)
    assert [one.time_ns for one in seconds] == list(range(seconds[0].time_ns, seconds[-1].time_ns + 1, 1_000_000_000))
    end = seconds[-1].fields
    assert {name: end[name] for name in ("started", "ok", "failed", "cancelled", "in_flight")} == ledger
    tokens = sum(line.get("output_tokens", 0) for line in ran.completions if line["outcome"] == "ok")
    assert sum(one.fields["output_tps"] for one in seconds) == tokens
    assert max(one.fields.get("users", 0) for one in seconds) == 6
    steps = {line["step"] for line in ran.completions if "step" in line}
    assert {one.tags["step"] for one in points if one.measurement == INTERVAL and "step" in one.tags} == steps


def test_what_happened_is_noted(ran):
    """Start and end, the warm-up, both workers and the missed objective are events; both workers were looked at."""
    kinds = Counter(one.tags["kind"] for one in read_series(ran.run) if one.measurement == EVENT)
    assert kinds == {"run_start": 1, "worker_joined": 2, "step": 1, "slo_breached": 1, "run_end": 1}
    looks = Counter(one.tags["worker"] for one in read_series(ran.run) if one.measurement == WORKER)
    assert set(looks) == {"worker-0", "worker-1", "master"}
    assert min(looks.values()) >= 3


def test_every_field_has_one_type(ran):
    """No field of a measurement is a whole number once and a float another time; no name is tag and field."""
    types, tags = {}, set()
    for one in recorded_points(ran.run):
        for name, value in one.fields.items():
            types.setdefault((one.measurement, name), set()).add(type(value))
        tags |= {(one.measurement, name) for name in one.tags}
    assert {key: found for key, found in types.items() if len(found) > 1} == {}
    assert tags & set(types) == set()


def test_the_summary_says_what_the_sinks_got(ran):
    """The record is a sink: what it holds stands in the summary."""
    assert ran.summary["sinks"]["record"]["written"] == len(ran.completions)
    assert ran.summary["sinks"]["record"]["dropped"] == 0


def test_points_of_a_series_that_end_together_differ():
    """INF-02: two requests of one worker that end in one microsecond have times of their own, the same each time."""
    line = {
        "id": "ab-w-7", "scenario": "s", "model": "m", "worker": "w", "outcome": "ok", "started_unix_ns": 5_000,
        "closed_s": 1e-6,
    }  # fmt: skip
    assert request_point(line, "r").time_ns == 6_007
    assert request_point({**line, "id": "ab-w-1008"}, "r").time_ns == 6_008


def test_values_have_the_type_of_their_field():
    """INF-04 and INF-08: whole numbers of a float field are floats; None, NaN and infinity are no fields."""
    values = {
        "ttft_s": 0,
        "output_tokens": 3.0,
        "e2e_s": None,
        "tpot_s": float("nan"),
        "tls_s": float("inf"),
        "good": True,
    }
    assert json.dumps(typed(values)) == '{"ttft_s": 0.0, "output_tokens": 3, "good": true}'


def test_a_point_survives_its_file():
    """What series.jsonl holds is the point that was written."""
    point = Point(EVENT, {"run": "r", "kind": "step"}, {"title": 'a "b"\n', "text": "é"}, 17)
    assert Point.from_dict(json.loads(json.dumps(point.to_dict()))) == point

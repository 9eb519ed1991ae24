"""Faults of InfluxDB while a run goes on: what is stored, what is reported as not written, and that the two add up.

docs/influxdb.md has them as a table; the long ones are in test_influx_long.py.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import signal
import subprocess
import threading
import time

import pytest
from influxdb_client.rest import ApiException

from bench.madeup import completions, write
from llmload.cli.push import run
from llmload.mock.process import MockProcess
from llmload.sinks.influx_write import retry_after_s
from llmload.sinks.influxdb import InfluxSink
from llmload.sinks.points import INTERVAL
from llmload.sinks.replay import recorded_points
from tests.influx import Trouble, new_influx
from tests.locusts import LLMLOAD, ROOT, Locust
from tests.test_influx import NOW_NS
from tests.test_influx import completion as made_up

RUN = ("-u", "4", "-r", "4", "--influx-optional", "--no-probe", "--model", "mock")


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--tokens", "8", "--itl-ms", "10", "--ttft-ms", "40") as mock:
        yield mock


@pytest.fixture
def own_influx(tmp_path):
    """An InfluxDB of one's own, not started, to be killed."""
    influx = new_influx(tmp_path / "influx", start=False)
    yield influx
    influx.kill()


@pytest.fixture
def trouble(influx):
    trouble = Trouble(influx)
    yield trouble
    trouble.close()


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    """Batches go out at once."""
    monkeypatch.setattr("llmload.sinks.influxdb.FLUSH_S", 0.05)


def completion(number, **fields):
    """Completions that end a microsecond after each other."""
    return made_up(number, started_unix_ns=NOW_NS + number * 1000, **fields)


def push(influx, run, *args):
    """Run `llmload push` and return its exit code and what it said."""
    done = subprocess.run(
        [str(LLMLOAD), "push", str(run), *args], env=influx.env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def rows(influx, run):
    """Everything that is stored of a run, in an order of its own."""
    found = []
    for measurement in ("llm_request", "llm_interval", "llm_worker", "llm_event"):
        found += influx.query(f"SELECT * FROM {measurement} WHERE run = '{run}'")
    return sorted((repr(sorted(row.items(), key=str)) for row in found), key=str)


def test_down_during_the_whole_run_and_pushed_afterwards(tmp_path, own_influx, mock):
    """The run ends in good time and says what was not written; two pushes give what the record holds, once."""
    locust = Locust(tmp_path, "--host", mock.url, "-t", "2s", *RUN, env=own_influx.env)
    assert locust.ends() == 0
    counts = locust.summary["sinks"]["influxdb"]
    assert counts["written"] == 0
    assert counts["dropped"] > locust.summary["ledger"]["started"]
    assert f"{counts['dropped']:,} NOT WRITTEN" in locust.text
    own_influx.start()
    assert push(own_influx, locust.run)[0] == 0
    first = rows(own_influx, locust.run.name)
    # a push that broke off after 10 points goes on there, and adds nothing
    (locust.run / ".push.json").write_text(json.dumps({"to": own_influx.target.shown, "points": 10}))
    code, said = push(own_influx, locust.run)
    assert (code, "goes on after the first 10 points" in said) == (0, True)
    assert rows(own_influx, locust.run.name) == first
    assert not (locust.run / ".push.json").exists()
    assert push(own_influx, locust.run)[0] == 0
    assert rows(own_influx, locust.run.name) == first
    assert own_influx.requests(locust.run.name) == len(locust.completions)


def test_killed_in_mid_run_and_started_again(tmp_path, own_influx, mock):
    """What was queued meanwhile is written after the restart: nothing is missing, and a push adds nothing."""
    own_influx.start()
    locust = Locust(tmp_path, "--host", mock.url, "-t", "6s", *RUN, env=own_influx.env)
    locust.until_spawned()
    time.sleep(1.5)
    own_influx.kill()
    locust.until("writes are retried")
    own_influx.start()
    assert locust.ends() == 0
    counts = locust.summary["sinks"]["influxdb"]
    assert counts["retried"] > 0
    assert (counts["dropped"], own_influx.requests(locust.run.name)) == (0, len(locust.completions))
    live = rows(own_influx, locust.run.name)
    assert push(own_influx, locust.run)[0] == 0
    assert rows(own_influx, locust.run.name) == live


def test_kill_9_of_the_master_then_push(tmp_path, influx, mock):
    """Every completion that was recorded arrives, exactly once."""
    locust = Locust(tmp_path, "--host", mock.url, "-t", "60s", *RUN, "--processes", "2", env=influx.env)
    locust.until_spawned()
    time.sleep(3)
    locust.signal(signal.SIGKILL)
    locust.ends()
    recorded = [
        line for line in (locust.run / "completions.jsonl").read_bytes().splitlines(True) if line.endswith(b"\n")
    ]
    assert recorded
    for _ in range(2):
        code, said = push(influx, locust.run)
        assert code == 0, said
        assert influx.requests(locust.run.name) == len(recorded)
    seconds = {one.time_ns for one in recorded_points(locust.run) if one.measurement == INTERVAL}
    assert influx.count(INTERVAL, locust.run.name, "elapsed_s") >= len(seconds)


def test_the_disk_of_the_record_is_full(tmp_path, influx, mock):
    """InfluxDB gets every completion all the same; the run says that its record is not whole."""

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))

    locust = Locust(tmp_path, "--host", mock.url, "-t", "3s", *RUN, env=influx.env, before=small_disk)
    assert locust.ends() == 4
    ok = int(re.search(r"(\d+) ok", locust.text)[1])
    missing = int(re.search(r"(\d+) completions are missing from the record", locust.text)[1])
    assert 0 < missing < ok == influx.requests(locust.run.name)


@pytest.mark.parametrize(("status", "headers"), [(500, {}), (429, {"Retry-After": "1"}), (401, {})], ids=str)
def test_trouble_that_passes_loses_nothing(trouble, influx, status, headers):
    """A server error, too many requests, a token that is refused for a while: retried until it is over."""
    run, sink = f"passes-{status}", InfluxSink(trouble.target)
    sink.start(run)
    sink.write([completion(number) for number in range(1, 101)])
    wait_for(lambda: sink.counts()["written"] == 100)
    trouble.answer(status, **headers)
    sink.write([completion(number) for number in range(101, 201)])
    wait_for(lambda: sink.counts()["retried"])
    assert str(status) in sink.counts()["error"]
    trouble.answer(0)
    wait_for(lambda: sink.counts()["queued"] == 0)
    sink.stop(5)
    counts = sink.counts()
    assert (counts["written"], counts["dropped"], influx.requests(run)) == (200, 0, 200)


def test_each_trouble_is_said_once_when_it_begins_and_once_when_it_ends(trouble, caplog):
    """Two troubles in one run are four lines, however often was retried."""
    sink = InfluxSink(trouble.target)
    sink.start("said")
    for number in (1, 2):
        before = sink.counts()["retried"]
        trouble.answer(500)
        sink.write([completion(number)])
        wait_for(lambda before=before: sink.counts()["retried"] >= before + 2)
        trouble.answer(0)
        wait_for(lambda: sink.counts()["queued"] == 0)
    sink.stop(5)
    one = ["InfluxDB: 500 made up; writes are retried", "InfluxDB answers again"]
    assert [record.message for record in caplog.records if record.name == "llmload"] == one * 2


FAR = "Wed, 01 Dec 2126 12:00:00 GMT"


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "3600"}, {"retry-after": "3600"}, {"Retry-After": FAR}],
    ids=["seconds", "small letters", "date"],
)
def test_the_server_says_when_to_come_back(trouble, headers):
    """However the header is written; without it the second write would come within half a second."""
    trouble.answer(429, **headers)
    sink = InfluxSink(trouble.target)
    sink.start("come-back")
    sink.write([completion(1)])
    wait_for(lambda: sink.counts()["retried"])
    time.sleep(0.8)
    assert trouble.writes == 1
    trouble.answer(0)
    sink.stop(5)
    assert sink.counts()["written"] == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "86400"}, 300.0),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
        ({}, None),
        ({"Retry-After": "Tue, 01 Dec 2026 12:00:09 GMT", "Date": "Tue, 01 Dec 2026 12:00:00 GMT"}, 9.0),
        ({"retry-after": "Tuesday, 01-Dec-26 12:00:09 GMT", "date": "Tue, 01 Dec 2026 12:00:00 GMT"}, 9.0),
        ({"Retry-After": "Tue, 01 Dec 2026 11:00:00 GMT", "Date": "Tue, 01 Dec 2026 12:00:00 GMT"}, 0.0),
        ({"Retry-After": "Tue, 01 Dec 2026 12:00:09 -0000", "Date": "Tue, 01 Dec 2026 12:00:00 GMT"}, 9.0),
        ({"Retry-After": FAR}, 300.0),
        ({"Retry-After": FAR, "Date": "yesterday"}, 300.0),
        ({"Retry-After": "Wed, 01 Dec 1999 12:00:00 GMT"}, 0.0),
    ],
)
def test_what_retry_after_means(headers, seconds):
    """Seconds, or a date against the server's own clock; never more than five minutes, never less than none."""
    error = ApiException(status=503)
    error.headers = headers
    assert retry_after_s(error) == seconds


@pytest.mark.parametrize("status", [500, 429, 401])
def test_trouble_that_stays_is_counted(trouble, influx, status):
    """From the middle on nothing is taken: expected = stored + dropped, and why is said."""
    run, sink = f"stays-{status}", InfluxSink(trouble.target)
    sink.start(run)
    sink.write([completion(number) for number in range(1, 101)])
    wait_for(lambda: sink.counts()["written"] == 100)
    trouble.answer(status)
    sink.write([completion(number) for number in range(101, 201)])
    sink.stop(1.0)
    counts = sink.counts()
    assert (counts["written"], counts["dropped"], counts["queued"], influx.requests(run)) == (100, 100, 0, 100)
    assert counts["error"].startswith(str(status))


def test_slow_writes_hold_nobody_up(trouble, influx):
    """Two seconds a batch: what comes meanwhile goes into the next batch, and nothing is lost."""
    trouble.delay_s = 2.0
    sink = InfluxSink(trouble.target)
    sink.start("slow")
    for start in range(1, 3001, 100):
        sink.write([completion(number) for number in range(start, start + 100)])
        time.sleep(0.05)
    sink.stop(20)
    assert (sink.counts()["written"], influx.requests("slow")) == (3000, 3000)
    assert trouble.writes <= 5


def test_the_end_does_not_wait_for_one_that_never_answers(trouble):
    """Stopping returns within its bound, and counts what is not known to be stored as not written."""
    trouble.delay_s = 60.0
    sink = InfluxSink(trouble.target)
    sink.start("never")
    sink.write([completion(number) for number in range(1, 11)])
    wait_for(lambda: trouble.writes == 1)
    before = time.monotonic()
    sink.stop(1.0)
    assert time.monotonic() - before < 30
    assert (sink.counts()["written"], sink.counts()["dropped"], sink.counts()["queued"]) == (0, 10, 0)


def test_a_full_queue_drops_and_counts(influx, monkeypatch):
    """The queue is bounded in bytes: what does not fit is dropped at once, and the rest is written."""
    monkeypatch.setattr("llmload.sinks.influxdb.QUEUE_BYTES", 20_000)
    sink = InfluxSink(influx.target)
    sink.start("full")
    sink.write([completion(number) for number in range(1, 1001)])
    sink.stop(10)
    counts = sink.counts()
    assert counts["written"] + counts["dropped"] == 1000
    assert influx.requests("full") == counts["written"] > 50
    assert counts["error"] == "the queue is full"


def test_a_batch_that_is_refused_all_the_time_makes_room_for_others(trouble, influx):
    """It goes to the end of the queue, alone, and is tried again in turns with what is new; nothing is given up."""
    trouble.poison = b"timeout-17"
    sink = InfluxSink(trouble.target, turn_s=0.1)
    sink.start("turns")
    sink.write([completion(1, model="timeout-17"), completion(2)])
    wait_for(lambda: sink.counts()["retried"] >= 2)
    for number in (3, 4, 5):
        sink.write([completion(number)])
        wait_for(lambda number=number: sink.counts()["written"] == number - 2)
        counts = sink.counts()
        assert (counts["dropped"], counts["queued"], counts["error"]) == (0, 2, "500 timeout")
    trouble.poison = b""
    wait_for(lambda: sink.counts()["queued"] == 0)
    sink.stop(5)
    assert (sink.counts()["written"], sink.counts()["dropped"], influx.requests("turns")) == (5, 0, 5)


def test_at_the_end_such_a_batch_comes_last(trouble, influx):
    """What waits behind it is written all the same, and only the batch itself is given up."""
    trouble.poison = b"timeout-18"
    sink = InfluxSink(trouble.target)
    sink.start("last")
    sink.write([completion(1, model="timeout-18"), completion(2)])
    wait_for(lambda: sink.counts()["retried"] >= 2)
    sink.write([completion(number) for number in range(3, 8)])
    sink.stop(2.0)
    counts = sink.counts()
    assert (counts["written"], counts["dropped"], counts["queued"], influx.requests("last")) == (5, 2, 0, 5)
    assert counts["error"] == "500 timeout"


def test_why_points_are_missing_is_said_with_all_reasons(trouble, monkeypatch):
    """A full queue hides neither the trouble behind it nor what was rejected; the biggest loss comes first."""
    monkeypatch.setattr("llmload.sinks.influxdb.QUEUE_BYTES", 3_000)
    sink = InfluxSink(trouble.target)
    sink.start("reasons")
    trouble.answer(503)
    sink.write([completion(1)])
    wait_for(lambda: sink.counts()["retried"])
    sink.write([completion(number) for number in range(2, 101)])
    full = sink.counts()
    assert (full["dropped"], full["error"]) == (100 - full["queued"], "the queue is full; last trouble: 503 made up")
    trouble.answer(400)
    wait_for(lambda: sink.counts()["queued"] == 0)
    sink.stop(5)
    counts = sink.counts()
    assert (counts["written"], counts["dropped"]) == (0, 100)
    assert counts["error"] == (
        f"the queue is full ({full['dropped']}); 400 made up ({full['queued']}); last trouble: 503 made up"
    )


def test_a_push_ends_when_influxdb_takes_nothing_for_long(tmp_path, trouble, influx, monkeypatch, capsys):
    """It says so with exit code 4, and the next push goes on: every completion is stored once."""
    path = write(tmp_path / "runs", "20251201T000000Z-9a9a", completions(5, 2_000, tokens=8))
    with monkeypatch.context() as here:
        for name, value in {**influx.env, "INFLUXDB_URL": trouble.target.url}.items():
            here.setenv(name, value)
        here.setattr("llmload.cli.push.GIVE_UP_S", 2.0)
        trouble.delay_s = 0.3
        switch = threading.Thread(target=lambda: (wait_for(lambda: trouble.writes == 2), trouble.answer(500)))
        switch.start()
        arguments = argparse.Namespace(run=str(path), again=False)
        assert run(arguments) == 4
    switch.join()
    said = capsys.readouterr().err
    assert "broken off, InfluxDB took no points for 2 s (" in said
    assert "500 made up): push again to go on from here" in said
    for name, value in influx.env.items():
        monkeypatch.setenv(name, value)
    assert run(arguments) == 0
    assert influx.requests("20251201T000000Z-9a9a") == 2_000


def wait_for(condition, seconds=30):
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)

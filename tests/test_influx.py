"""InfluxDB as a sink, against a real one: what is stored is what was recorded."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import pytest

from llmload.errors import SetupError
from llmload.mock.process import MockProcess
from llmload.sinks.influx_target import InfluxTarget, read_influx
from llmload.sinks.influxdb import InfluxSink
from llmload.sinks.line import to_line
from llmload.sinks.points import EVENT, INTERVAL, REQUEST, Point, event_point, request_point, worker_point
from llmload.sinks.record import read_series
from tests.influx import TOKEN, Trouble
from tests.locusts import check_ledger, free_port, run_locust

NOW_NS = time.time_ns()
TAG_KEYS = {"run", "scenario", "model", "worker", "outcome", "kind", "step"}


def completion(number=1, **fields):
    return {
        "id": f"3f9a-local-{number}", "scenario": "chat", "model": "m", "worker": "local", "outcome": "ok",
        "started_unix_ns": NOW_NS, "closed_s": 0.5, "ttft_s": 0.25, "output_tokens": 3, "status": 200, **fields,
    }  # fmt: skip


def stored(influx, run, completions, points=()):
    """Write to a new run and return the sink's counts."""
    sink = InfluxSink(influx.target)
    sink.start(run)
    sink.write(completions, points)
    sink.stop(20)
    return sink.counts()


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--tokens", "10", "--itl-ms", "10", "--ttft-ms", "50", "--fault", "http_429=0.1") as mock:
        yield mock


@pytest.fixture(scope="module")
def locust(influx, mock, tmp_path_factory):
    """A real run of two workers into InfluxDB."""
    folder = tmp_path_factory.mktemp("influx-run")
    args = ("--host", mock.url, "--model", "mock", "-u", "6", "-r", "6", "-t", "3s", "--processes", "2", "--no-probe")
    return run_locust(folder, *args, env=influx.env)


def test_every_completion_of_a_run_is_stored_once(influx, locust):
    """INF-01, DIST-13: stored == recorded, with two workers and a normal end; the summary says so."""
    ledger = check_ledger(locust)
    run = locust.summary["run"]["id"]
    assert influx.requests(run) == ledger["started"]
    counts = locust.summary["sinks"]["influxdb"]
    assert (counts["dropped"], counts["queued"], counts["error"]) == (0, 0, None)
    assert "influxdb" in locust.text


def test_every_aggregate_equals_the_record(influx, locust):
    """Counts by outcome and sums of tokens and times, in InfluxQL and from completions.jsonl."""
    run, lines = locust.summary["run"]["id"], locust.completions
    assert {line["outcome"] for line in lines} == {"ok", "failed"}
    rows = influx.query(
        "SELECT COUNT(request_id) AS n, SUM(output_tokens) AS tokens, SUM(ttft_s) AS ttft, MAX(e2e_s) AS worst, "
        f"COUNT(tpot_s) AS tpots FROM llm_request WHERE run = '{run}' GROUP BY outcome, worker"
    )
    for row in rows:
        mine = [one for one in lines if (one["outcome"], one["worker"]) == (row["outcome"], row["worker"])]
        assert row["n"] == len(mine)
        assert (row["tokens"] or 0) == sum(one.get("output_tokens", 0) for one in mine)
        assert (row["ttft"] or 0) == pytest.approx(sum(one.get("ttft_s", 0) for one in mine))
        assert (row["worst"] or 0) == max(one.get("e2e_s", 0) for one in mine)
        assert (row["tpots"] or 0) == sum("tpot_s" in one for one in mine)
    assert sum(row["n"] for row in rows) == len(lines)


def test_the_last_second_has_the_totals_of_the_run(influx, locust):
    """llm_interval over everything ends with the ledger; its tokens add up to all tokens."""
    run, ledger = locust.summary["run"]["id"], locust.summary["ledger"]
    where = f"WHERE run = '{run}' AND scenario = 'all'"
    row = influx.query(
        f"SELECT LAST(ok) AS ok, LAST(failed) AS failed, LAST(cancelled) AS cut FROM llm_interval {where}"
    )[0]
    assert (row["ok"], row["failed"], row["cut"]) == (ledger["ok"], ledger["failed"], ledger["cancelled"])
    tokens = locust.summary["tokens"]
    served = sum(tokens[f"output_tokens_{outcome}"] for outcome in ("ok", "failed", "cancelled"))
    assert influx.query(f"SELECT SUM(served_tps) AS n FROM llm_interval {where}")[0]["n"] == served
    by_scenario = influx.query(f"SELECT SUM(ok_rate) AS n FROM llm_interval WHERE run = '{run}' AND scenario = 'Chat'")
    assert by_scenario[0]["n"] == ledger["ok"]


def test_workers_and_events_are_those_of_series_jsonl(influx, locust):
    """What does not follow from completions is in the record too, point by point."""
    run = locust.summary["run"]["id"]
    for measurement, field in (("llm_worker", "rss_bytes"), (EVENT, "title")):
        recorded = [one for one in read_series(locust.run) if one.measurement == measurement and field in one.fields]
        rows = influx.query(f"SELECT \"{field}\" FROM {measurement} WHERE run = '{run}'")
        assert sorted((row["time"], row[field]) for row in rows) == sorted(
            (one.time_ns, one.fields[field]) for one in recorded
        )
        assert recorded


def test_tags_are_a_closed_set(influx, locust):
    """INF-05: tag keys are the schema's, and ids and messages are no tags."""
    keys = {row["tagKey"] for row in influx.query("SHOW TAG KEYS FROM llm_request")}
    assert keys <= TAG_KEYS
    values = influx.query(
        f'SHOW TAG VALUES FROM llm_request WITH KEY IN ("worker", "scenario") WHERE run = \'{locust.run.name}\''
    )
    assert {row["value"] for row in values} == {"worker-0", "worker-1", "Chat"}


def test_hostile_text_arrives_as_it_is(influx):
    """INF-06: commas, quotes, emoji and 10 kB in a model name, line ends too in an error text: stored, no new tag."""
    text = "a,b=c \"d\" 'e' \\ f\n,g=h\ttab \U0001f600 é " + "x" * 10_000
    model = 'qwen 2,5=x"y"\\z \U0001f600 ' + "y" * 10_000
    counts = stored(influx, "hostile", [completion(1, message=text, model=model), completion(2)])
    assert (counts["written"], counts["dropped"]) == (2, 0)
    row = influx.query("SELECT message, model FROM llm_request WHERE run = 'hostile' AND message != ''")[0]
    assert (row["message"], row["model"]) == (text, model)
    assert {row["tagKey"] for row in influx.query("SHOW TAG KEYS FROM llm_request")} <= TAG_KEYS
    assert influx.requests("hostile") == 2


def test_what_a_tag_cannot_hold_is_replaced(influx):
    """INF-06: a line end becomes a space and a last backslash goes; the batch around it survives."""
    rows = [completion(1, model="two\nlines\\"), completion(2, model="\n"), completion(3)]
    assert stored(influx, "breaks", rows)["written"] == 3
    models = {row["model"] for row in influx.query("SELECT request_id, model FROM llm_request WHERE run = 'breaks'")}
    assert models == {"two lines", "", "m"} or models == {"two lines", None, "m"}


def test_lines_carry_time_and_type():
    """INF-03, INF-04, INF-08: always a time; 0 is a float where floats are; what is not defined is no field."""
    line = to_line(request_point(completion(ttft_s=0, tpot_s=math.nan, e2e_s=None), "r"))
    assert line == (
        b"llm_request,model=m,outcome=ok,run=r,scenario=chat,worker=local ttft_s=0.0,closed_s=0.5,output_tokens=3i,"
        b'status=200i,request_id="3f9a-local-1",retries=0i ' + str((NOW_NS + 500_000_000) // 1000 * 1000 + 1).encode()
    )
    assert to_line(Point(INTERVAL, {"run": "r"}, {}, 1)) is None
    assert to_line(Point(REQUEST, {"model": "a b,c=d"}, {"x": True, "y": 1, "z": 1.5}, 7)) == (
        rb"llm_request,model=a\ b\,c\=d x=true,y=1i,z=1.5 7"
    )


def test_requests_that_end_together_are_all_stored(influx):
    """INF-02: 500 completions of one worker with one end."""
    assert stored(influx, "together", [completion(number) for number in range(1, 501)])["written"] == 500
    assert influx.requests("together") == 500


def test_writing_again_changes_nothing(influx):
    """The same completions make the same points."""
    for _ in range(2):
        stored(influx, "again", [completion(number) for number in range(1, 51)])
    assert influx.requests("again") == 50


def test_one_bad_point_costs_no_other(influx):
    """A field of another type is refused with 400: the batch is halved until only the bad points are left."""
    bad = Point(EVENT, {"run": "bad", "kind": "warning"}, {"title": 1.5}, NOW_NS)
    points = [event_point("bad", "step", NOW_NS + number, f"step {number}") for number in range(1, 100)]
    points.insert(40, bad)
    counts = stored(influx, "bad", [completion(1)], points)
    assert (counts["written"], counts["dropped"]) == (100, 1)
    assert "field type conflict" in counts["error"]
    assert influx.count(EVENT, "bad", "title") == 99


# before a run


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"INFLUXDB_TOKEN": "wrong-token-77"}, "refuses INFLUXDB_TOKEN (401 unauthorized access): give one that may"),
        ({"INFLUXDB_BUCKET": "nowhere"}, 'has no bucket nowhere in organisation llmload (404 database not found: "no'),
        ({"INFLUXDB_URL": "http://127.0.0.1:9"}, "at http://127.0.0.1:9 does not answer ("),
        (
            {"INFLUXDB_URL": ""},
            "INFLUXDB_URL is not set but INFLUXDB_TOKEN and INFLUXDB_BUCKET and INFLUXDB_ORG: set it",
        ),
        ({"INFLUXDB_BUCKET": ""}, "INFLUXDB_BUCKET is not set but INFLUXDB_URL: set it to the bucket, of InfluxDB 1.8"),
    ],
)
def test_what_is_wrong_with_influxdb_is_one_line(tmp_path, influx, mock, change, words):
    """Wrong token, missing bucket, nobody there, no address: exit code 2 before the load, and no token in sight."""
    started = mock.stats()["started"]
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", "-t", "2s", env={**influx.env, **change})
    said = [line for line in locust.text.splitlines() if line.startswith("llmload: ")]
    assert (locust.code, len(said)) == (2, 1), locust.text
    assert words in said[0]
    assert TOKEN not in locust.text
    assert "wrong-token" not in locust.text
    assert mock.stats()["started"] == started


def test_the_web_page_does_not_come_up_with_half_a_set_up(tmp_path):
    """Nobody would see the line there, and the run would be without its series."""
    locust = run_locust(tmp_path, "--web-port", str(free_port()), headless=False, env={"INFLUXDB_V2_TOKEN": "t"})
    said = [line for line in locust.text.splitlines() if line.startswith("llmload: ")]
    assert (locust.code, said) == (
        2,
        [
            "llmload: INFLUXDB_URL is not set but INFLUXDB_V2_TOKEN: set it, e.g. to http://localhost:8086, or unset "
            "the rest to run without InfluxDB"
        ],
    )


URL, BUCKET, V2_URL = {"INFLUXDB_URL": "http://h"}, {"INFLUXDB_BUCKET": "b"}, {"INFLUXDB_V2_URL": "http://h"}


@pytest.mark.parametrize(
    ("environ", "target"),
    [
        ({}, None),
        ({"INFLUXDB_URL": " ", "INFLUXDB_TOKEN": ""}, None),
        ({"INFLUXDB_URL": "http://h:8086/", "INFLUXDB_BUCKET": "db/rp"}, InfluxTarget("http://h:8086", "db/rp")),
        (
            {**V2_URL, "INFLUXDB_V2_BUCKET": "b", "INFLUXDB_V2_TOKEN": "t", "INFLUXDB_V2_ORG": "o"},
            InfluxTarget("http://h", "b", "t", "o", "INFLUXDB_V2_"),
        ),
        ({**URL, **V2_URL, **BUCKET, "INFLUXDB_V2_BUCKET": "other"}, InfluxTarget("http://h", "b")),
    ],
)
def test_where_influxdb_is(environ, target):
    """1.8 and 3 Core need an address and a bucket; the client's own names stand in; nothing set is no InfluxDB."""
    assert read_influx(environ) == target


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        (BUCKET, "INFLUXDB_URL is not set but INFLUXDB_BUCKET: set it, e.g. to http://localhost:8086, or unset the "),
        ({"INFLUXDB_V2_TOKEN": "t", "INFLUXDB_V2_BUCKET": "b"}, "INFLUXDB_URL is not set but INFLUXDB_V2_TOKEN and IN"),
        ({**URL, "INFLUXDB_TOKEN": "t"}, "INFLUXDB_BUCKET is not set but INFLUXDB_URL: set it to the bucket, of Inf"),
        (V2_URL, "INFLUXDB_V2_BUCKET is not set but INFLUXDB_V2_URL: set it to the bucket, of InfluxDB 1.8 and 3 to"),
        ({**V2_URL, "INFLUXDB_V2_BUCKET": "$B"}, "INFLUXDB_V2_BUCKET is the literal text '$B': it was never expanded"),
        ({**URL, **BUCKET, "INFLUXDB_TOKEN": "${TOKEN}"}, "INFLUXDB_TOKEN is the literal text '${TOKEN}': it was nev"),
        ({"INFLUXDB_URL": "http://me:s3cret@h"}, "INFLUXDB_URL http://h holds more than an address: put secrets in "),
        ({"INFLUXDB_V2_URL": "localhost:8086"}, "INFLUXDB_V2_URL 'localhost:8086' is no address: write e.g. http://l"),
        ({**URL, **BUCKET, "INFLUXDB_V2_TOKEN": "a b"}, "INFLUXDB_V2_TOKEN holds white space or characters outside A"),
    ],
)
def test_what_is_wrong_with_the_variables(environ, line):
    """The variable is named as it was set, with what to do, and never its value where that is secret."""
    with pytest.raises(SetupError) as caught:
        read_influx(environ)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("org", "status", "said", "line"),
    [
        (
            "",
            400,
            "Please provide either orgID or org",
            "wants an organisation, and INFLUXDB_ORG is not set (400 Please",
        ),
        ("o", 404, 'organization name "o" not found', "has no bucket llmload in organisation o (404 organization name"),
        ("", 404, 'bucket "llmload" not found', "has no bucket llmload (404 bucket"),
    ],
)
def test_an_organisation_is_asked_for_where_it_is_missed(influx, org, status, said, line):
    """InfluxDB 2 says so in these words; 1.8 and 3 take writes without."""
    trouble = Trouble(influx)
    trouble.status = status, json.dumps({"code": "invalid", "message": said}).encode()
    with pytest.raises(SetupError) as caught:
        InfluxSink(replace(trouble.target, org=org)).probe()
    trouble.close()
    assert str(caught.value).startswith(f"InfluxDB at {trouble.target.url} {line}")


def test_a_database_is_enough(influx):
    """Without an organisation points are stored, as for 1.8 and 3 Core."""
    sink = InfluxSink(replace(influx.target, org=""))
    sink.probe()
    sink.start("no-org")
    sink.write([completion()])
    sink.stop(20)
    assert (sink.counts()["written"], influx.requests("no-org")) == (1, 1)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(influx, monkeypatch):
    """CFG-02: HTTP_PROXY points nowhere, the write arrives."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert stored(influx, "proxy", [completion()])["written"] == 1


def test_the_token_is_nowhere(locust):
    """SEC-01: not in the record, not in what was printed."""
    everything = locust.text + "".join(path.read_text() for path in locust.run.iterdir() if path.is_file())
    assert TOKEN not in everything
    assert json.loads((locust.run / "run.json").read_text())["sinks"]["influxdb"]["written"] > 0


def test_a_point_without_a_field_is_counted():
    """INF-08: NaN alone makes no line; the point is counted as dropped, so that given = written + dropped."""
    sink = InfluxSink(InfluxTarget("http://127.0.0.1:9", "b"))
    sink.write((), [worker_point("r", "w", 1, {"lag_p99_s": float("nan")})])
    assert (sink.counts()["dropped"], sink.counts()["queued"]) == (1, 0)

"""docs/influxdb.md names what is stored: every field, and no other."""

from __future__ import annotations

import re

import pytest

from llmload.mock.process import MockProcess
from llmload.sinks.points import request_point
from tests.locusts import ROOT, run_locust

GUIDE = (ROOT / "docs/influxdb.md").read_text(encoding="utf-8")
LATENCIES = ("ttft", "itl", "tpot", "e2e")


def named(measurement):
    """The fields that the guide lists for a measurement: what stands in backquotes from its name on to the next gap."""
    start = GUIDE.index(f"\n`{measurement}`: ") + len(measurement) + 4
    text = re.sub(r"\([^()]*\)", "", GUIDE[start : GUIDE.index("\n\n", start)])
    fields = set(re.findall(r"`(\w+)`", text)) - {"_s", "good"}
    if measurement == "llm_interval":
        fields -= {"ttft_p50_s", "_p90_s", "_p95_s", "_p99_s", "_max_s", *LATENCIES}
        parts = ("p50_s", "p90_s", "p95_s", "p99_s", "max_s", "n")
        fields |= {f"{name}_{part}" for name in LATENCIES for part in parts}
    return fields | ({"good"} if measurement == "llm_request" else set())


@pytest.fixture(scope="module")
def stored(influx, tmp_path_factory):
    """The fields of an open-loop run of two workers with failures and everything that can be asked for, by
    measurement."""
    with MockProcess("--tokens", "10", "--itl-ms", "10", "--ttft-ms", "30", "--fault", "http_429=0.1") as mock:
        args = (
            "--rate",
            "20",
            "-t",
            "4s",
            "--processes",
            "2",
            "--model",
            "mock",
            "--goodput",
            "ttft:500",
            "--no-probe",
        )
        locust = run_locust(tmp_path_factory.mktemp("guide"), "--host", mock.url, *args, env=influx.env)
    run = locust.run.name
    found = {}
    for measurement in ("llm_request", "llm_interval", "llm_worker"):
        rows = influx.query(f"SELECT * FROM {measurement} WHERE run = '{run}'")
        found[measurement] = {name for row in rows for name, value in row.items() if value is not None}
    return found


@pytest.mark.parametrize("measurement", ["llm_request", "llm_interval", "llm_worker"])
def test_every_stored_field_is_in_the_guide(stored, measurement):
    """And what the guide names is stored, but for what such a run does not have."""
    tags = {"time", "run", "scenario", "model", "worker", "outcome", "kind", "step"}
    lacks = {"dns_s", "tls_s", "connect_s", "reasoning_tokens", "cached_tokens", "read_delay_s"}
    fields = stored[measurement] - tags
    assert fields <= named(measurement)
    assert named(measurement) - fields <= lacks


def test_the_fields_of_a_completion_are_the_guides():
    """All of them, whatever a single run has."""
    names = named("llm_request")
    row = dict.fromkeys(names, 1.0) | {
        "id": "3f9a-local-1", "scenario": "chat", "model": "m", "worker": "w", "outcome": "ok", "started_unix_ns": 0,
    }  # fmt: skip
    assert set(request_point(row, "r").fields) == names

"""Points of the time series: pure functions from completions, seconds and looks at workers. No network, no clock.

The schema is docs/influxdb.md's. Tags are a closed set of few values, everything else is a field; each field has one
type for ever; a value that is not defined is no field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from llmload.metrics.definitions import REQUEST_METRICS
from llmload.metrics.seconds import end_ns
from llmload.metrics.tally import Key

Value = float | int | str | bool

REQUEST, INTERVAL, WORKER, EVENT = "llm_request", "llm_interval", "llm_worker", "llm_event"
ALL = "all"
"""Tag value of the rows that hold everything together."""
EVENT_KINDS = (
    "run_start",
    "run_end",
    "step",
    "worker_joined",
    "worker_lost",
    "slo_breached",
    "aborted",
    "warning",
)

INTEGERS = frozenset(
    ["status", "retries", "received_bytes", "token_events", "users", "in_flight", "started", "ok", "failed"]
    + ["cancelled", "ttft_n", "itl_n", "tpot_n", "e2e_n", "rss_bytes", "record_queue"]
    + ["influx_written", "influx_retried", "influx_dropped", "influx_queue"]
    + [metric.name for metric in REQUEST_METRICS if metric.unit == "tokens"]
)
"""Fields that are whole numbers; every other number is a float, also when it is whole."""


_RECORDED = (
    *(metric.name for metric in REQUEST_METRICS),
    *("status", "finish_reason", "message", "received_bytes", "token_events", "good"),
)
"""Fields of a completion's point that its record has under the same name."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Point:
    """One point: `time_ns` in unix nanoseconds."""

    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, Value]
    time_ns: int

    def to_dict(self) -> dict[str, Any]:
        """Return the point as a line of series.jsonl holds it."""
        return {
            "measurement": self.measurement,
            "time_ns": self.time_ns,
            "tags": dict(self.tags),
            "fields": dict(self.fields),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Point:
        """Return the point that `to_dict` was called on.

        Raises:
            KeyError, TypeError: it is not ours.
        """
        tags, fields, time_ns = data["tags"], data["fields"], data["time_ns"]
        if not (isinstance(tags, dict) and isinstance(fields, dict) and type(time_ns) is int):
            raise TypeError("not a point")
        return cls(data["measurement"], tags, fields, time_ns)


def request_point(completion: Mapping[str, Any], run_id: str) -> Point:
    """Return the point of one completion, given as a line of completions.jsonl.

    It is stamped at its end, to the microsecond; the last three digits are the request's number in its worker, so that
    two of a series that end together do not overwrite each other, and pushing again writes the same point.
    """
    ended_ns = end_ns(completion["started_unix_ns"], completion.get("closed_s"), completion.get("e2e_s"))
    number = str(completion["id"]).rpartition("-")[2]
    tags = {
        "run": run_id,
        "scenario": completion["scenario"],
        "model": completion["model"],
        "worker": completion["worker"],
        "outcome": completion["outcome"],
    }
    for name in ("kind", "step"):
        if completion.get(name) is not None:
            tags[name] = completion[name]
    values = {name: completion[name] for name in _RECORDED if name in completion}
    values.update(request_id=completion["id"], retries=completion.get("reconnects", 0))
    if number.isdigit():
        ended_ns = ended_ns // 1000 * 1000 + int(number) % 1000
    return Point(REQUEST, tags, typed(values), ended_ns)


def interval_point(run_id: str, second: int, key: Key | None, fields: Mapping[str, Any]) -> Point:
    """Return the point of one second; a key of None is that of everything together."""
    scenario, model, step = (ALL, ALL, None) if key is None else key
    tags = {"run": run_id, "scenario": scenario, "model": model}
    if step is not None:
        tags["step"] = step
    return Point(INTERVAL, tags, typed(fields), second * 10**9)


def worker_point(run_id: str, worker: str, time_ns: int, fields: Mapping[str, Any]) -> Point:
    """Return the point of one look at a process."""
    return Point(WORKER, {"run": run_id, "worker": worker}, typed(fields), time_ns)


def event_point(run_id: str, kind: str, time_ns: int, title: str, text: str = "") -> Point:
    """Return the point of something that happened; `kind` is one of `EVENT_KINDS`."""
    assert kind in EVENT_KINDS, kind
    return Point(EVENT, {"run": run_id, "kind": kind}, {"title": title, "text": text}, time_ns)


def typed(values: Mapping[str, Any]) -> dict[str, Value]:
    """Return the values with the type that their field has, without those that are missing or no number."""
    fields: dict[str, Value] = {}
    for name, value in values.items():
        if type(value) is float:
            if isfinite(value):
                fields[name] = int(value) if name in INTEGERS else value
        elif isinstance(value, str | bool):
            fields[name] = value
        elif value is None or abs(value) > _LARGEST:  # of more than 64 bits there is no field
            continue
        else:
            fields[name] = int(value) if name in INTEGERS else float(value)
    return fields

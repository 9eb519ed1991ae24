"""The JSON Schema of a run's summary (`summary.json`), built from the tables that the summary itself is built from.

No I/O. docs/summary.schema.json is its output: `python -m llmload.reports.schema > docs/summary.schema.json`.
"""

from __future__ import annotations

import json
from typing import Any

from llmload.errors import FAILURE_KINDS
from llmload.metrics.definitions import REQUEST_METRICS
from llmload.metrics.distributions import PERCENTILES
from llmload.metrics.summary import SCHEMA

Schema = dict[str, Any]

COUNT: Schema = {"type": "integer", "minimum": 0}
MAYBE_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}
MAYBE: Schema = {"type": ["number", "null"]}
TEXT: Schema = {"type": "string"}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
SWITCH: Schema = {"type": ["boolean", "null"]}
COUNTS: Schema = {"type": "object", "additionalProperties": COUNT}
OPEN: Schema = {"type": ["object", "null"]}
_RATES = ("request_throughput", "output_throughput", "served_throughput", "input_throughput", "total_throughput")


def closed(properties: dict[str, Schema], *, null: bool = False) -> Schema:
    """An object with exactly these keys."""
    kind: Any = ["object", "null"] if null else "object"
    return {"type": kind, "properties": properties, "required": list(properties), "additionalProperties": False}


def rows(item: Schema, *, null: bool = False) -> Schema:
    """A list of these."""
    return {"type": ["array", "null"] if null else "array", "items": item}


def summary_schema() -> Schema:
    """Return the schema; every key of a summary is in it, and no other."""
    window = closed({"from": MAYBE, "to": MAYBE, "seconds": {"type": "number"}, "definition": TEXT}, null=True)
    rates = dict.fromkeys(_RATES, MAYBE)
    part = closed({"window": window, **rates}, null=True)
    throughput = closed(
        {"window": window, **rates, "steady": part, "steady_missing": MAYBE_TEXT, "whole": part,
         "peak_output_throughput": MAYBE}
    )  # fmt: skip
    ledger = closed(dict.fromkeys(("started", "ok", "failed", "cancelled", "in_flight"), COUNT))
    failures = rows(
        closed({"kind": {"enum": [*FAILURE_KINDS, "other"]}, "status": MAYBE_COUNT, "count": COUNT,
                "example": MAYBE_TEXT,
                "where": rows(closed({"scenario": TEXT, "step": MAYBE_TEXT, "count": COUNT}))})
    )  # fmt: skip
    metrics = closed({metric.name: {"$ref": "#/$defs/distribution"} for metric in REQUEST_METRICS})
    scenario = closed(
        {
            "ledger": closed(dict.fromkeys(("ok", "failed", "cancelled"), COUNT)),
            "metrics": {"$ref": "#/$defs/metrics"},
            "throughput": {"$ref": "#/$defs/throughput"},
            "goodput": OPEN,
            "failures": {"$ref": "#/$defs/failures"},
        }
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{SCHEMA}: the summary of one llmload run",
        **closed(
            {
                "schema": {"const": SCHEMA},
                "run": _run(),
                "ledger": ledger,
                "client": {
                    "type": "object",
                    "required": ["verdict", "why", "lag_p99_s", "cpu_percent_max"],
                    "properties": {
                        "verdict": {"enum": ["server", "mixed", "client", "unknown"]},
                        "why": TEXT,
                        "lag_p99_s": MAYBE,
                        "cpu_percent_max": MAYBE,
                    },
                },
                "metrics": {"$ref": "#/$defs/metrics"},
                "arrivals": OPEN,
                "throughput": {"$ref": "#/$defs/throughput"},
                "goodput": OPEN,
                "excluded": OPEN,
                "tokens": COUNTS,
                "failures": {"$ref": "#/$defs/failures"},
                "finish_reasons": COUNTS,
                "usage_sources": COUNTS,
                "stream": {"type": "object", "additionalProperties": MAYBE},
                "connections": closed(dict.fromkeys(("new", "reused", "stale"), COUNT)),
                "stamps": COUNTS,
                "prompts": closed({"served": MAYBE_COUNT, "repeated": MAYBE_COUNT}),
                "sweep": OPEN,
                "capacity": OPEN,
                "sinks": {"type": ["object", "null"], "additionalProperties": {"type": "object"}},
                "scenarios": {"type": "object", "additionalProperties": scenario},
                "objectives": rows(_objective(), null=True),
                "warnings": rows(TEXT),
            }
        ),
        "$defs": {
            "distribution": _distribution(),
            "metrics": metrics,
            "throughput": throughput,
            "failures": failures,
        },
    }


def _run() -> Schema:
    load = closed(
        {"targets": rows(TEXT), "model": MAYBE_TEXT, "users": MAYBE_COUNT, "course": MAYBE_TEXT,
         "max_tokens": MAYBE_COUNT, "stream": SWITCH, "insecure": SWITCH, "exceptions": MAYBE_COUNT}
    )  # fmt: skip
    return closed(
        {"id": MAYBE_TEXT, "started_at": MAYBE_TEXT, "ended_at": MAYBE_TEXT, "ended_by": MAYBE_TEXT,
         "valid": SWITCH, "load": load, "reasons": rows(TEXT)}
    )  # fmt: skip


def _distribution() -> Schema:
    values = dict.fromkeys(("mean", "min", *(f"p{percent}" for percent in PERCENTILES), "max"), MAYBE)
    return closed({"n": COUNT, **values, "clamped": COUNT, "missing": COUNT, "unit": TEXT})


def _objective() -> Schema:
    return {
        "type": "object",
        "required": ["text", "scope", "metric", "statistic", "limit", "op", "unit", "value", "n", "met", "why"],
        "properties": {
            "text": TEXT, "metric": TEXT, "statistic": MAYBE_TEXT, "limit": {"type": "number"}, "op": TEXT,
            "unit": MAYBE_TEXT, "value": MAYBE, "n": COUNT, "met": {"type": "boolean"}, "why": TEXT,
        },
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(summary_schema(), indent=2))

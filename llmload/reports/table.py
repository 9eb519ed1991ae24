"""CSV: `completions.csv`, one row a request, and `summary.csv`, one row a number.

Writes to a text stream that it is given. A text that a spreadsheet would take for a formula gets an apostrophe in
front.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import fields
from io import StringIO
from typing import Any, TextIO

from llmload.records import Completion
from llmload.reports.numbers import plain

COLUMNS = tuple(field.name for field in fields(Completion) if field.name not in ("text", "gaps_us", "events_per_read"))
"""Of completions.csv: those of the record, without the token timelines."""

SUMMARY_COLUMNS = ("scope", "section", "name", "statistic", "value", "unit")
_STATISTICS = ("n", "missing", "mean", "min", "p50", "p90", "p95", "p99", "max")


class CompletionTable:
    """Writes completions.csv as the completions come."""

    def __init__(self, stream: TextIO) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def add(self, completion: Completion) -> None:
        """Write one row; what is not defined is an empty cell, true and false are 1 and 0."""
        self._writer.writerow([_cell(getattr(completion, name)) for name in COLUMNS])


def render_summary(summary: Mapping[str, Any]) -> str:
    """Return summary.csv: every number of a summary with its scope (run, scenario or step)."""
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(SUMMARY_COLUMNS)
    for row in _rows(summary):
        writer.writerow([_cell(value) for value in row])
    return stream.getvalue()


def _rows(summary: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    yield from _section("run", summary)
    for name, count in summary["tokens"].items():
        yield "run", "tokens", name, "sum", count, "tokens"
    for name, scenario in summary["scenarios"].items():
        yield from _section(f"scenario:{name}", scenario)
    for step in (summary.get("sweep") or {}).get("steps") or ():
        yield from _section(f"step:{step['level']:g}", step)


def _section(scope: str, section: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, value in section["ledger"].items():
        yield scope, "ledger", name, "count", value, "requests"
    for name, value in section["throughput"].items():
        if value is None or isinstance(value, (int, float)):
            unit = "req/s" if name == "request_throughput" else "tok/s"
            yield scope, "throughput", name, "rate", value, unit
    for name, row in section["metrics"].items():
        for statistic in _STATISTICS:
            yield scope, "metrics", name, statistic, row.get(statistic), row["unit"]
    for row in section.get("failures") or ():
        label = row["kind"] if row["status"] is None else f"{row['kind']} {row['status']}"
        yield scope, "failures", label, "count", row["count"], "requests"


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        text = plain(value)
        return "'" + text if text[:1] in ("=", "+", "-", "@") else text
    return value

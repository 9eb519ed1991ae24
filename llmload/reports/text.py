"""The summary as plain text for a terminal, at most 100 columns wide.

No I/O. Verdict first, then numbers, then doubts. What is missing is a dash with n = 0 beside it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from llmload.metrics.definitions import metric
from llmload.metrics.findings import Finding
from llmload.reports.arrivals import arrival_lines
from llmload.reports.gates import goodput_lines, objective_lines
from llmload.reports.numbers import MISSING, clock, milliseconds, number, plain
from llmload.reports.sections import failed_where
from llmload.reports.sinks import sink_lines
from llmload.reports.sweep import render_capacity, render_sweep

WIDTH = 100

_ALWAYS = ("ttft_s", "ttfa_s", "itl_s", "tpot_s", "e2e_s")
_OPEN_LOOP = ("ttft_intended_s", "e2e_intended_s", "send_delay_s")
"""Shown first where there are intended starts: there latency counts from them."""
_WHEN_PRESENT = (
    "send_delay_s",
    "dns_s",
    "connect_s",
    "tls_s",
    "pool_wait_s",
)
_COUNTS = ("output_tps", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
_FORMULAS = ("ttft_s", "itl_s", "tpot_s", "e2e_s")
_RATES = {
    "request_throughput": "req/s",
    "output_throughput": "output tok/s",
    "input_throughput": "input tok/s",
    "total_throughput": "total tok/s",
    "served_throughput": "served tok/s",
}
_PHASES = {"warmup": "warm-up", "settling": "settling"}
_OUTCOMES = ("ok", "failed", "cancelled")
_SOURCES = {
    "server": "counted by the server",
    "tokenizer": "counted by a tokenizer",
    "estimate": "ESTIMATED",
}
_VERDICTS = {
    "server": "the latency shown is the server's",
    "mixed": "part of the latency shown is the client's",
    "client": "THE CLIENT WAS THE BOTTLENECK: do not read its latency as the server's",
    "unknown": "cannot say whether the client was the bottleneck",
}


def render(summary: Mapping[str, Any], findings: Iterable[Finding] = ()) -> str:
    """Return the report of a summary, lines joined by line ends, without one at the end."""
    blocks: Iterable[Iterable[str]] = (
        _verdict(summary),
        _wrapped(objective_lines(summary)),
        _ledger(summary),
        _wrapped(arrival_lines(summary["arrivals"])),
        _throughput(summary["throughput"]),
        _wrapped(goodput_lines(summary)),
        render_sweep(summary["sweep"]),
        render_capacity(summary["capacity"]),
        _latency(summary["metrics"]),
        _tokens(summary),
        _failures(summary["failures"], summary["scenarios"]),
        _scenarios(summary["scenarios"]),
        _findings(findings),
        _wrapped(sink_lines(summary)),
        _warnings(summary["warnings"]),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines)


def _verdict(summary: Mapping[str, Any]) -> Iterator[str]:
    run, client = summary["run"], summary["client"]
    valid = {True: "valid", False: "NOT VALID", None: "not judged"}[run["valid"]]
    yield from _wrap(f"run {run['id'] or MISSING}: ", "; ".join([valid, *run["reasons"]]))
    yield from _wrap("client: ", f"{_VERDICTS[client['verdict']]} ({client['why']})")
    yield from _wrap("load: ", _load(run["load"]))
    start, end, by = (run[name] or MISSING for name in ("started_at", "ended_at", "ended_by"))
    yield f"from {start} to {end}, ended by {by}"


def _load(load: Mapping[str, Any]) -> str:
    parts = [
        load["course"] and load["course"].replace("_", " "),
        None if load["users"] is None else f"{load['users']:,} users",
        load["model"] and f"model {load['model']}",
        None if load["max_tokens"] is None else f"at most {load['max_tokens']:,} tokens",
        {True: "streamed", False: "not streamed", None: None}[load["stream"]],
    ]
    return ", ".join(part for part in parts if part) + "".join(f" → {target}" for target in load["targets"]) or MISSING


def _ledger(summary: Mapping[str, Any]) -> Iterator[str]:
    ledger = summary["ledger"]
    names = ("started", *_OUTCOMES, "in_flight")
    yield "requests: " + ", ".join(f"{ledger[name]:,} {name.replace('_', ' ')}" for name in names)
    for name, part in ((summary["excluded"] or {}).get("parts") or {}).items():
        seconds = MISSING if part["seconds"] is None else f"{part['seconds']:.1f}"
        yield f"{_PHASES[name]}: {part['requests']:,} requests in {seconds} s left out of latencies and rates"


def _throughput(throughput: Mapping[str, Any]) -> Iterator[str]:
    steady, whole = throughput["steady"], throughput["whole"]
    yield _row("throughput", list(_RATES.values()), width=14)
    for name, window in (("steady", steady), ("whole run", whole)):
        yield _row(name, [number((window or {}).get(rate)) for rate in _RATES], width=14)
    peak = throughput["peak_output_throughput"]
    yield f"peak: {number(peak)} output tok/s in the best second"
    if steady is None:
        yield from _wrap("steady: none, ", throughput["steady_missing"])
    for name, window in (("steady", steady), ("whole run", whole)):
        if window is not None:
            span = window["window"]
            times = f"{clock(span['from'])} to {clock(span['to'])} UTC, {span['seconds']:.3f} s"
            yield from _wrap(f"{name}: ", f"{times}: {span['definition']}")


def _latency(metrics: Mapping[str, Any]) -> Iterator[str]:
    yield _row("latency, ms", ["n", *_COLUMNS])
    first = _OPEN_LOOP if metrics["e2e_intended_s"]["n"] else ()
    rest = [name for name in _WHEN_PRESENT if metrics[name]["n"] and name not in first]
    for name in (*first, *_ALWAYS, *rest):
        yield _distribution(name, metrics[name], milliseconds)
    yield from (f"{metric(name).label} = {metric(name).formula}" for name in _FORMULAS)
    yield "n = output tokens of the request; origin = first byte sent - DNS - connect - TLS"


def _tokens(summary: Mapping[str, Any]) -> Iterator[str]:
    yield _row("per request", ["n", *_COLUMNS])
    for name in _COUNTS:
        if name == "output_tps" or summary["metrics"][name]["n"]:
            yield _distribution(name, summary["metrics"][name], number)
    sources, reasons = summary["usage_sources"], summary["finish_reasons"]
    if sources:
        yield "output tokens: " + ", ".join(f"{n:,} {_SOURCES[name]}" for name, n in sources.items())
    if reasons:
        yield from _wrap("finish reasons: ", ", ".join(f"{n:,} {name}" for name, n in reasons.items()))


def _failures(failures: list[Mapping[str, Any]], scenarios: Mapping[str, Any]) -> Iterator[str]:
    if not failures:
        return
    yield "failures"
    for row in failures:
        kind = row["kind"] if row["status"] is None else f"{row['kind']} {row['status']}"
        yield from _wrap(f"{row['count']:>8,} {kind:<20} ", row["example"] or MISSING)
        if where := failed_where(row, scenarios):
            yield from _wrap(" " * 30, f"in {where}")


def _scenarios(scenarios: Mapping[str, Any]) -> Iterator[str]:
    if len(scenarios) < 2:
        return
    columns = ["ok", "failed", "cancelled", "TTFT p50", "TTFT p95", "TPOT p50", "E2E p95", "tok/s"]
    yield _row("scenario (ms)", columns, width=9)
    for name, scenario in scenarios.items():
        metrics = scenario["metrics"]
        yield _row(
            name,
            [
                *(f"{scenario['ledger'][outcome]:,}" for outcome in _OUTCOMES),
                milliseconds(metrics["ttft_s"]["p50"]),
                milliseconds(metrics["ttft_s"]["p95"]),
                milliseconds(metrics["tpot_s"]["p50"]),
                milliseconds(metrics["e2e_s"]["p95"]),
                number(scenario["throughput"]["output_throughput"]),
            ],
            width=9,
        )


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        shown = ", ".join(f"{name} {value}" for name, value in finding.evidence)
        yield from _wrap("finding: ", f"{finding.title} ({shown})")


def _warnings(warnings: list[str]) -> Iterator[str]:
    for sentence in warnings:
        yield from _wrap("! ", sentence)


def _distribution(name: str, row: Mapping[str, Any], show: Callable[[float | None], str]) -> str:
    return _row(metric(name).label, [f"{row['n']:,}", *(show(row[column]) for column in _COLUMNS)])


def _row(head: str, cells: list[str], *, width: int = 10) -> str:
    return f"{plain(head)[:17]:<17}" + "".join(f" {cell:>{width}}" for cell in cells)


def _wrap(head: str, text: str) -> list[str]:
    """Break a text under its head; what a server sent is shown without control characters."""
    indent = " " * min(len(head), 30)
    lines = textwrap.wrap(plain(text), WIDTH, initial_indent=plain(head), subsequent_indent=indent)
    return lines or [head.rstrip()]


def _wrapped(lines: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Break lines that are given as (head, text)."""
    for head, text in lines:
        yield from _wrap(head, text)

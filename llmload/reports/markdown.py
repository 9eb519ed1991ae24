"""The Markdown report: what fits into a comment of a pull request or the summary of a CI job.

No I/O. Text from elsewhere (messages, names) stands in code spans: there it can neither format, nor link, nor mention
anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llmload.metrics.definitions import metric
from llmload.metrics.findings import Finding
from llmload.metrics.objective import shown
from llmload.reports.numbers import MISSING, count, milliseconds, number, plain, shown_in, unit_of
from llmload.reports.sections import failed_where, load_text, verdicts
from llmload.reports.sweep import conclusions

MAX_ROWS = 20
"""Failures and steps that are listed; the HTML report has all."""

_SIGNS = {"good": "✅", "doubt": "⚠️", "bad": "❌"}
_SHOWN = ("ttft_s", "ttfa_s", "itl_s", "tpot_s", "e2e_s", "ttft_intended_s", "e2e_intended_s", "output_tps")
_COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
_FORMULAS = ("ttft_s", "itl_s", "tpot_s", "e2e_s")
_RATES = {"request_throughput": "req/s", "output_throughput": "output tok/s", "total_throughput": "total tok/s"}


def render(summary: Mapping[str, Any], findings: Iterable[Finding] = ()) -> str:
    """Return the report, with a line end at its end."""
    blocks = (
        _head(summary),
        _objectives(summary.get("objectives") or []),
        _numbers(summary),
        _latency(summary["metrics"]),
        _sweep(summary.get("sweep")),
        _findings(findings),
        _failures(summary["failures"], summary["scenarios"]),
        _warnings(summary["warnings"]),
    )
    return "\n\n".join(text for lines in blocks if (text := "\n".join(lines))) + "\n"


def code(text: object) -> str:
    """Return a text as a code span, safe in a table too."""
    return "`" + (plain(text).replace("`", "'").replace("|", "\\|").strip() or MISSING) + "`"


def _head(summary: Mapping[str, Any]) -> Iterator[str]:
    yield f"## llmload: run {code(summary['run']['id'] or MISSING)}"
    yield ""
    for verdict in verdicts(summary):
        yield f"- {_SIGNS[verdict['tone']]} **{verdict['title'].lstrip('✔✘? ')}**: {code(verdict['text'])}"
    yield f"- {code(load_text(summary['run']['load']))}"


def _objectives(objectives: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not objectives:
        return
    yield from _table(
        ("objective", "", "value", "n", "why"),
        [
            (
                code(one["text"]),
                _SIGNS["good" if one["met"] else "bad"] + (" met" if one["met"] else " missed"),
                MISSING if one["value"] is None else shown(one["value"], one["unit"], beside=one["limit"]),
                count(one["n"]),
                code(one["why"]),
            )
            for one in objectives
        ],
        left=(0, 1, 4),
    )


def _numbers(summary: Mapping[str, Any]) -> Iterator[str]:
    ledger = summary["ledger"]
    names = ("started", "ok", "failed", "cancelled", "in_flight")
    yield "Requests: " + ", ".join(f"{ledger[name]:,} {name.replace('_', ' ')}" for name in names) + "."
    throughput = summary["throughput"]
    window = throughput["window"]
    if window is not None:
        rates = ", ".join(f"{number(throughput[name])} {unit}" for name, unit in _RATES.items())
        yield f"Throughput: {rates} ({number(window['seconds'])} s: {window['definition']})."


def _latency(metrics: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name in _SHOWN:
        row, show, unit = metrics[name], shown_in(name), unit_of(name)
        if row["n"] or name in _FORMULAS:
            label = metric(name).label
            head = label if label.endswith(unit) else f"{label}, {unit}"
            rows.append((head, count(row["n"]), *(show(row[column]) for column in _COLUMNS)))
    yield from _table(("", "n", *_COLUMNS), rows)
    yield ""
    yield "<sub>" + "; ".join(f"{metric(name).label} = {metric(name).formula}" for name in _FORMULAS) + "</sub>"


def _sweep(sweep: Mapping[str, Any] | None) -> Iterator[str]:
    steps = (sweep or {}).get("steps") or []
    if sweep is None or not steps:
        return
    axis = str(sweep["axis"]).replace("_", " ")
    columns = (axis, "ok", "failed", "output tok/s", "TTFT n", "TTFT p50, ms", "TTFT p95, ms", "ITL p50, ms")
    yield from _table(columns, [_step(step) for step in steps[:MAX_ROWS]])
    for line in conclusions(sweep):
        yield ""
        yield code(line.strip())


def _step(step: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = step["metrics"]
    return (
        f"{step['level']:g}",
        count(step["ledger"]["ok"]),
        count(step["ledger"]["failed"]),
        number(step["throughput"]["output_throughput"]),
        count(metrics["ttft_s"]["n"]),
        milliseconds(metrics["ttft_s"]["p50"]),
        milliseconds(metrics["ttft_s"]["p95"]),
        milliseconds(metrics["itl_s"]["p50"]),
    )


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    for number_, finding in enumerate(findings):
        if not number_:
            yield "### Findings"
            yield ""
        facts = ", ".join(f"{name} {value}" for name, value in finding.evidence)
        yield f"- **{finding.title}.** {finding.meaning} ({code(facts)})"


def _failures(failures: Sequence[Mapping[str, Any]], scenarios: Mapping[str, Any]) -> Iterator[str]:
    if not failures:
        return
    yield "### Failures"
    yield ""
    rows = [
        (code(row["kind"] if row["status"] is None else f"{row['kind']} {row['status']}"), count(row["count"]),
         code(failed_where(row, scenarios)), code(row["example"] or MISSING))
        for row in failures[:MAX_ROWS]
    ]  # fmt: skip
    if any(row["where"] for row in failures):
        yield from _table(("kind", "count", "where", "example"), rows, left=(0, 2, 3))
    else:
        yield from _table(("kind", "count", "example"), [(*row[:2], row[3]) for row in rows], left=(0, 2))
    if len(failures) > MAX_ROWS:
        yield ""
        yield f"{len(failures) - MAX_ROWS} more kinds are left out."


def _warnings(warnings: Sequence[str]) -> Iterator[str]:
    if warnings:
        yield "### Before trusting the numbers"
        yield ""
        yield from (f"- {code(sentence)}" for sentence in warnings)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[int] = (0,)) -> Iterator[str]:
    """A table; columns of numbers, all but `left`, are aligned to the right."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "|".join("---" if column in left else "---:" for column in range(len(head))) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)

"""The HTML report of a run: what its template shows, in the order in which a person reads it.

No I/O but for the package's own files (see `page`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmload.metrics.details import Details
from llmload.metrics.findings import findings
from llmload.metrics.notable import Notable
from llmload.metrics.objective import shown
from llmload.reports import charts as figures
from llmload.reports.generator import generator, table
from llmload.reports.page import render_page
from llmload.reports.sections import extras, failed_where, load_text, settings_tables, verdicts
from llmload.reports.sweep import conclusions

LEDGER = ("started", "ok", "failed", "cancelled", "in_flight")
RATES = ("request_throughput", "output_throughput", "input_throughput", "total_throughput", "served_throughput")
_ALWAYS = ("ttft_s", "ttfa_s", "itl_s", "tpot_s", "e2e_s")


def render(summary: Mapping[str, Any], info: Mapping[str, Any], evidence: Details) -> str:
    """Return the page.

    Args:
        summary: of the run.
        info: the content of its run.json.
        evidence: of its completions.
    """
    axis = figures.time_axis(evidence)
    time_charts = figures.over_time(evidence, axis)
    sweep = summary.get("sweep") or {}
    own_charts = generator(evidence.processes, axis)
    charts = [*figures.sweep(sweep), *time_charts, *own_charts, *figures.distributions(evidence)]
    found = findings(summary, evidence)
    return render_page(
        "run.html",
        charts,
        summary=summary,
        load=load_text(summary["run"]["load"]),
        verdicts=verdicts(summary),
        sections=list(_sections(summary, evidence, found)),
        objectives=[{**one, "shown": _value(one)} for one in summary.get("objectives") or []],
        findings=found,
        ledger_columns=LEDGER,
        ledgers=list(_ledgers(summary)),
        rates=RATES,
        windows=list(_windows(summary["throughput"])),
        extras=extras(summary),
        latencies=[(name, row) for name, row in present(summary["metrics"], _ALWAYS) if row["unit"] == "s"],
        counts=[(name, row) for name, row in present(summary["metrics"], ("output_tps",)) if row["unit"] != "s"],
        steps=sweep.get("steps") or [],
        axis=str(sweep.get("axis", "")).replace("_", " "),
        conclusions=list(conclusions(sweep)) if sweep else [],
        time_charts=[chart.id for chart in time_charts],
        own_charts=[chart.id for chart in own_charts],
        processes=table(evidence.processes),
        series_problems=evidence.processes.problems,
        present=present,
        several_places=any(row["where"] for row in summary["failures"]),
        failures=[(row, failed_where(row, summary["scenarios"])) for row in summary["failures"]],
        failed=timelines(evidence.failures),
        left_out=evidence.failures_left_out,
        slowest=timelines(evidence.slowest),
        timeline_caption=_caption(),
        settings=settings_tables(info),
    )


def present(metrics: Mapping[str, Any], always: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """Return the metrics that have samples, and those that are shown without them too."""
    return [(name, row) for name, row in metrics.items() if row["n"] or name in always]


def timelines(rows: Sequence[Notable]) -> list[tuple[Notable, dict[str, Any]]]:
    """Return each request with its drawing: x from 0 to 1000 over the longest of them, the same scale for all."""
    longest_s = max((_end_s(row) for row in rows), default=0.0) or 1.0
    return [(row, _timeline(row, 1000 / longest_s)) for row in rows]


def _timeline(row: Notable, per_s: float) -> dict[str, Any]:
    marks = [round(at_s * per_s, 1) for at_s in row.marks_s]
    wait = marks[0] if marks else round(_end_s(row) * per_s, 1)
    end = round(_end_s(row) * per_s, 1)
    tokens = f"{row.token_events} token events" if row.token_events else "no token"
    return {
        "wait": wait,
        "run": round(marks[-1] - wait, 1) if marks else 0,
        "path": "".join(f"M{at:g} 0v10" for at in marks),
        "end": end,
        "label": f"{tokens} in {_end_s(row):.3f} s",
    }


def _end_s(row: Notable) -> float:
    return max(row.closed_s or 0.0, row.e2e_s or 0.0, row.marks_s[-1] if row.marks_s else 0.0)


def _caption() -> str:
    return (
        "Bars share one scale: grey is the wait for the first token, each stroke the arrival of a token (of long "
        "answers some are left out), red the end of a failed one."
    )


def _value(objective: Mapping[str, Any]) -> str:
    value = objective["value"]
    return "-" if value is None else shown(value, objective["unit"], beside=objective["limit"])


def _ledgers(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "all", summary["ledger"]
    if len(summary["scenarios"]) > 1:
        yield from ((name, scenario["ledger"]) for name, scenario in summary["scenarios"].items())


def _windows(throughput: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, key in (("steady", "steady"), ("whole run", "whole")):
        if throughput[key] is not None:
            yield name, throughput[key]


def _sections(summary: Mapping[str, Any], evidence: Details, found: Sequence[Any]) -> Iterator[tuple[str, str]]:
    shown_when = {
        "objectives": summary.get("objectives"),
        "findings": found or summary["warnings"],
        "requests": True,
        "latency": True,
        "sweep": summary.get("sweep"),
        "time": evidence.grid.slots,
        "generator": evidence.processes.by_name or evidence.processes.problems,
        "distributions": evidence.grid.slots,
        "scenarios": len(summary["scenarios"]) > 1,
        "failures": summary["failures"],
        "slowest": evidence.slowest,
        "settings": True,
        "formulas": True,
    }
    yield from ((name, name.capitalize()) for name, there in shown_when.items() if there)

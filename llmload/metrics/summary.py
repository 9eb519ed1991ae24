"""The summary of a run: tallies and run information in, one JSON-ready dict out.

No I/O, no clock. The live end of a run and `llmload report` call the same function with the same input, so
that they cannot differ. Everything undefined is None with n = 0, never 0. docs/record.md describes the
schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from llmload.metrics.arrivals import summarise_arrivals
from llmload.metrics.capacity import capacity_of
from llmload.metrics.caveats import caveats
from llmload.metrics.distributions import summarise_metrics
from llmload.metrics.failures import summarise_failures
from llmload.metrics.goodput import good_rate, goodput_of
from llmload.metrics.judgement import judge_run
from llmload.metrics.ledger import Ledger
from llmload.metrics.steps import excluded, is_measured, started_in
from llmload.metrics.sweep import sweep_of
from llmload.metrics.tally import Tallies, Tally
from llmload.metrics.throughput import throughput
from llmload.metrics.verdict import client_verdict, open_loop_delay_s

SCHEMA = "llmload.summary/1"

_STREAM = ("streamed", "buffered", "token_events", "coalesced_events", "ttft_is_bound", "malformed_events",
           "invalid_bytes", "compressed", "usage_suspect")  # fmt: skip


def summarise(tallies: Tallies, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a run.

    Args:
        tallies: of all finished completions.
        run: what completions cannot tell, the content of `run.json`; every key is optional. Read here: `id`,
            `started_at`, `ended_at`, `steady_from`, `stopped_at` (unix seconds), `ended_by`, `valid`,
            `reasons`, `started` (requests started), `client`, `prompts_served`, `prompts_repeated` and `phases`; of
            `settings` `slo`, `goodput` and `strict`.

    Latencies and rates are those of measured requests; the ledger and every other count are of all.
    """
    total, steps = tallies.total(), tallies.steps()
    counted = [step for step in steps if is_measured(step)]
    measured = total if counted == steps else tallies.of_steps(counted)
    ledger = run_ledger(total, run.get("started"))
    metrics, skipped = summarise_metrics(measured), excluded(tallies, run)
    rates = throughput(measured, run, everything=total)
    summary = {
        "schema": SCHEMA,
        "run": _run(run),
        "ledger": {**ledger.to_wire(), "in_flight": ledger.in_flight},
        "client": _client(run.get("client") or {}, metrics, kernel_stamps=set(total.stamps) == {"kernel"}),
        "metrics": metrics,
        "arrivals": summarise_arrivals(run),
        "throughput": rates,
        "goodput": goodput_of(
            measured,
            run,
            started=ledger.started - started_in(skipped),
            rate=good_rate(measured, total, rates),
        ),
        "excluded": skipped,
        "tokens": _tokens(total),
        "failures": summarise_failures(total, tallies.by_key),
        "finish_reasons": _by_count(total.finish_reasons),
        "usage_sources": _by_count(total.usage_sources),
        "stream": {
            **{name: total.counts[name] for name in _STREAM},
            "tokens_per_event": _tokens_per_event(total),
        },
        "connections": {
            "new": total.counts["new_connection"],
            "reused": total.counts["reused"],
            "stale": total.counts["stale"],
        },
        "stamps": _by_count(total.stamps),
        "prompts": {"served": run.get("prompts_served"), "repeated": run.get("prompts_repeated")},
        "sweep": sweep_of(tallies, run),
        "capacity": capacity_of(tallies, run),
        "sinks": run.get("sinks"),
        "scenarios": _scenarios(tallies, run, counted),
    }
    _be_strict(summary, run)
    return {**summary, "objectives": judge_run(tallies, run, summary), "warnings": caveats(summary)}


def run_ledger(total: Tally, started: int | None) -> Ledger:
    """Return the ledger of a run from its tally and the last known count of started requests.

    That count can be missing or older than the last completions when a run broke off: nothing ends that did
    not start, so it is at least what ended.
    """
    ended = Ledger(0, total.counts["ok"], total.counts["failed"], total.counts["cancelled"])
    ended.started = max(started or 0, ended.ended)
    return ended


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run without `ended_at` goes on or broke off; its numbers are real, but it is not a valid run."""
    ended = run.get("ended_at") is not None
    reasons = list(run.get("reasons") or [])
    return {
        "id": run.get("id"),
        "started_at": _utc(run.get("started_at")),
        "ended_at": _utc(run.get("ended_at")),
        "ended_by": run.get("ended_by") if ended else None,
        "valid": run.get("valid") if ended else False,
        "load": _load(run),
        "reasons": reasons if ended else [*reasons, "the end of the run is not recorded"],
    }


def _be_strict(summary: dict[str, Any], run: Mapping[str, Any]) -> None:
    """Under --strict a run whose client was the limit is not valid: its latencies are not the server's."""
    client = summary["client"]
    if (run.get("settings") or {}).get("strict") and client["verdict"] == "client":
        summary["run"]["valid"] = False
        summary["run"]["reasons"].append(f"the client was the limit ({client['why']}; --strict)")


_COURSES = ("stages", "sweep", "sweep_prompt_tokens", "find_capacity")


def _load(run: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked of whom, in a few words; None where the run does not say."""
    settings, locust = run.get("settings") or {}, run.get("locust") or {}
    return {
        "targets": sorted(set((run.get("targets") or {}).values())),
        "model": settings.get("model"),
        "users": None if settings.get("stages") or settings.get("sweep") else locust.get("num_users"),
        "course": next((f"{name} {settings[name]}" for name in _COURSES if settings.get(name)), None),
        "max_tokens": settings.get("max_tokens"),
        "stream": settings.get("stream"),
        "insecure": settings.get("insecure"),
        "exceptions": run.get("exceptions"),
    }


def _client(client: Mapping[str, Any], metrics: Mapping[str, Any], *, kernel_stamps: bool) -> dict[str, Any]:
    lag_p99_s, cpu = client.get("lag_p99_s"), client.get("cpu_percent_max")
    if lag_p99_s is None:
        # A run that broke off has only the worst lag during each request, which is never less than the lag
        # itself.
        lag_p99_s = metrics["client_lag_s"]["p99"]
    verdict, why = client_verdict(
        lag_p99_s, cpu, metrics["itl_s"]["p50"], metrics["ttft_s"]["p50"], kernel_stamps=kernel_stamps,
        send_delay_p95_s=open_loop_delay_s(metrics), read_delay_p50_s=metrics["read_delay_s"]["p50"],
    )  # fmt: skip
    return {"verdict": verdict, "why": why, **client, "lag_p99_s": lag_p99_s, "cpu_percent_max": cpu}


def _scenarios(tallies: Tallies, run: Mapping[str, Any], counted: Sequence[str | None]) -> dict[str, Any]:
    everything = tallies.scenarios()
    measured = everything if list(counted) == tallies.steps() else tallies.scenarios(counted)
    return {
        name: {
            **_scenario(measured[name], tally, run),
            "failures": summarise_failures(
                tally, {key: part for key, part in tallies.by_key.items() if key[0] == name}
            ),
        }
        for name, tally in everything.items()
    }


def _scenario(measured: Tally, everything: Tally, run: Mapping[str, Any]) -> dict[str, Any]:
    rates = throughput(measured, run, everything=everything)
    return {
        "ledger": {outcome: everything.counts[outcome] for outcome in ("ok", "failed", "cancelled")},
        "metrics": summarise_metrics(measured),
        "throughput": rates,
        "goodput": goodput_of(measured, run, rate=good_rate(measured, everything, rates)),
    }


def _tokens(total: Tally) -> dict[str, int]:
    """Sums by direction and outcome, e.g. `output_tokens_cancelled`; a missing count adds nothing."""
    return {
        f"{direction}_tokens_{outcome}": total.counts[f"{direction}_tokens_{outcome}"]
        for direction in ("input", "output")
        for outcome in ("ok", "failed", "cancelled")
    }


def _tokens_per_event(total: Tally) -> float | None:
    tokens, events = total.counts["event_tokens"], total.counts["token_events"]
    return tokens / events if events and tokens else None


def _by_count(counter: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def _utc(unix_s: float | None) -> str | None:
    return None if unix_s is None else datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds")

"""A summary under the field names of vLLM's `vllm bench serve`, for dashboards that read those.

No I/O. Names and definitions as in vllm/benchmarks/serve.py: everything is of measured requests over the whole run.
docs/reports.md says where definitions differ; what vLLM writes as 0 when there is no sample is null here. Arrays with
one entry a request are not written: completions.jsonl has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from llmload.metrics.details import Details

_NAMES = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "itl_s", "e2el": "e2e_s"}
_STATISTICS = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


def convert(summary: Mapping[str, Any], info: Mapping[str, Any], evidence: Details) -> dict[str, Any]:
    """Return a summary in vLLM's words.

    Args:
        summary: of the run.
        info: the content of its run.json.
        evidence: of its completions, with what was `served`.
    """
    whole = summary["throughput"]["whole"] or {}
    seconds = (whole.get("window") or {}).get("seconds")
    good = (summary.get("goodput") or {}).get("good")
    left_out = (summary.get("excluded") or {}).get("ledger") or {}
    measured = {name: count - left_out.get(name, 0) for name, count in summary["ledger"].items()}
    return {
        "date": _date(summary["run"]["started_at"]),
        "endpoint_type": "openai-chat",
        "backend": "llmload",
        "label": summary["run"]["id"],
        "model_id": summary["run"]["load"]["model"],
        "tokenizer_id": None,
        "num_prompts": measured["started"],
        **_load(summary),
        "duration": seconds,
        "completed": measured["ok"],
        "failed": measured["failed"],
        "total_input_tokens": evidence.served.input_tokens or None,
        "total_output_tokens": evidence.served.output_tokens or None,
        "request_throughput": whole.get("request_throughput"),
        "request_goodput": None if good is None or not seconds else good / seconds,
        "output_throughput": whole.get("output_throughput"),
        "total_token_throughput": whole.get("total_throughput"),
        "max_output_tokens_per_s": summary["throughput"]["peak_output_throughput"],
        "max_concurrent_requests": evidence.served.busiest,
        **dict(_latencies(summary["metrics"], evidence)),
        "llmload_version": (info.get("versions") or {}).get("llmload"),
    }


def _date(started_at: str | None) -> str | None:
    return None if started_at is None else f"{datetime.fromisoformat(started_at):%Y%m%d-%H%M%S}"


def _load(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What vLLM was told: without a rate all requests are there at once, and only the concurrency holds them back."""
    arrivals = summary["arrivals"]
    if arrivals is None:
        return {"request_rate": "inf", "burstiness": None, "max_concurrency": summary["run"]["load"]["users"]}
    return {
        "request_rate": arrivals["planned_rate"] or arrivals["offered_rate"],
        "burstiness": 1.0 if arrivals["model"] == "poisson" else arrivals["burstiness"],
        "max_concurrency": arrivals["max_in_flight"],
    }


def _latencies(metrics: Mapping[str, Any], evidence: Details) -> Iterator[tuple[str, float | None]]:
    for theirs, ours in _NAMES.items():
        for name, statistic in _STATISTICS.items():
            yield f"{name}_{theirs}_ms", _ms(metrics[ours][statistic])
        yield f"std_{theirs}_ms", _ms(evidence.moments[ours].deviation)


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else value_s * 1e3

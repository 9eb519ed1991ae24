"""A summary under the field names of vLLM's `vllm bench serve`, for dashboards that read those.

No I/O. Names as in vllm/benchmarks/serve.py. docs/reports.md says where the definitions differ; what vLLM writes as 0
when there is no sample is null here. Arrays with one entry a request are not written: completions.jsonl has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmload.metrics.details import Details

_NAMES = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "itl_s", "e2el": "e2e_s"}
_STATISTICS = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


def convert(summary: Mapping[str, Any], info: Mapping[str, Any], evidence: Details) -> dict[str, Any]:
    """Return a summary in vLLM's words.

    Args:
        summary: of the run.
        info: the content of its run.json.
        evidence: of its completions.
    """
    load, ledger, throughput = summary["run"]["load"], summary["ledger"], summary["throughput"]
    whole = throughput["whole"] or {}
    arrivals = summary.get("arrivals") or {}
    return {
        "date": summary["run"]["started_at"],
        "backend": "llmload",
        "label": summary["run"]["id"],
        "model_id": load["model"],
        "tokenizer_id": None,
        "num_prompts": ledger["started"],
        "request_rate": arrivals.get("offered_rate") or "inf",
        "max_concurrency": load["users"],
        "duration": (whole.get("window") or {}).get("seconds"),
        "completed": ledger["ok"],
        "failed": ledger["failed"],
        "total_input_tokens": summary["tokens"]["input_tokens_ok"],
        "total_output_tokens": summary["tokens"]["output_tokens_ok"],
        "request_throughput": whole.get("request_throughput"),
        "request_goodput": (summary.get("goodput") or {}).get("rate"),
        "output_throughput": whole.get("output_throughput"),
        "total_token_throughput": whole.get("total_throughput"),
        "max_output_tokens_per_s": throughput["peak_output_throughput"],
        "max_concurrent_requests": max((in_flight for _, _, in_flight in evidence.grid.rows()), default=None),
        **dict(_latencies(summary["metrics"], evidence)),
        "llmload_version": (info.get("versions") or {}).get("llmload"),
    }


def _latencies(metrics: Mapping[str, Any], evidence: Details) -> Iterator[tuple[str, float | None]]:
    for theirs, ours in _NAMES.items():
        for name, statistic in _STATISTICS.items():
            yield f"{name}_{theirs}_ms", _ms(metrics[ours][statistic])
        yield f"std_{theirs}_ms", _ms(evidence.moments[ours].deviation)


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else value_s * 1e3

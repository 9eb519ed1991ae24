"""Throughput of a run: over the steady window where there is one, over the whole run, and at its peak.

No I/O, no clock. A rate without its window means nothing: ramp-up and drain pull it down (STAT-05), so each
one stands beside its window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmload.metrics.steps import measured_from
from llmload.metrics.tally import Tally

STEADY = "whole seconds from the end of spawning to the stop"
AFTER_WARMUP = "whole seconds from the end of spawning and of the warm-up to the stop"
HOLD = "whole seconds of the longest time at one number of users, {:g}"
WHOLE = "from the first start to the last end of a request"
MEASURED = "from the first start to the last end of a measured request"


def throughput(tally: Tally, run: Mapping[str, Any], *, everything: Tally | None = None) -> dict[str, Any]:
    """Return the rates of the headline window (steady, else whole), of both windows, and of the best second.

    Args:
        tally: of the measured completions.
        run: `steady_from` and `stopped_at`, unix seconds, where known; `steady_missing`, why nothing was steady;
            `phases`, for the end of the warm-up.
        everything: of all completions: what arrives within the steady window counts, also for a request that
            started before it. None: `tally` is of all.
    """
    everything = everything or tally
    whole = _whole(tally, WHOLE if everything is tally else MEASURED)
    steady, missing = _steady(everything, run)
    headline = steady or whole or {**rates({}, None), "window": None}
    return {
        **headline,
        "steady": steady,
        "steady_missing": missing,
        "whole": whole,
        "peak_output_throughput": _peak(everything, whole, measured_from(run)),
    }


def _steady(tally: Tally, run: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
    """Rates from the per-second sums; tokens count where they arrived, requests and prompts where they
    ended."""
    from_s, to_s, warm_s = run.get("steady_from"), run.get("steady_to", run.get("stopped_at")), measured_from(run)
    if run.get("steady_missing"):
        return None, str(run["steady_missing"])
    if from_s is None:
        return None, "the end of spawning is not recorded: not all users were running, or the run broke off"
    if to_s is None:
        return None, "the stop of the load is not recorded"
    if warm_s == float("inf"):
        return None, "the run ended within its warm-up"
    found = tally.seconds.between(max(from_s, warm_s or 0), to_s)
    if found is None:
        return None, "less than one whole second lay between the end of spawning and the stop"
    sums, first, end = found
    definition = STEADY if warm_s is None else AFTER_WARMUP
    if run.get("steady_users") is not None:
        definition = HOLD.format(run["steady_users"])
    return {"window": _window(first, end, end - first, definition), **rates(sums, end - first)}, None


def _whole(tally: Tally, definition: str) -> dict[str, Any] | None:
    start, end = tally.first_start_unix_ns, tally.last_end_unix_ns
    if start is None or end is None or end <= start:
        return None
    counts = tally.counts
    served = sum(counts[f"output_tokens_{outcome}"] for outcome in ("ok", "failed", "cancelled"))
    sums = {
        "requests": counts["ok"],
        "output_tokens": counts["output_tokens_ok"],
        "served_tokens": served,
        "input_tokens": counts["input_tokens_ok"],
    }
    seconds = (end - start) / 1e9
    return {"window": _window(start / 1e9, end / 1e9, seconds, definition), **rates(sums, seconds)}


def rates(sums: Mapping[str, int], seconds: float | None) -> dict[str, float | None]:
    """Return the rates of sums by column over some seconds, all None where those are None.

    Prompt tokens that no usage counted are unknown, not 0: a sum of 0 has no rate."""
    if seconds is None:
        return dict.fromkeys(
            (
                "request_throughput",
                "output_throughput",
                "served_throughput",
                "input_throughput",
                "total_throughput",
            )
        )
    known_input = sums["input_tokens"] or None
    return {
        "request_throughput": sums["requests"] / seconds,
        "output_throughput": sums["output_tokens"] / seconds,
        "served_throughput": sums["served_tokens"] / seconds,
        "input_throughput": known_input and known_input / seconds,
        "total_throughput": known_input and (known_input + sums["output_tokens"]) / seconds,
    }


def _window(from_s: float, to_s: float, seconds: float, definition: str) -> dict[str, Any]:
    return {"from": from_s, "to": to_s, "seconds": seconds, "definition": definition}


def _peak(tally: Tally, whole: Mapping[str, Any] | None, from_s: float | None) -> float | None:
    """The best second; of a run that is too short to fill one, its mean, since a peak is never below it
    (STAT-06)."""
    best = tally.seconds.best("output_tokens", from_s=from_s)
    return max(best, whole["output_throughput"]) if best and whole else best

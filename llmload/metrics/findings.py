"""Findings: what the numbers of a run say in plain words, each with the numbers beside it.

No I/O, no clock. A finding is a reading, not a proof: it names what fits the numbers best, and its thresholds stand
here. A run that shows nothing of it has no findings; that is the usual case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llmload.metrics.details import Details
from llmload.metrics.levels import Levels, levels_of

QUEUE_TTFT_GROWS = 1.5
"""TTFT p50 at high load over that at low load from which on requests queue, if ITL stays below `STEADY_ITL`."""
STEADY_ITL = 1.2
SLOW_ITL_GROWS = 1.3
"""ITL p50 at high load over that at low load from which on generation is slower."""
QUOTA_SHARE = 0.01
"""Share of requests refused with 429 that is worth a word."""
FLAT_SPREAD = 0.35
"""Standard deviation over mean of a rate up to which it is called flat."""
VARIED = 2.0
"""What was asked must vary so much more than what was answered: at a steady load everything is flat."""
FLAT_SLOTS = 5
"""Fewer slots than this say nothing about flatness."""
BUFFERED = 0.1
"""Share of buffered ok streams from which on something on the way collects tokens."""
BURSTY = 0.5
"""Median burst share from which on the same is said of streams that are not quite buffered."""
CACHED = 0.1
"""Share of prompt tokens from a cache, or of repeated prompts, from which on latencies flatter."""
EARLY = 0.5
"""Mean output tokens over --max-tokens below which answers ended early."""
EARLY_STOPPED = 0.5
"""And at least this share of answers ended by themselves, not by the limit."""
SHORTFALL = 0.98
"""Achieved over offered rate below which an open loop fell short."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: a name from a closed set, a headline, what it means, and the numbers that say so."""

    name: str
    title: str
    meaning: str
    evidence: tuple[tuple[str, str], ...]


def findings(summary: Mapping[str, Any], evidence: Details | None = None) -> list[Finding]:
    """Return what a run shows, the client's own faults first.

    Args:
        summary: of the run.
        evidence: of the same run; without it nothing is said that needs the run over time.
    """
    return [
        *_client(summary),
        *_shortfall(summary),
        *_load(levels_of(summary, evidence)),
        *_quota(summary, evidence),
        *_buffered(summary),
        *_cache(summary),
        *_early(summary),
    ]


def _client(summary: Mapping[str, Any]) -> Iterator[Finding]:
    client = summary["client"]
    if client["verdict"] not in ("client", "mixed"):
        return
    whole = client["verdict"] == "client"
    yield Finding(
        "client_limit",
        "The client was the limit" if whole else "The client added to the latency",
        "Part of what is shown as latency was spent in the load generator. Use more workers (--processes, more "
        "machines) or fewer users per worker, and measure again.",
        (
            ("verdict", client["why"]),
            ("p99 loop lag", _ms(client["lag_p99_s"])),
            ("CPU of the busiest worker", _percent(client["cpu_percent_max"], 100)),
        ),
    )


def _shortfall(summary: Mapping[str, Any]) -> Iterator[Finding]:
    arrivals = summary.get("arrivals") or {}
    offered, achieved = arrivals.get("offered_rate"), arrivals.get("achieved_rate")
    not_sent = arrivals.get("not_sent") or 0
    if not not_sent and not (offered and achieved is not None and achieved < SHORTFALL * offered):
        return
    yield Finding(
        "open_loop_shortfall",
        "Fewer requests were sent than the schedule asked for",
        "The load was lower than intended, and latency at the intended load is worse than what is shown.",
        (
            ("offered", _rate(offered, "req/s")),
            ("achieved", _rate(achieved, "req/s")),
            ("not sent", f"{not_sent:,} requests"),
        ),
    )


def _load(levels: Levels | None) -> Iterator[Finding]:
    if levels is None:
        return
    ttft, itl = _grew(levels.low_ttft_s, levels.high_ttft_s), _grew(levels.low_itl_s, levels.high_itl_s)
    shown = (
        ("load compared", f"{levels.low} against {levels.high} {levels.axis}"),
        ("TTFT p50", _change(levels.low_ttft_s, levels.high_ttft_s)),
        ("ITL p50", _change(levels.low_itl_s, levels.high_itl_s)),
        ("samples", f"{levels.low_n:,} and {levels.high_n:,} requests"),
    )
    if ttft is not None and ttft >= QUEUE_TTFT_GROWS and (itl is None or itl < STEADY_ITL):
        yield Finding(
            "queueing",
            "Requests waited in a queue",
            "TTFT grows with the load while tokens, once they come, come as fast as before: requests wait for a slot "
            "or for prompts to be read. More replicas, or a lower load, shorten it; faster generation does not.",
            shown,
        )
    if itl is not None and itl >= SLOW_ITL_GROWS:
        yield Finding(
            "slow_generation",
            "Generation slowed down with the load",
            "Tokens come more slowly as more requests run at once: batches grow, or prompts of others are read in "
            "between. A limit of concurrent requests in the server trades this for waiting.",
            shown,
        )


def _quota(summary: Mapping[str, Any], evidence: Details | None) -> Iterator[Finding]:
    started = summary["ledger"]["started"]
    refused = sum(row["count"] for row in summary["failures"] if row["status"] == 429)
    if not started or refused / started < QUOTA_SHARE:
        return
    spread, asked, mean = _flatness(evidence)
    flat = spread is not None and asked is not None and spread <= FLAT_SPREAD and asked >= VARIED * spread
    yield Finding(
        "quota",
        "A quota was reached" if flat else "The server refused requests with 429",
        "Answers came at a flat rate and everything above it was refused: a limit of requests or tokens per time, not "
        "the speed of the server, was measured."
        if flat
        else "A rate limit or a full queue turned requests away. Refused requests are not in the latencies.",
        (
            ("refused with 429", _of(refused, started)),
            ("ok while refusing", _rate(mean, "req/s")),
            ("spread of that rate", _percent(spread)),
            ("spread of what was asked", _percent(asked)),
        ),
    )


def _flatness(evidence: Details | None) -> tuple[float | None, float | None, float | None]:
    """Of the slots in which requests were refused: standard deviation over mean of the rate of ok answers, the same of
    the rate of starts, and the mean ok rate."""
    if evidence is None:
        return None, None, None
    width = evidence.grid.width
    slots = [slot for _, slot, _ in evidence.grid.rows() if slot["refused"]]
    ok, asked = ([slot[name] / width for slot in slots] for name in ("ok", "started"))
    mean = sum(ok) / len(ok) if ok else None
    if len(slots) < FLAT_SLOTS:
        return None, None, mean
    return _spread(ok), _spread(asked), mean


def _spread(rates: list[float]) -> float | None:
    mean = sum(rates) / len(rates)
    return (sum((rate - mean) ** 2 for rate in rates) / len(rates)) ** 0.5 / mean if mean else None


def _buffered(summary: Mapping[str, Any]) -> Iterator[Finding]:
    stream, bursts = summary["stream"], summary["metrics"]["burst_share"]["p50"]
    streamed, buffered = stream["streamed"], stream["buffered"]
    if not streamed or (buffered / streamed < BUFFERED and (bursts or 0) < BURSTY):
        return
    ttft, e2e = summary["metrics"]["ttft_s"]["p50"], summary["metrics"]["e2e_s"]["p50"]
    yield Finding(
        "buffering",
        "Something on the way collected tokens",
        "Tokens arrived in bursts: a proxy, a gateway or compression held them back, or the server sends several at "
        "a time. TTFT then includes the wait for the buffer, and gaps say nothing about generation. Look for response "
        "buffering (for example proxy_buffering) and gzip on the way.",
        (
            ("buffered streams", _of(buffered, streamed)),
            ("burst share p50", _percent(bursts)),
            ("TTFT p50 of E2E p50", _percent(ttft / e2e) if ttft is not None and e2e else "-"),
        ),
    )


def _cache(summary: Mapping[str, Any]) -> Iterator[Finding]:
    metrics, prompts = summary["metrics"], summary["prompts"]
    cached = _sum(metrics["cached_tokens"])
    share = cached / _sum(metrics["input_tokens"]) if _sum(metrics["input_tokens"]) else 0.0
    repeated = (prompts["repeated"] or 0) / prompts["served"] if prompts["served"] else 0.0
    if share < CACHED and repeated < CACHED:
        return
    yield Finding(
        "cache",
        "A cache may flatter the latencies",
        "Part of the prompts did not have to be read again. TTFT is that of a warm prefix cache; if real prompts "
        "differ, it will be longer. --unique-prompts always keeps the cache out.",
        (
            ("prompt tokens from a cache", _percent(share)),
            ("repeated prompts", _of(prompts["repeated"] or 0, prompts["served"] or 0)),
            ("input tokens, mean", _count(metrics["input_tokens"]["mean"])),
        ),
    )


def _early(summary: Mapping[str, Any]) -> Iterator[Finding]:
    limit, tokens = summary["run"]["load"]["max_tokens"], summary["metrics"]["output_tokens"]
    reasons = summary["finish_reasons"]
    stopped, all_ends = reasons.get("stop", 0), sum(reasons.values())
    if not limit or not tokens["n"] or not all_ends:
        return
    if tokens["mean"] >= EARLY * limit or stopped / all_ends < EARLY_STOPPED:
        return
    yield Finding(
        "early_endings",
        "Answers ended long before --max-tokens",
        "The model stopped by itself. Throughput and E2E latency are those of short answers; the load is lighter than "
        "the setting suggests.",
        (
            ("output tokens, mean", f"{_count(tokens['mean'])} of {limit:,}"),
            ("ended by themselves", _of(stopped, all_ends)),
        ),
    )


def _sum(row: Mapping[str, Any]) -> float:
    return float(row["n"] * (row["mean"] or 0.0))


def _grew(low: float | None, high: float | None) -> float | None:
    return high / low if low and high is not None else None


def _change(low: float | None, high: float | None) -> str:
    grew = _grew(low, high)
    return f"{_ms(low)} → {_ms(high)}" + ("" if grew is None else f" (× {grew:.2f})")


def _ms(value_s: float | None) -> str:
    return "-" if value_s is None else f"{value_s * 1e3:,.{1 if value_s < 10 else 0}f} ms"


def _percent(value: float | None, whole: float = 1) -> str:
    return "-" if value is None else f"{value / whole:.0%}"


def _rate(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:,.2f} {unit}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" + (f" ({part / whole:.1%})" if whole else "")

"""How a run goes, as a block for a terminal and as one line for a log.

No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

_CLIENT = {"server": "ok", "mixed": "part of the latency is the client's", "client": "THE CLIENT IS THE LIMIT"}


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a run. `recent` is a section of `metrics.recent` over the last `recent_s` seconds."""

    run_id: str
    elapsed_s: float
    run_time_s: float | None
    users: int
    ledger: Mapping[str, int]
    recent: Mapping[str, Any]
    recent_s: float
    verdict: str
    why: str
    step: str | None = None
    offered_rate: float | None = None
    """Of an open loop, requests per second."""
    stopping: bool = False
    influx: Mapping[str, Any] | None = None
    """Counts of the sink, where there is one."""


def progress_block(now: Progress) -> list[str]:
    """Return the lines of the block."""
    ledger = now.ledger
    where = "" if now.step is None else f"   {'warm-up' if now.step == 'warmup' else 'step ' + now.step}"
    return [
        f"llmload {now.run_id}   {_times(now)}{where}",
        f"{now.users:,} users   {ledger['in_flight']:,} in flight   {ledger['ok']:,} ok   "
        f"{_failed(ledger)}   {ledger['cancelled']:,} cancelled",
        f"ended in the last {now.recent_s:.0f} s: {_rates(now)}   TTFT {_latency(now, 'ttft_s')}   "
        f"ITL {_latency(now, 'itl_s')}",
        f"client: {_CLIENT.get(now.verdict, 'not known yet')} ({now.why})",
        *([] if now.influx is None else [f"InfluxDB: {_points(now.influx)}"]),
    ]


def progress_line(now: Progress) -> str:
    """Return the same in one line."""
    ledger = now.ledger
    step = "" if now.step is None else f"{now.step}: "
    return (
        f"{_times(now)}: {step}{now.users:,} users, {ledger['in_flight']:,} in flight, {ledger['ok']:,} ok, "
        f"{_failed(ledger)}, {_rates(now)}, TTFT {_latency(now, 'ttft_s')}, client {now.verdict}"
        + (f", InfluxDB {_points(now.influx)}" if now.influx and now.influx["error"] else "")
    )


def _points(counts: Mapping[str, Any]) -> str:
    text = f"{counts['written']:,} points written, {counts['queued']:,} waiting"
    text += f", {counts['retried']:,} retried" if counts["retried"] else ""
    text += f", {counts['dropped']:,} DROPPED" if counts["dropped"] else ""
    return f"{text} ({counts['error']})" if counts["error"] else text


def _times(now: Progress) -> str:
    if now.stopping:
        return f"{_clock(now.elapsed_s)}, stopping: answers under way may finish"
    if now.run_time_s is None:
        return _clock(now.elapsed_s)
    left = max(0.0, ceil(now.run_time_s - now.elapsed_s))
    return f"{_clock(now.elapsed_s)} of {_clock(now.run_time_s)}, {_clock(left)} left"


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _failed(ledger: Mapping[str, int]) -> str:
    answered = ledger["ok"] + ledger["failed"]
    share = f" ({ledger['failed'] / answered:.1%})" if ledger["failed"] else ""
    return f"{ledger['failed']:,} failed{share}"


def _rates(now: Progress) -> str:
    rates = now.recent["throughput"]
    offered = "" if now.offered_rate is None else f" of {now.offered_rate:,.1f} offered"
    return f"{rates['request_throughput']:,.1f} req/s{offered}, {rates['output_throughput']:,.0f} tok/s"


def _latency(now: Progress, name: str) -> str:
    row = now.recent["metrics"][name]
    if not row["n"]:
        return "-"
    return f"p50 {_milliseconds(row['p50'])} p95 {_milliseconds(row['p95'])} ms (n = {row['n']:,})"


def _milliseconds(value_s: float) -> str:
    return f"{value_s * 1e3:,.{1 if value_s < 0.1 else 0}f}"

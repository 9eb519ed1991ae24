"""What every metric means: one row each, with unit, formula and when it is missing.

Reports, InfluxDB fields and dashboards take names and formulas from this table, which makes it long. No I/O, no clock.
Formulas use the words of `Completion`: `origin` is the moment the first byte of the request was handed to the
kernel, moved back by DNS, connect and TLS time where the request opened the connection; `n` is
`output_tokens`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "tok/s", "tokens", "req/s", "share"]
Display = Literal["ms", "tok/s", "count", "req/s", "%"]

TICKS_PER_UNIT: dict[Unit, int] = {
    "s": 1_000_000,
    "tok/s": 1_000,
    "tokens": 1,
    "req/s": 1_000,
    "share": 1_000_000,
}
"""How finely a histogram of this unit counts: whole microseconds, thousandths of a token per second,
tokens."""

_DISPLAY: dict[Unit, Display] = {
    "s": "ms",
    "tok/s": "tok/s",
    "tokens": "count",
    "req/s": "req/s",
    "share": "%",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. `scope` says whether a single request has the metric (`request`) or only a run (`run`)."""

    name: str
    label: str
    unit: Unit
    what: str
    formula: str
    missing_when: str
    higher_is_better: bool = False
    scope: Literal["request", "run"] = "request"

    @property
    def display(self) -> Display:
        """The unit that a person reads: seconds are shown as milliseconds."""
        return _DISPLAY[self.unit]

    @property
    def ticks_per_unit(self) -> int:
        return TICKS_PER_UNIT[self.unit]


METRICS: tuple[Metric, ...] = (
    Metric(
        "ttft_s",
        "TTFT",
        "s",
        "time to the first generated text of any kind (answer, reasoning or tool call)",
        "arrival of first token - origin",
        "no token, or not streamed",
    ),
    Metric(
        "ttfa_s",
        "TTFA",
        "s",
        "time to the first token of the answer (reasoning does not count)",
        "arrival of first answer token - origin",
        "no answer token, or not streamed",
    ),
    Metric(
        "itl_s",
        "ITL",
        "s",
        "inter-token latency: gaps between successive reads that carried tokens, one sample a gap",
        "arrival of token event i+1 - arrival of token event i (TTFT is no gap)",
        "fewer than two reads with tokens, or a buffered stream",
    ),
    Metric(
        "tpot_s",
        "TPOT",
        "s",
        "time per output token after the first, one sample a request",
        "(arrival of last token - arrival of first token) / (n - 1)",
        "n < 2, all tokens in one read, or a buffered stream",
    ),
    Metric(
        "e2e_s",
        "E2E",
        "s",
        "end-to-end latency, up to the last token (not streamed: to the whole answer)",
        "arrival of last token - origin",
        "no token",
    ),
    Metric(
        "closed_s",
        "closed",
        "s",
        "time to the end of the response",
        "end of response - origin",
        "the response never ended",
    ),
    Metric(
        "ttft_intended_s",
        "TTFT intended",
        "s",
        "TTFT from the intended start of an open loop",
        "send_delay_s + ttft_s",
        "closed loop, or TTFT is missing",
    ),
    Metric(
        "e2e_intended_s",
        "E2E intended",
        "s",
        "E2E latency from the intended start of an open loop",
        "send_delay_s + e2e_s",
        "closed loop, or E2E is missing",
    ),
    Metric(
        "output_tps",
        "output tok/s",
        "tok/s",
        "speed at which one reader sees tokens, one sample a request",
        "1 / tpot_s",
        "as TPOT",
        higher_is_better=True,
    ),
    Metric("dns_s", "DNS", "s", "name resolution", "measured", "connection reused"),
    Metric("connect_s", "connect", "s", "TCP connect", "measured", "connection reused"),
    Metric("tls_s", "TLS", "s", "TLS handshake", "measured", "connection reused, or no TLS"),
    Metric("pool_wait_s", "pool wait", "s", "wait for a free connection", "measured", "no pool was asked"),
    Metric(
        "send_delay_s",
        "send delay",
        "s",
        "what the client itself added before the request left",
        "first byte sent - (intended) start - DNS - connect - TLS",
        "nothing was sent",
    ),
    Metric("headers_s", "headers", "s", "time to the headers", "arrival of headers - origin", "no response"),
    Metric(
        "first_byte_s",
        "first byte",
        "s",
        "time to the body",
        "arrival of first body byte - origin",
        "no body",
    ),
    Metric(
        "client_lag_s",
        "client lag",
        "s",
        "worst event-loop lag of the worker while the request was in flight",
        "largest (actual - planned) wake-up",
        "not measured",
    ),
    Metric(
        "read_delay_s",
        "read delay",
        "s",
        "longest time for which bytes of the answer waited in the kernel until the client read them",
        "largest (read - arrival stamped by the kernel)",
        "a read without a stamp of the kernel",
    ),
    Metric("input_tokens", "input tokens", "tokens", "tokens of the prompt", "usage", "no usage"),
    Metric(
        "output_tokens",
        "output tokens",
        "tokens",
        "generated tokens of every kind",
        "last non-null usage, else an estimate marked as one",
        "no token",
    ),
    Metric("cached_tokens", "cached tokens", "tokens", "prompt tokens from a cache", "usage", "not reported"),
    Metric("reasoning_tokens", "reasoning tokens", "tokens", "reasoning among n", "usage", "not reported"),
    Metric(
        "burst_share",
        "burst share",
        "share",
        "share of token events less than 2 ms after the one before; above 80 % a stream is buffered",
        "bursts / (token events - 1)",
        "fewer than two token events",
    ),
    Metric(
        "request_throughput",
        "requests",
        "req/s",
        "ok completions per second of the stated window",
        "ok completions / seconds",
        "no window",
        higher_is_better=True,
        scope="run",
    ),
    Metric(
        "output_throughput",
        "output",
        "tok/s",
        "output tokens of ok completions per second of the stated window",
        "output tokens of ok completions / seconds",
        "no window",
        higher_is_better=True,
        scope="run",
    ),
    Metric(
        "input_throughput",
        "input",
        "tok/s",
        "prompt tokens of ok completions per second of the stated window",
        "input tokens of ok completions / seconds",
        "no window, or no usage",
        higher_is_better=True,
        scope="run",
    ),
    Metric(
        "total_throughput",
        "total",
        "tok/s",
        "prompt and output tokens of ok completions per second of the stated window",
        "(input + output tokens of ok completions) / seconds",
        "no window, or no usage",
        higher_is_better=True,
        scope="run",
    ),
    Metric(
        "served_throughput",
        "served",
        "tok/s",
        "output tokens of every outcome per second: what the server generated, cut-off answers included",
        "output tokens of all completions / seconds",
        "no window",
        higher_is_better=True,
        scope="run",
    ),
    Metric(
        "peak_output_throughput",
        "peak output",
        "tok/s",
        "output tokens of ok completions in the best second",
        "largest per-second sum of token arrivals, never below the mean of the whole run",
        "no token",
        higher_is_better=True,
        scope="run",
    ),
    Metric(
        "error_rate",
        "error rate",
        "share",
        "share of the answered requests that failed; those that we cut off are in neither",
        "failed / (ok + failed)",
        "nothing was answered",
        scope="run",
    ),
    Metric(
        "success_rate",
        "success rate",
        "share",
        "share of the answered requests that ended ok",
        "ok / (ok + failed)",
        "nothing was answered",
        higher_is_better=True,
        scope="run",
    ),
    Metric(
        "cancelled_rate",
        "cancelled",
        "share",
        "share of the started requests that we cut off, at the end of the run or with their user",
        "cancelled / started",
        "nothing was started",
        scope="run",
    ),
    Metric(
        "goodput",
        "goodput",
        "share",
        "share of everything started that ended ok and met every objective of --goodput",
        "good completions / started",
        "no --goodput, or nothing was started",
        higher_is_better=True,
        scope="run",
    ),
    Metric(
        "goodput_rate",
        "goodput rate",
        "req/s",
        "completions that met every objective of --goodput, per second of the stated window",
        "good completions / seconds",
        "no --goodput, or no window",
        higher_is_better=True,
        scope="run",
    ),
)

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
REQUEST_METRICS: tuple[Metric, ...] = tuple(metric for metric in METRICS if metric.scope == "request")
RUN_METRICS: tuple[Metric, ...] = tuple(metric for metric in METRICS if metric.scope == "run")


def metric(name: str) -> Metric:
    """Return the row of `name`; a KeyError that lists the known names when there is none."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise KeyError(f"no metric {name!r}; known: {', '.join(BY_NAME)}") from None

"""Who was the bottleneck, the server or the client that measured it.

No I/O, no clock. A client that is late or out of CPU sells its own delay as the server's latency (LOAD-03).
"""

from __future__ import annotations

from typing import Literal

Verdict = Literal["server", "mixed", "client", "unknown"]

CLIENT_CPU_PERCENT = 90.0
MIXED_CPU_PERCENT = 75.0
"""Of one core, the busiest worker: a gevent process has one. At 90 % the loop already queues; from 75 % on it
may."""

CLIENT_LAG_OF_ITL = 0.5
CLIENT_LAG_OF_TTFT = 0.1
"""Lag above half a gap lets tokens meet in one read; a tenth of TTFT is more than runs are compared by."""

MIXED_SHARE = 0.2
"""From a fifth of those lags on the client is no longer negligible."""


def client_verdict(
    lag_p99_s: float | None,
    cpu_percent_max: float | None,
    itl_p50_s: float | None,
    ttft_p50_s: float | None,
) -> tuple[Verdict, str]:
    """Say whose latency a run shows, and why, in one sentence.

    `client`: CPU >= 90 %, or p99 lag > 50 % of ITL p50, or > 10 % of TTFT p50. `mixed`: CPU >= 75 %, or a
    fifth of those lags. `server`: neither. `unknown`: nothing above, and CPU, lag, or both latencies are not
    known.

    Example: lag 3 ms, CPU 40 %, ITL 20 ms, TTFT 300 ms is `mixed`: 15 % of ITL is more than a fifth of 50 %.

    Args:
        lag_p99_s: 99th percentile of the event loop's lag, seconds.
        cpu_percent_max: CPU of the busiest worker, percent of one core.
        itl_p50_s: median ITL, seconds; None where there is none.
        ttft_p50_s: median TTFT, seconds; None where there is none.
    """
    cpu = cpu_percent_max or 0.0
    bases = (("ITL", itl_p50_s, CLIENT_LAG_OF_ITL), ("TTFT", ttft_p50_s, CLIENT_LAG_OF_TTFT))
    lags = [
        (lag_p99_s / base_s / limit, _lag(lag_p99_s, base_s, label))
        for label, base_s, limit in bases
        if lag_p99_s is not None and base_s
    ]
    share, why = max(lags, default=(0.0, ""))
    if cpu >= CLIENT_CPU_PERCENT:
        return "client", f"the busiest worker used {cpu:.0f} % of a core"
    if share > 1:
        return "client", why
    if cpu >= MIXED_CPU_PERCENT:
        return "mixed", f"the busiest worker used {cpu:.0f} % of a core"
    if share > MIXED_SHARE:
        return "mixed", why
    if cpu_percent_max is None or lag_p99_s is None:
        return "unknown", "CPU or loop lag of the client was not recorded"
    if not lags:
        return "unknown", "there is no latency to compare the client's lag with"
    return "server", f"{why}, CPU at most {cpu:.0f} % of a core"


def _lag(lag_s: float, base_s: float, label: str) -> str:
    return f"p99 loop lag is {lag_s * 1e3:.1f} ms, {lag_s / base_s:.0%} of {label} p50"

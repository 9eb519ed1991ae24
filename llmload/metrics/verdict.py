"""Who was the bottleneck, the server or the client that measured it.

No I/O, no clock. A client that is late or out of CPU sells its own delay as the server's latency (LOAD-03).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Verdict = Literal["server", "mixed", "client", "unknown"]

CLIENT_CPU_PERCENT = 90.0
MIXED_CPU_PERCENT = 75.0
"""Of one core, the busiest worker: a gevent process has one. At 90 % the loop already queues; from 75 % on it may."""

CLIENT_LAG_OF_TTFT = 0.1
MIXED_LAG_OF_TTFT = 0.02
"""Of TTFT p50: a tenth is more than runs are compared by, from a fiftieth on it can be seen."""

MIXED_LAG_OF_ITL = 0.25
"""Of ITL p50. It widens ITL's tails, but hardly touches TPOT or TTFT, so it alone does not make the client
the limit."""

MIXED_KERNEL_LAG_OF_ITL = 1.0
"""The same where the kernel stamps arrivals: lag delays no stamp, but from one ITL on tokens share reads."""

MIXED_READ_DELAY_OF_ITL = 0.5
"""The same of the reads themselves. Half, because they are held against an ITL that shared reads have made longer."""

CLIENT_DELAY_OF_TTFT = 0.5
MIXED_DELAY_OF_TTFT = 0.1
"""Of TTFT p50, the p95 of the send delay of an open loop: there it is part of the latency that is shown, so a client
that sends late is told from a slow server by it, wherever arrivals are stamped. Not p99, which of fewer than a hundred
requests is the worst one."""


def client_verdict(
    lag_p99_s: float | None,
    cpu_percent_max: float | None,
    itl_p50_s: float | None,
    ttft_p50_s: float | None,
    *,
    kernel_stamps: bool = False,
    send_delay_p95_s: float | None = None,
    read_delay_p50_s: float | None = None,
) -> tuple[Verdict, str]:
    """Say whose latency a run shows, and why, in one sentence.

    `client`: CPU >= 90 %, or p99 lag > 10 % of TTFT p50. `mixed`: CPU >= 75 %, or p99 lag > 2 % of TTFT p50 or > 25 %
    of ITL p50. Where the kernel stamps arrivals lag delays no stamp: `mixed` when the median request had a read
    later than half an ITL, or, where that is not known, when the loop's lag is beyond a whole ITL. `server`: none of
    it. In an open loop also `client`: p95 send delay > 50 % of TTFT p50, and `mixed`: > 10 %. `unknown`: none of it,
    and CPU, lag, or both latencies are not known.

    Example: lag 3 ms, CPU 40 %, ITL 20 ms, TTFT 100 ms is `mixed`: 3 % of TTFT.

    Args:
        lag_p99_s: 99th percentile of the event loop's lag, seconds.
        cpu_percent_max: CPU of the busiest worker, percent of one core.
        itl_p50_s: median ITL, seconds; None where there is none.
        ttft_p50_s: median TTFT, seconds; None where there is none.
        kernel_stamps: whether every arrival was stamped by the kernel.
        read_delay_p50_s: median over requests of their longest read delay, seconds; None where the kernel stamped none.
        send_delay_p95_s: 95th percentile of the send delay, seconds, of an open loop; None in a closed one.
    """
    cpu, lag_s = cpu_percent_max or 0.0, lag_p99_s or 0.0
    of_ttft = lag_s / ttft_p50_s if ttft_p50_s and not kernel_stamps else 0.0
    of_itl = lag_s / itl_p50_s if itl_p50_s else 0.0
    itl_limit = MIXED_KERNEL_LAG_OF_ITL if kernel_stamps else MIXED_LAG_OF_ITL
    if cpu >= CLIENT_CPU_PERCENT:
        return "client", f"the busiest worker used {cpu:.0f} % of a core"
    if of_ttft > CLIENT_LAG_OF_TTFT:
        return "client", f"p99 loop lag is {lag_s * 1e3:.1f} ms, {of_ttft:.0%} of TTFT p50"
    delay_s = send_delay_p95_s or 0.0
    of_delay = delay_s / ttft_p50_s if ttft_p50_s else 0.0
    late = f"requests went out late: p95 send delay is {delay_s * 1e3:.1f} ms, {of_delay:.0%} of TTFT p50"
    if of_delay > CLIENT_DELAY_OF_TTFT:
        return "client", late
    if of_delay > MIXED_DELAY_OF_TTFT:
        return "mixed", late
    if cpu >= MIXED_CPU_PERCENT:
        return "mixed", f"the busiest worker used {cpu:.0f} % of a core"
    if kernel_stamps and read_delay_p50_s is not None and itl_p50_s:
        if read_delay_p50_s > MIXED_READ_DELAY_OF_ITL * itl_p50_s:
            waited = f"in half of the requests bytes waited {read_delay_p50_s * 1e3:.1f} ms to be read"
            return "mixed", f"{waited}, {read_delay_p50_s / itl_p50_s:.0%} of ITL p50: tokens may share reads"
    elif of_itl > itl_limit:
        effect = "tokens share reads" if kernel_stamps else "it widens ITL's tails"
        return "mixed", f"p99 loop lag is {lag_s * 1e3:.1f} ms, {of_itl:.0%} of ITL p50: {effect}"
    if of_ttft > MIXED_LAG_OF_TTFT:
        return "mixed", f"p99 loop lag is {lag_s * 1e3:.1f} ms, {of_ttft:.0%} of TTFT p50"
    if cpu_percent_max is None or lag_p99_s is None:
        return "unknown", "CPU or loop lag of the client was not recorded"
    if not itl_p50_s and not ttft_p50_s:
        return "unknown", "there is no latency to compare the client's lag with"
    stamps = ", arrivals stamped by the kernel" if kernel_stamps else ""
    return "server", f"p99 loop lag {lag_s * 1e3:.1f} ms, CPU at most {cpu:.0f} % of a core{stamps}"


def open_loop_delay_s(metrics: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the p95 send delay of summarised metrics; None where there are no intended starts."""
    return metrics["send_delay_s"]["p95"] if metrics["e2e_intended_s"]["n"] else None

"""Says while a run goes on that a process which carries load cannot carry more without harm to the numbers.

Fed with the reports that `Run` absorbs, asked once a second. When a worker is at its limit is decided by
`metrics.verdict`, the same that judges the run at its end, and by the calibration of the worker's machine where one is.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from llmload.metrics.histogram import Histogram
from llmload.metrics.tally import Tallies
from llmload.metrics.truth import percentile
from llmload.metrics.verdict import MIXED_KERNEL_LAG_OF_ITL, client_verdict

QUIET_S = 30.0
"""A worker is warned of at most so often."""
RECENT_S = 10.0
"""CPU and lag are those of the last so many seconds."""
SETTLE_S = 5.0
"""Nothing is said of a worker that has reported for less: starting users costs CPU, once."""

_BASES = (("ITL", "itl_s"), ("TTFT", "ttft_s"))

log = logging.getLogger("llmload")


class Limits:
    """Watches the processes that carry one run.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._workers: dict[str, _Worker] = {}

    def take(self, report: Mapping[str, Any]) -> None:
        """Take one report of `Load.report`."""
        now_s = self._clock()
        self._workers.setdefault(report["worker"], _Worker(now_s)).take(report, now_s)

    def check(self) -> None:
        """Log what is to be said now."""
        for warning in self.warnings():
            log.warning("%s", warning)

    def warnings(self) -> Iterator[str]:
        """Yield one sentence for each worker that is at its limit and was not warned of lately."""
        now_s = self._clock()
        for name, worker in sorted(self._workers.items()):
            if now_s >= worker.quiet_until_s and (state := worker.beyond(now_s)):
                worker.quiet_until_s = now_s + QUIET_S
                who, what = ("this process", "workers") if name == "local" else (name, "more workers")
                yield f"{who} is at its limit: {state}: start {what}"


class _Worker:
    """What the last reports of one worker say."""

    def __init__(self, now_s: float) -> None:
        self._clients: deque[tuple[float, Mapping[str, Any]]] = deque()
        self._events: deque[tuple[float, int]] = deque()
        self._longest_s = RECENT_S
        self._base: dict[str, float] = {}
        """ITL and TTFT p50 of the last report that had any, seconds."""
        self._kernel_stamps = False
        """Whether the kernel stamped every arrival of the last answers."""
        self.quiet_until_s = now_s + SETTLE_S

    def take(self, report: Mapping[str, Any], now_s: float) -> None:
        tallies: Tallies = report["tallies"]
        self._clients.append((now_s, report["client"]))
        self._events.append((now_s, sum(one.counts["token_events"] for one in tallies.by_key.values())))
        if stamps := {source for one in tallies.by_key.values() for source in one.stamps}:
            self._kernel_stamps = stamps == {"kernel"}
        for name in ("itl_s", "ttft_s", "closed_s"):
            self._measure(name, tallies)

    def _measure(self, name: str, tallies: Tallies) -> None:
        merged = Histogram(1_000_000)
        for tally in tallies.by_key.values():
            if name in tally.histograms:
                merged.merge(tally.histograms[name])
        middle_s, longest_s = merged.percentile(50), merged.max
        if name == "closed_s":
            self._longest_s = max(self._longest_s, longest_s or 0.0)
        elif middle_s is not None:
            self._base[name] = middle_s

    def beyond(self, now_s: float) -> str:
        """Return how the worker is, if it is beyond what it can do, else an empty text."""
        clients = self._recent(now_s)
        cpus = [client["cpu_percent"] for client in clients if client["cpu_percent"] is not None]
        lags_us = [lag_us for client in clients for lag_us in client["lags_us"]]
        cpu = sum(cpus) / len(cpus) if cpus else None
        lag_s = percentile(lags_us, 99) / 1e6 if lags_us else None
        too_many = self._too_many(clients, now_s)
        if not too_many and not self._harmful(lag_s, cpu):
            return ""
        parts = [f"CPU {cpu:.0f} %" if cpu is not None else "", self._lag(lag_s) if lag_s is not None else "", too_many]
        return ", ".join(filter(None, parts))

    def _harmful(self, lag_s: float | None, cpu: float | None) -> bool:
        """Whether a run that went on like this would be the client's, or its tokens shared reads: then they have no
        times of their own, however they are stamped."""
        itl_s, ttft_s = self._base.get("itl_s"), self._base.get("ttft_s")
        verdict, _ = client_verdict(lag_s, cpu, itl_s, ttft_s, kernel_stamps=self._kernel_stamps)
        return verdict == "client" or (
            lag_s is not None and itl_s is not None and lag_s > MIXED_KERNEL_LAG_OF_ITL * itl_s
        )

    def _recent(self, now_s: float) -> list[Mapping[str, Any]]:
        while self._clients and self._clients[0][0] <= now_s - RECENT_S:
            self._clients.popleft()
        return [client for _, client in self._clients]

    def _lag(self, lag_s: float) -> str:
        bases = [f" ({label} p50 {self._base[name] * 1e3:.0f} ms)" for label, name in _BASES if name in self._base]
        return f"loop lag p99 {lag_s * 1e3:.0f} ms{''.join(bases[:1])}"

    def _too_many(self, clients: Sequence[Mapping[str, Any]], now_s: float) -> str:
        held = clients[-1].get("held_events_per_second") if clients else None
        rate = self._events_per_second(now_s)
        if held is None or rate is None or rate <= held:
            return ""
        return f"{rate:,.0f} events/s where {held:,.0f} were calibrated"

    def _events_per_second(self, now_s: float) -> float | None:
        """Events are counted when their answer ends, so the rate is one over the time of the longest answer; None
        while the worker has not reported for so long."""
        events = self._events
        while len(events) > 1 and events[1][0] <= now_s - self._longest_s:
            events.popleft()
        (first_s, _), (last_s, _) = events[0], events[-1]
        if first_s > now_s - self._longest_s or first_s == last_s:
            return None
        return (sum(count for _, count in events) - events[0][1]) / (last_s - first_s)

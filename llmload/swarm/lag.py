"""What the client costs itself: how late its event loop runs, its CPU and its memory.

One greenlet a process asks to be woken every 20 ms and notes how much later it was.
"""

from __future__ import annotations

from collections import deque
from time import monotonic_ns
from typing import Any

import gevent
import psutil

PERIOD_S = 0.02
CPU_WINDOW_NS = 500_000_000
"""CPU over less than this is noise: a share of a few ticks."""
KEPT = 200_000
"""Peaks kept at most; only a sequence of ever smaller lags over hours could reach it."""


class LagProbe:
    """Measures the event loop's lateness of this process.

    Keeps the peaks as a decreasing sequence, so that the worst lag since any moment is found without a scan.
    """

    def __init__(self) -> None:
        self._peaks: deque[tuple[int, float]] = deque(maxlen=KEPT)
        self._greenlet: gevent.Greenlet | None = None
        self._process = psutil.Process()
        self._due_ns = 0
        """When the probe that sleeps now should wake; 0 while none sleeps."""
        self._lags_us: list[int] = []
        self._cpu_percent: float | None = None
        self._cpu_at_ns = 0

    def start(self) -> None:
        """Start measuring; a second call does nothing."""
        if self._greenlet is None or self._greenlet.dead:
            self._process.cpu_percent()
            self._cpu_percent, self._cpu_at_ns = None, monotonic_ns()
            self._greenlet = gevent.spawn(self._run)

    def stop(self) -> None:
        """Stop measuring; what was measured stays."""
        if self._greenlet is not None:
            self._greenlet.kill(block=False)
            self._greenlet, self._due_ns = None, 0

    def worst_since(self, since_ns: int) -> float:
        """Return the worst lag in seconds seen since a monotonic time; 0.0 when no probe came late since then."""
        # a block that is just over: the request may be resumed before the probe is
        pending_s = max(0, monotonic_ns() - self._due_ns) / 1e9 if self._due_ns else 0.0
        # the peaks fall with time, so the first one young enough is the worst
        low, high = 0, len(self._peaks)
        while low < high:
            middle = (low + high) // 2
            if self._peaks[middle][0] < since_ns:
                low = middle + 1
            else:
                high = middle
        return max(self._peaks[low][1] if low < len(self._peaks) else 0.0, pending_s)

    def note(self, at_ns: int, lag_s: float) -> None:
        """Take one measurement."""
        while self._peaks and self._peaks[-1][1] <= lag_s:
            self._peaks.pop()
        self._peaks.append((at_ns, lag_s))
        self._lags_us.append(round(lag_s * 1e6))

    def sample(self) -> dict[str, Any]:
        """Return what was seen since the last sample.

        `cpu_percent` of one core, None where it is not known yet; `rss_bytes`, resident memory; `lags_us`, every
        measured lag in microseconds.
        """
        lags_us, self._lags_us = self._lags_us, []
        now_ns = monotonic_ns()
        if now_ns - self._cpu_at_ns > CPU_WINDOW_NS:
            self._cpu_percent, self._cpu_at_ns = self._process.cpu_percent(), now_ns
        return {
            "cpu_percent": self._cpu_percent,
            "rss_bytes": self._process.memory_info().rss,
            "lags_us": lags_us,
        }

    def _run(self) -> None:
        while True:
            self._due_ns = monotonic_ns() + int(PERIOD_S * 1e9)
            gevent.sleep(PERIOD_S)
            now_ns = monotonic_ns()
            self.note(now_ns, max(0, now_ns - self._due_ns) / 1e9)

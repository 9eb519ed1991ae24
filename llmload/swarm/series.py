"""The time series of one run: looks at the processes that carry it, its seconds, and what happened, on their way to the
sinks.

Lives in the process that collects the run. Nothing here waits for a sink.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psutil

from llmload.metrics.intervals import KEPT_S, Intervals
from llmload.metrics.truth import percentile
from llmload.sinks.points import Point, event_point, interval_point, worker_point
from llmload.sinks.sink import Sink

LATE_S = 1.5
"""A second is given out so long after it was over: reports come once a second."""
OLD_S, OLD_TICKS = 10, 10
"""What came late for seconds older than OLD_S is given out at every OLD_TICKS-th look only: tokens of a long answer
belong to all the seconds that it took."""
STOP_S = 10.0
"""How long sinks may take to deliver what is left when the run has ended."""

log = logging.getLogger("llmload")


class Series:
    """Feeds the sinks of one run.

    Args:
        run_id: the run's id.
        sinks: where everything goes; the record is one of them.
        process: name of this process among the workers: `local` or `master`.
        now_s: unix seconds.
        started_at: unix seconds of the run's start, as its record has it.
    """

    def __init__(
        self, run_id: str, *, sinks: Sequence[Sink], process: str, now_s: Callable[[], float], started_at: float
    ) -> None:
        self._run_id = run_id
        self._sinks = sinks
        self._process = process
        self._now_s = now_s
        self._intervals = Intervals(started_at)
        self._me = psutil.Process()
        self._me.cpu_percent()
        self._ticks = 0
        self._looked_at: dict[str, float] = {}
        self.ended = False
        """Whether the last point is written; what comes afterwards is no part of the run."""
        self.latest: dict[str, Any] | None = None
        """The newest second over everything that was given out: its fields, and `at`, unix seconds."""
        for sink in sinks:
            sink.start(run_id)
        self.note("run_start", f"run {run_id} begins")

    def note(self, kind: str, title: str, text: str = "") -> None:
        """Something happened that explains a curve; `kind` is one of `points.EVENT_KINDS`."""
        if not self.ended:
            self._write((), [event_point(self._run_id, kind, self._now_ns(), title, text)])

    def take(self, report: Mapping[str, Any], *, clock_offset_s: float | None) -> None:
        """Take one report of `Load.report`, on the clock of this process."""
        worker, at = report["worker"], report["at"]
        look = self._look(report, clock_offset_s)
        self._intervals.take(report["tallies"], report["completions"])
        self._intervals.take_look(worker, at, look)
        self._write(report["completions"], [worker_point(self._run_id, worker, round(at * 1e9), look)])

    def _look(self, report: Mapping[str, Any], clock_offset_s: float | None) -> dict[str, Any]:
        client, ledger, arrivals = report["client"], report["ledger"], report.get("arrivals")
        ended = len(report["completions"])
        in_flight = ledger["started"] - ledger["ok"] - ledger["failed"] - ledger["cancelled"]
        since_s = report["at"] - self._looked_at.get(report["worker"], report["at"] - 1)
        self._looked_at[report["worker"]] = report["at"]
        events = sum(one.counts["token_events"] for one in report["tallies"].by_key.values())
        lags_us = client["lags_us"]
        return {
            "cpu_percent": client["cpu_percent"],
            "rss_bytes": client["rss_bytes"],
            "lag_p99_s": percentile(lags_us, 99) / 1e6 if lags_us else None,
            "lag_max_s": max(lags_us) / 1e6 if lags_us else None,
            "users": report["users"],
            "in_flight": in_flight,
            "started": ledger["started"],
            "clock_offset_s": clock_offset_s,
            "events_per_s": events / since_s if since_s > 0 else None,
            "completions_per_s": ended / since_s if since_s > 0 else None,
            "offered_rate": None if arrivals is None else arrivals["rate"],
        }

    def tick(self) -> None:
        """Give out the seconds that are over, and look at this process."""
        if self.ended:
            return
        self._ticks += 1
        longest_s = KEPT_S if self._ticks % OLD_TICKS == 0 else OLD_S
        self._write((), [*self._seconds(self._now_s() - LATE_S, longest_s), self._own()])

    def _seconds(self, before: float, longest_s: int = KEPT_S) -> list[Point]:
        rows = list(self._intervals.ready(before=before, longest_s=longest_s))
        for second, key, fields in rows:
            if key is None and second >= (self.latest or {}).get("at", 0):
                self.latest = {**fields, "at": second}
        return [interval_point(self._run_id, second, key, fields) for second, key, fields in rows]

    def _own(self) -> Point:
        """Return a look at this process, which carries the sinks."""
        fields: dict[str, Any] = {"record_queue": 0}
        for sink in self._sinks:
            counts = sink.counts()
            if sink.name == "record":
                fields["record_queue"] = counts["queued"]
            elif sink.name == "influxdb":
                fields.update({f"influx_{name}": counts[name] for name in ("written", "retried", "dropped")})
                fields["influx_queue"] = counts["queued"]
        if self._process == "master":  # a local process reports itself as a worker
            fields.update(cpu_percent=self._me.cpu_percent(), rss_bytes=self._me.memory_info().rss)
        return worker_point(self._run_id, self._process, self._now_ns(), fields)

    def end(self, title: str) -> dict[str, dict[str, Any]]:
        """Give out everything that is left, stop the sinks within a bound, and return their counts by name.

        A second call does not wait for what the first one is waiting for.
        """
        if not self.ended:
            self._write((), self._seconds(float("inf")))
            self.note("run_end", title)
            self.ended = True
            for sink in self._sinks:
                sink.stop(STOP_S)
        return {sink.name: sink.counts() for sink in self._sinks}

    def _write(self, completions: Sequence[Mapping[str, Any]], points: Sequence[Point]) -> None:
        for sink in self._sinks:
            sink.write(completions, points)

    def _now_ns(self) -> int:
        return round(self._now_s() * 1e9)

"""InfluxDB as a sink: a bounded queue of lines, and one thread (under Locust: a greenlet) that writes them in batches.

What InfluxDB does not take is retried with growing pauses; what it never took is counted, and `llmload push` sends it
later from the record. docs/influxdb.md says what happens in which trouble.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from llmload.errors import SetupError
from llmload.sinks.influx_target import InfluxTarget
from llmload.sinks.influx_write import InfluxWriter, Trouble
from llmload.sinks.line import to_line
from llmload.sinks.points import Point, request_point

QUEUE_BYTES = 128 << 20
"""About 250,000 completions; what comes beyond it is dropped and counted."""
BATCH_LINES, BATCH_BYTES = 5_000, 4 << 20
FLUSH_S = 1.0
"""A batch that is not full is sent after so long."""
RETRY_S = 300.0
"""A batch is given up after so long."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0
DOWN_S = 3.0
"""At the end of a run an InfluxDB that cannot be reached gets so long to come back."""
MAX_PARTS = 200
"""Writes that the search for bad lines in one batch may take."""

log = logging.getLogger("llmload")


class InfluxSink:
    """See `sink.Sink`.

    Args:
        target: where to.
        random: draws the pauses between retries.
    """

    name = "influxdb"

    def __init__(self, target: InfluxTarget, *, random: random.Random | None = None) -> None:
        self._target = target
        self._random = random or _RANDOM
        self._reset("")

    def _reset(self, run_id: str) -> None:
        self._run_id = run_id
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._in_hand = 0
        self._written = self._retried = self._dropped = 0
        self._error: str | None = None
        self._in_trouble = False
        self._lock = threading.Lock()
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._give_up_at: float | None = None
        self._began_stop = 0.0
        self._writer: InfluxWriter | None = None
        self._thread: threading.Thread | None = None

    def describe(self) -> str:
        """See `Sink.describe`."""
        return f"InfluxDB at {self._target.shown}"

    def probe(self) -> None:
        """Write one point of the measurement `llm_probe`, so that what is wrong is found before a run.

        Raises:
            SetupError: InfluxDB does not take it.
        """
        writer = InfluxWriter(self._target, timeout_s=10.0)
        try:
            trouble = writer.write([f"llm_probe ok=true {time.time_ns()}".encode()])
        finally:
            writer.close()
        if trouble is not None:
            raise _setup_error(self._target, trouble)

    def start(self, run_id: str) -> None:
        """See `Sink.start`."""
        self._reset(run_id)
        self._writer = InfluxWriter(self._target)
        self._thread = threading.Thread(target=self._work, args=(self._writer,), name="influxdb", daemon=True)
        self._thread.start()

    def write(self, completions: Sequence[Mapping[str, Any]], points: Sequence[Point] = ()) -> None:
        """See `Sink.write`: makes lines and queues them, about 15 us each."""
        for completion in completions:
            self._put(request_point(completion, self._run_id))
        for point in points:
            self._put(point)
        if len(self._lines) >= BATCH_LINES:
            self._wake.set()

    def _put(self, point: Point) -> None:
        line = to_line(point)
        if line is None:
            self._drop(1, "a point has no field")
            return
        if self._bytes + len(line) > QUEUE_BYTES or self._give_up_at is not None:
            self._drop(1, "the queue is full")
            return
        with self._lock:
            self._lines.append(line)
            self._bytes += len(line)

    def stop(self, bound_s: float) -> None:
        """See `Sink.stop`."""
        if self._thread is None:
            return
        self._began_stop = time.monotonic()
        self._give_up_at = self._began_stop + 0.9 * bound_s  # the rest is for a write that has begun
        self._wake.set()
        self._hurry.set()
        self._thread.join(bound_s)
        self._writer, self._thread = None, None  # whatever still goes on there counts no more
        if left := len(self._lines) + self._in_hand:
            self._drop(left, self._error or f"not written within {bound_s:g} s")
            self._lines.clear()
            self._in_hand = 0

    def counts(self) -> dict[str, Any]:
        """See `Sink.counts`; all are points."""
        return {
            "written": self._written,
            "retried": self._retried,
            "dropped": self._dropped,
            "queued": len(self._lines) + self._in_hand,
            "error": self._error,
        }

    # the writer's own thread

    def _work(self, writer: InfluxWriter) -> None:
        while self._writer is writer:
            if not self._lines:
                if self._give_up_at is not None:
                    break
                self._wake.wait(FLUSH_S)
            if self._give_up_at is None and len(self._lines) < BATCH_LINES:
                self._wake.wait(FLUSH_S)
            self._wake.clear()
            if batch := self._batch():
                self._deliver(writer, batch)
        writer.close()

    def _batch(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        with self._lock:
            while self._lines and len(batch) < BATCH_LINES and size < BATCH_BYTES:
                line = self._lines.popleft()
                batch.append(line)
                size += len(line)
            self._bytes -= size
            self._in_hand = len(batch)
        return batch

    def _deliver(self, writer: InfluxWriter, batch: list[bytes]) -> None:
        """Write a batch; where InfluxDB rejects it for what is in it, halve it until only the bad lines are left, so
        that one bad point costs no other."""
        parts, tries = [batch], 0
        while parts and self._writer is writer:
            part = parts.pop()
            trouble = self._insist(writer, part)
            if self._writer is not writer:
                return
            tries += 1
            if trouble is None:
                self._settle(written=len(part))
            elif trouble.is_about_lines and len(part) > 1 and tries < MAX_PARTS:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
            else:
                self._settle(dropped=len(part), why=trouble.text)

    def _settle(self, *, written: int = 0, dropped: int = 0, why: str = "") -> None:
        self._in_hand -= written + dropped
        self._written += written
        if dropped:
            self._drop(dropped, why)

    def _insist(self, writer: InfluxWriter, lines: list[bytes]) -> Trouble | None:
        """Write until it succeeds, or fails for good, or has taken too long."""
        began, pause_s = time.monotonic(), FIRST_PAUSE_S
        while True:
            trouble = writer.write(lines)
            if self._writer is not writer:
                return trouble
            if trouble is None or trouble.is_about_lines:
                self._note(None)
                return trouble
            self._note(trouble)
            self._error = trouble.text
            if time.monotonic() >= self._limit(began, trouble):
                return trouble
            self._retried += len(lines)
            self._pause(max(trouble.retry_after_s or 0.0, pause_s * self._random.uniform(0.5, 1.0)), began, trouble)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _note(self, trouble: Trouble | None) -> None:
        """Say once that the server is in trouble, and once that it is over; its own view of lines is no trouble."""
        if trouble is not None and not self._in_trouble:
            log.warning("InfluxDB: %s; writes are retried", trouble.text)
        if trouble is None and self._in_trouble:
            log.warning("InfluxDB answers again")
        self._in_trouble = trouble is not None

    def _limit(self, began: float, trouble: Trouble) -> float:
        if self._give_up_at is None:
            return began + RETRY_S
        return min(self._give_up_at, self._began_stop + DOWN_S) if trouble.why != "busy" else self._give_up_at

    def _pause(self, seconds: float, began: float, trouble: Trouble) -> None:
        if not self._hurry.is_set():
            self._hurry.wait(seconds)
            return
        time.sleep(max(0.0, min(seconds, 0.5, self._limit(began, trouble) - time.monotonic())))

    def _drop(self, points: int, why: str) -> None:
        if not self._dropped:
            log.error("InfluxDB: points are not written: %s (llmload push sends them from the record)", why)
        self._dropped += points
        self._error = why


_RANDOM = random.Random()


def _setup_error(target: InfluxTarget, trouble: Trouble) -> SetupError:
    where = f"InfluxDB at {target.url}"
    ways = "or unset INFLUXDB_URL, or add --influx-optional"
    if trouble.why == "unreachable":
        return SetupError(f"{where} does not answer ({trouble.text})", f"start it or correct INFLUXDB_URL, {ways}")
    if trouble.why == "refused":
        token = "refuses INFLUXDB_TOKEN" if target.token else "wants a token"
        return SetupError(f"{where} {token} ({trouble.text})", f"give one that may write to {target.bucket}, {ways}")
    if trouble.why == "missing":
        return SetupError(
            f"{where} has no bucket {target.bucket} in organisation {target.org} ({trouble.text})",
            f"create it or correct INFLUXDB_BUCKET and INFLUXDB_ORG, {ways}",
        )
    return SetupError(f"{where} does not take points ({trouble.text})", f"mend it, {ways}")

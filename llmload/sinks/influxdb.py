"""InfluxDB as a sink: a bounded queue of lines, and one thread (under Locust: a greenlet) that writes them in batches.

What InfluxDB does not take is retried with growing pauses; what it never took is counted, and `llmload push` sends it
later from the record. docs/influxdb.md says what happens in which trouble.
"""

from __future__ import annotations

import logging
import math
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from llmload.errors import SetupError
from llmload.sinks.influx_queue import LineQueue
from llmload.sinks.influx_target import InfluxTarget
from llmload.sinks.influx_write import InfluxWriter, Trouble
from llmload.sinks.line import to_line
from llmload.sinks.points import Point, request_point

QUEUE_BYTES = 128 << 20
"""About 250,000 completions; what comes beyond it is dropped and counted."""
BATCH_LINES, BATCH_BYTES = 5_000, 4 << 20
FLUSH_S = 1.0
"""A batch that is not full is sent after so long."""
TURN_S = 60.0
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
        turn_s: a batch that was refused for so long goes to the end of the queue, since it alone may be what InfluxDB
            cannot take.
    """

    name = "influxdb"

    def __init__(self, target: InfluxTarget, *, random: random.Random | None = None, turn_s: float = TURN_S) -> None:
        self._target = target
        self._turn_s = turn_s
        self._random = random or _RANDOM
        self._reset("")

    def _reset(self, run_id: str) -> None:
        self._run_id = run_id
        self._queue = LineQueue(most_bytes=QUEUE_BYTES)
        self._in_trouble = False
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
            self._queue.put(to_line(request_point(completion, self._run_id)))
        for point in points:
            self._queue.put(to_line(point))
        if len(self._queue) >= BATCH_LINES:
            self._wake.set()

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
        self._queue.close(f"not written within {bound_s:g} s of the end")

    def counts(self) -> dict[str, Any]:
        """See `Sink.counts`; all are points."""
        return self._queue.counts()

    # the writer's own thread

    def _work(self, writer: InfluxWriter) -> None:
        queue = self._queue
        while self._writer is writer:
            if self._give_up_at is None and len(queue) < BATCH_LINES:
                self._wake.wait(FLUSH_S)
            elif not len(queue):
                break
            self._wake.clear()
            if batch := queue.take(BATCH_LINES, BATCH_BYTES, new_first=self._hurry.is_set()):
                self._deliver(writer, queue, batch)
        writer.close()

    def _deliver(self, writer: InfluxWriter, queue: LineQueue, batch: list[bytes]) -> None:
        """Write a batch; where InfluxDB rejects it for what is in it, halve it until only the bad lines are left, so
        that one bad point costs no other."""
        parts, tries = [batch], 0
        while parts and self._writer is writer:
            part = parts.pop()
            trouble = self._insist(writer, queue, part)
            tries += 1
            if trouble is None:
                queue.note_written(part)
            elif not trouble.is_about_lines and time.monotonic() < self._last_chance(trouble):
                queue.put_back(part)  # others get their turn
            elif trouble.is_about_lines and len(part) > 1 and tries < MAX_PARTS:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
            else:
                queue.note_dropped(part, trouble.text)

    def _insist(self, writer: InfluxWriter, queue: LineQueue, lines: list[bytes]) -> Trouble | None:
        """Write until it succeeds, or fails for good, or it is time for others."""
        turn_ends, pause_s = time.monotonic() + self._turn_s, FIRST_PAUSE_S
        while True:
            trouble = writer.write(lines)
            if self._writer is not writer:
                return trouble
            if trouble is None or trouble.is_about_lines:
                self._note(None)
                return trouble
            self._note(trouble)
            queue.note_trouble(trouble.text)
            if time.monotonic() >= self._last_chance(trouble):
                return trouble
            queue.note_retried(lines)
            self._pause(max(trouble.retry_after_s or 0.0, pause_s * self._random.uniform(0.5, 1.0)), trouble)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            is_late = time.monotonic() >= turn_ends or self._hurry.is_set()
            if is_late and len(queue) and time.monotonic() < self._last_chance(trouble):
                return trouble

    def _note(self, trouble: Trouble | None) -> None:
        """Say once that the server is in trouble, and once that it is over; its own view of lines is no trouble."""
        if trouble is not None and not self._in_trouble:
            log.warning("InfluxDB: %s; writes are retried", trouble.text)
        if trouble is None and self._in_trouble:
            log.warning("InfluxDB answers again")
        self._in_trouble = trouble is not None

    def _last_chance(self, trouble: Trouble) -> float:
        """When to give up: never while the run goes on."""
        if self._give_up_at is None:
            return math.inf
        return min(self._give_up_at, self._began_stop + DOWN_S) if trouble.why != "busy" else self._give_up_at

    def _pause(self, seconds: float, trouble: Trouble) -> None:
        if not self._hurry.is_set():
            self._hurry.wait(seconds)
            return
        time.sleep(max(0.0, min(seconds, 0.5, self._last_chance(trouble) - time.monotonic())))


_RANDOM = random.Random()


def _setup_error(target: InfluxTarget, trouble: Trouble) -> SetupError:
    where, name = f"InfluxDB at {target.url}", target.prefix
    ways = f"or unset {name}URL, or add --influx-optional"
    if trouble.why == "unreachable":
        return SetupError(f"{where} does not answer ({trouble.text})", f"start it or correct {name}URL, {ways}")
    if trouble.why == "refused":
        token = f"refuses {name}TOKEN" if target.token else f"wants a token, and {name}TOKEN is not set"
        return SetupError(f"{where} {token} ({trouble.text})", f"give one that may write to {target.bucket}, {ways}")
    if not target.org and re.search(r"\borg", trouble.text):
        what = f"{where} wants an organisation, and {name}ORG is not set ({trouble.text})"
        return SetupError(what, f"set it to the one of bucket {target.bucket}, {ways}")
    if trouble.why == "missing":
        org = f" in organisation {target.org}" if target.org else ""
        return SetupError(
            f"{where} has no bucket {target.bucket}{org} ({trouble.text})",
            f"create it or correct {name}BUCKET{f' and {name}ORG' if org else ''}, {ways}",
        )
    return SetupError(f"{where} does not take points ({trouble.text})", f"mend it, {ways}")

"""What InfluxDB does to a sink that takes long to see: for the tests, and for `python -m bench.sinks`.

Each returns what was given and what became of it. The books of the sink are looked at all the while.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmload.records import Completion
from llmload.sinks.influxdb import InfluxSink
from tests.influx import Influx, Trouble, new_influx

NOW_S = 1_790_000_000
TOKENS = 100


@dataclass(frozen=True, slots=True)
class Fate:
    """Completions given, and stored in InfluxDB; `counts` are the sink's after its end, `before` those before it."""

    given: int
    stored: int
    counts: Mapping[str, Any]
    before: Mapping[str, Any]
    off: int
    """The furthest that written + dropped + queued ever was from what was given: 0, or a bug."""
    deepest: int
    writes: int | None = None


class Books:
    """A sink in a run of its own, whose counts are compared with what it was given."""

    def __init__(self, sink: InfluxSink, run: str) -> None:
        self._sink, self._run = sink, run
        self._given = self._off = self._deepest = 0
        sink.start(run)

    def give(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._sink.write(rows)
        self._given += len(rows)
        self.look()

    def look(self) -> dict[str, Any]:
        counts = self._sink.counts()
        self._off = max(self._off, abs(counts["written"] + counts["dropped"] + counts["queued"] - self._given))
        self._deepest = max(self._deepest, counts["queued"])
        return counts

    def look_until(self, is_so: Callable[[dict[str, Any]], bool], *, most_s: float = 60.0) -> dict[str, Any]:
        give_up = time.monotonic() + most_s
        while not is_so(counts := self.look()):
            assert time.monotonic() < give_up, counts
            time.sleep(0.01)
        return counts

    def end(self, bound_s: float, influx: Influx) -> Fate:
        before = self.look()
        self._sink.stop(bound_s)
        counts = self.look()
        return Fate(self._given, influx.requests(self._run), counts, before, self._off, self._deepest)


def burst(influx: Influx, rate: int = 20_000, seconds: int = 10) -> Fate:
    """So many completions a second into the queue, or as many as the machine can make."""
    books, began = Books(InfluxSink(influx.target), "burst"), time.monotonic()
    rows = [completion(number, f"worker-{number % 8}", NOW_S).to_dict() for number in range(1000)]
    for first in range(0, rate * seconds, 1000):
        books.give(
            [
                {**row, "id": f"3f9a-{row['worker']}-{first + at}",
                 "started_unix_ns": (NOW_S + first) * 10**9 + at * 1000}
                for at, row in enumerate(rows)
            ]
        )  # fmt: skip
        time.sleep(max(0.001, began + (first + 1000) / rate - time.monotonic()))
    return books.end(60, influx)


def slow(influx: Influx, delay_s: float = 10.0) -> Fate:
    """InfluxDB takes so long for every batch: what comes meanwhile waits for the next one."""
    trouble = Trouble(influx)
    trouble.delay_s = delay_s
    books = Books(InfluxSink(trouble.target), "slow-batches")
    books.give(_rows(0, 1000))
    books.look_until(lambda _: trouble.writes == 1)
    for first in range(1000, 5000, 100):
        books.give(_rows(first, 100))
        time.sleep(0.01)
    fate = books.end(5 * delay_s, influx)
    trouble.close()
    return replace(fate, writes=trouble.writes)


def disk_full(folder: Path, given: int = 20_000) -> Fate | None:
    """The disk of InfluxDB is full after 1 MiB; then there is room, and it is started again. None where no small disk
    may be mounted."""
    with small_disk(folder / "wal") as grow:
        if grow is None:
            return None
        influx = new_influx(folder)
        try:
            books = Books(InfluxSink(influx.target), "disk-full")
            for first in range(0, given, 100):
                books.give(_rows(first, 100))
                time.sleep(0.01)
            full = books.look_until(lambda counts: counts["retried"] > 0)
            grow()
            influx.kill()  # InfluxDB 1.6 does not notice by itself that there is room again
            influx.start()
            fate = books.end(30, influx)
        finally:
            influx.kill()
    return replace(fate, before=full)


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], None] | None]:
    """Mount a small disk; yield what makes it bigger, or None where that is not allowed."""
    folder.mkdir(parents=True)

    def mount(options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0

    if not mount("size=1200k"):
        yield None
        return
    try:
        yield lambda: mount("remount,size=300m") and None
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def completion(number: int, worker: str, at_s: float) -> Completion:
    return Completion(
        id=f"3f9a-{worker}-{number}", scenario="chat", model="m", worker=worker, outcome="ok", status=200,
        started_unix_ns=round(at_s * 1e9), ttft_s=0.2, ttfa_s=0.2, e2e_s=2.2, closed_s=2.21, tpot_s=0.02,
        output_tps=50.0, send_delay_s=0.0002, pool_wait_s=0.0001, headers_s=0.1, first_byte_s=0.1, client_lag_s=0.001,
        input_tokens=100, output_tokens=TOKENS, usage_source="server", token_events=TOKENS, finish_reason="stop",
        gaps_us=tuple(20_000 + (number * 7 + gap) % 400 for gap in range(TOKENS - 1)), burst_share=0.0, reused=True,
        received_bytes=20_000, stamps="kernel",
    )  # fmt: skip


def _rows(first: int, count: int) -> list[dict[str, Any]]:
    return [completion(number, "worker-0", NOW_S + number).to_dict() for number in range(first, first + count)]

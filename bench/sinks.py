"""What the sinks cost and hold: `python -m bench.sinks`. Needs Debian's influxdb and nginx-light.

Four measurements, printed as a table: completions into the queue at a fixed rate, the master's CPU for each completion
of 8 workers, a real run with and without InfluxDB, and the faults that take too long for the tests.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack

from llmload.metrics.tally import Tallies
from llmload.mock.process import MockProcess
from llmload.records import Completion
from llmload.sinks.influxdb import InfluxSink
from llmload.sinks.record import RunRecord, read_series
from llmload.swarm.run import Run
from tests.influx import Influx, Trouble, new_influx
from tests.locusts import run_locust

NOW_S = 1_790_000_000
TOKENS = 100


def main() -> None:
    """Print everything, as it is measured."""
    with influx() as one:
        for part in (queue(one), absorbed(one), beside_a_load(one), slow(one), disk_full()):
            for name, value in part:
                print(f"{name:<84}  {value}", flush=True)


@contextmanager
def influx() -> Iterator[Influx]:
    with tempfile.TemporaryDirectory() as folder:
        one = new_influx(folder)
        try:
            yield one
        finally:
            one.kill()


def completion(number: int, worker: str, at_s: float) -> Completion:
    return Completion(
        id=f"3f9a-{worker}-{number}", scenario="chat", model="m", worker=worker, outcome="ok", status=200,
        started_unix_ns=round(at_s * 1e9), ttft_s=0.2, ttfa_s=0.2, e2e_s=2.2, closed_s=2.21, tpot_s=0.02,
        output_tps=50.0, send_delay_s=0.0002, pool_wait_s=0.0001, headers_s=0.1, first_byte_s=0.1, client_lag_s=0.001,
        input_tokens=100, output_tokens=TOKENS, usage_source="server", token_events=TOKENS, finish_reason="stop",
        gaps_us=tuple(20_000 + (number * 7 + gap) % 400 for gap in range(TOKENS - 1)), burst_share=0.0, reused=True,
        received_bytes=20_000, stamps="kernel",
    )  # fmt: skip


def queue(one: Influx, rate: int = 20_000, seconds: int = 10) -> Iterator[tuple[str, str]]:
    """So many completions a second into the queue."""
    sink, run, deepest, total = InfluxSink(one.target), "bench-queue", 0, rate * seconds
    rows = [completion(number, f"worker-{number % 8}", NOW_S).to_dict() for number in range(1000)]
    sink.start(run)
    began, cpu = time.monotonic(), time.process_time()
    for first in range(0, total, 1000):
        part = [
            {**row, "id": f"3f9a-{row['worker']}-{first + at}", "started_unix_ns": (NOW_S + first) * 10**9 + at * 1000}
            for at, row in enumerate(rows)
        ]
        sink.write(part)
        deepest = max(deepest, sink.counts()["queued"])
        time.sleep(max(0.001, began + (first + 1000) / rate - time.monotonic()))
    given_s = time.monotonic() - began
    sink.stop(60)
    took_s, counts = time.monotonic() - began, sink.counts()
    yield (
        f"{rate:,}/s for {seconds} s into the queue",
        f"{total:,} given in {given_s:.1f} s, all done in {took_s:.1f} s",
    )
    yield "  points per second written", f"{counts['written'] / took_s:,.0f}"
    yield "  stored / dropped / deepest queue", f"{one.requests(run):,} / {counts['dropped']:,} / {deepest:,}"
    yield "  CPU per completion, line, gzip and HTTP included", f"{(time.process_time() - cpu) / total * 1e6:.0f} us"


def absorbed(one: Influx, workers: int = 8, seconds: int = 20, each: int = 100) -> Iterator[tuple[str, str]]:
    """The master's CPU for completions of 8 workers, from the bytes of their reports to the sinks."""
    for name, sinks in (("record only", []), ("record and InfluxDB", [InfluxSink(one.target)])):
        cost_us, written, cpu = _absorb(sinks, workers, seconds, each)
        yield (
            f"master, {workers} workers, {workers * each}/s of {TOKENS} tokens, {name}",
            (f"{cost_us:.0f} us a completion = {cpu:.0%} of a core; {written:,} points written"),
        )


def _absorb(sinks: list[Any], workers: int, seconds: int, each: int) -> tuple[float, int, float]:
    clock = {"s": float(NOW_S)}
    packed = [_reports(workers, second, each) for second in range(seconds)]
    with tempfile.TemporaryDirectory() as folder:
        record = RunRecord.create(folder, f"bench-absorb-{len(sinks)}")
        about = {"id": record.path.name, "settings": {}}
        run = Run(record, sinks=sinks, process="master", about=about, now_s=lambda: clock["s"])
        began = time.process_time()
        for reports in packed:
            clock["s"] += 1
            for report in reports:
                wire = msgpack.unpackb(report)
                run.absorb({**wire, "run": run.id, "tallies": Tallies.from_wire(wire["tallies"])})
            run.series.tick()
            record.flush()
            time.sleep(0.01)
        spent = time.process_time() - began
        run.freeze()
    written = sum(sink.counts()["written"] for sink in sinks)
    return spent / (workers * seconds * each) * 1e6, written, spent / seconds


def _reports(workers: int, second: int, each: int) -> list[bytes]:
    reports = []
    for worker in (f"worker-{number}" for number in range(workers)):
        done = [completion(second * each + at, worker, NOW_S + second - 2.0 + at / each) for at in range(each)]
        ended = each * (second + 1)
        client = {"cpu_percent": 50.0, "rss_bytes": 10**8, "lags_us": [500] * 50, "served": ended, "repeats": 0,
                  "held_events_per_second": None}  # fmt: skip
        report = {
            "worker": worker, "number": second + 1, "final": False, "at": NOW_S + second + 1.0, "users": 50,
            "ledger": {"started": ended + 50, "ok": ended, "failed": 0, "cancelled": 0},
            "tallies": Tallies(done).to_wire(), "completions": [one.to_dict() for one in done], "arrivals": None,
            "client": client, "steps": {},
        }  # fmt: skip
        reports.append(msgpack.packb(report))
    return reports


def beside_a_load(one: Influx) -> Iterator[tuple[str, str]]:
    """A real run of two workers and a master on this machine."""
    args = ("-u", "60", "-r", "60", "-t", "10s", "--processes", "2", "--model", "mock", "--no-probe")
    with MockProcess("--tokens", "20", "--itl-ms", "10", "--ttft-ms", "50") as mock:
        for name, env in (("without InfluxDB", {}), ("with InfluxDB", one.env)):
            with tempfile.TemporaryDirectory() as folder:
                locust = run_locust(folder, "--host", mock.url, *args, env=env)
                ledger, sinks = locust.summary["ledger"], locust.summary["sinks"]
                looks = [point.fields for point in read_series(locust.run) if point.tags.get("worker") == "master"]
                cpu = statistics.median(float(look["cpu_percent"]) for look in looks[1:] if "cpu_percent" in look)
                written = sinks.get("influxdb", {}).get("written", 0)
                yield (
                    f"run of 60 users, 2 workers, {name}",
                    (
                        f"{ledger['started']:,} requests, {written / 10:,.0f} points/s written, "
                        f"{sinks.get('influxdb', {}).get('dropped', 0)} dropped, master at {cpu:.0f} % of a core"
                    ),
                )


def slow(one: Influx) -> Iterator[tuple[str, str]]:
    """InfluxDB takes 10 s for every batch."""
    trouble = Trouble(one)
    trouble.delay_s = 10.0
    sink, run = InfluxSink(trouble.target), "bench-slow"
    sink.start(run)
    for number in range(5000):
        sink.write([completion(number, "worker-0", NOW_S + number).to_dict()])
        time.sleep(0.002)
    sink.stop(30)
    counts = sink.counts()
    trouble.close()
    yield (
        "10 s a batch: given / stored / dropped / writes",
        (f"5,000 / {one.requests(run):,} / {counts['dropped']:,} / {trouble.writes}"),
    )


def disk_full() -> Iterator[tuple[str, str]]:
    """The disk of InfluxDB is full after 1 MiB, until somebody makes room."""
    name = "disk full at InfluxDB, then room made and restarted: given / stored / dropped / retried"
    with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder) / "wal") as grow:
        if grow is None:
            yield name, "not measured: a small disk can be mounted by root only"
            return
        one = new_influx(folder)
        sink, run = InfluxSink(one.target), "bench-disk"
        sink.start(run)
        for first in range(0, 20_000, 100):
            sink.write([completion(first + at, "worker-0", NOW_S + first + at).to_dict() for at in range(100)])
            time.sleep(0.02)
        full = sink.counts()
        grow()
        one.kill()  # InfluxDB 1.6 does not notice by itself that there is room again
        one.start()
        sink.stop(30)
        counts, stored = sink.counts(), one.requests(run)
        one.kill()
    yield name, f"20,000 / {stored:,} / {counts['dropped']:,} / {counts['retried']:,}"
    yield "  while it was full", f"{full['written']:,} written, {full['queued']:,} queued: {full['error']}"


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], None] | None]:
    """Mount a small disk; yield what makes it bigger, or None where that is not allowed."""
    folder.mkdir()

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


if __name__ == "__main__":
    main()

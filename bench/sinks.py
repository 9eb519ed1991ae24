"""What the sinks cost and hold: `python -m bench.sinks`. Needs Debian's influxdb and nginx-light.

Four measurements, printed as a table: completions into the queue at a fixed rate, the master's CPU for each completion
of 8 workers, a real run with and without InfluxDB, and the faults that take long.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack

from bench.sink_faults import NOW_S, TOKENS, burst, completion, disk_full, slow
from llmload.metrics.tally import Tallies
from llmload.mock.process import MockProcess
from llmload.sinks.influxdb import InfluxSink
from llmload.sinks.record import RunRecord, read_series
from llmload.swarm.run import Run
from tests.influx import Influx, new_influx
from tests.locusts import run_locust


def main() -> None:
    """Print everything, as it is measured."""
    with influx() as one:
        for part in (queue(one), absorbed(one), beside_a_load(one), faults(one)):
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


def queue(one: Influx, rate: int = 20_000, seconds: int = 10) -> Iterator[tuple[str, str]]:
    """So many completions a second into the queue."""
    began, cpu = time.monotonic(), time.process_time()
    fate = burst(one, rate, seconds)
    took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
    yield f"{rate:,}/s for {seconds} s into the queue", f"{fate.given:,} given, all done in {took_s:.1f} s"
    yield "  points per second written", f"{fate.counts['written'] / took_s:,.0f}"
    yield "  stored / dropped / deepest queue", f"{fate.stored:,} / {fate.counts['dropped']:,} / {fate.deepest:,}"
    yield "  CPU per completion, line, gzip and HTTP included", f"{cpu_s / fate.given * 1e6:.0f} us"


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


def faults(one: Influx) -> Iterator[tuple[str, str]]:
    """Those that take long; they are tests, too."""
    fate = slow(one)
    yield (
        "10 s a batch: given / stored / dropped / writes",
        f"{fate.given:,} / {fate.stored:,} / {fate.counts['dropped']:,} / {fate.writes}",
    )
    name = "disk full at InfluxDB, then room made and restarted: given / stored / dropped / retried"
    with tempfile.TemporaryDirectory() as folder:
        full = disk_full(Path(folder))
    if full is None:
        yield name, "not measured: a small disk can be mounted by root only"
        return
    counts, before = full.counts, full.before
    yield name, f"{full.given:,} / {full.stored:,} / {counts['dropped']:,} / {counts['retried']:,}"
    yield "  while it was full", f"{before['written']:,} written, {before['queued']:,} queued: {before['error']}"


if __name__ == "__main__":
    main()

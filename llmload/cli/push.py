"""`llmload push RUN`: sends the record of a run to InfluxDB: a finished one, or one that broke off.

The points are those that the run itself writes, with the same times, so that pushing again changes nothing. How far a
push came is kept in the run directory; the next one goes on there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from llmload.errors import EXIT_INVALID, EXIT_OK, SetupError
from llmload.sinks.influx_target import InfluxTarget, read_influx
from llmload.sinks.influxdb import InfluxSink
from llmload.sinks.points import Point
from llmload.sinks.record import COMPLETIONS_FILE, SERIES_FILE, find_run, read_run
from llmload.sinks.replay import recorded_points

STATE_FILE = ".push.json"
AHEAD = 20_000
"""Points that are queued at most; reading waits for InfluxDB."""
CHUNK = 1_000
SAVE_S = 1.0
GIVE_UP_S = 300.0
"""A push is broken off when InfluxDB has taken nothing for so long."""
CLOSE_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = (
        f"{parser.description}. INFLUXDB_URL, INFLUXDB_BUCKET, INFLUXDB_TOKEN and INFLUXDB_ORG say where"
    )
    parser.add_argument(
        "run",
        nargs="?",
        default="runs",
        metavar="RUN",
        help="a run directory, or a directory of them: then the newest (default: %(default)s)",
    )
    parser.add_argument("--again", action="store_true", help="begin at the first point, also after a push broke off")


def run(args: argparse.Namespace) -> int:
    """Push; say what was written on standard output.

    Raises:
        SetupError: no INFLUXDB_URL, or InfluxDB does not take points.
        RecordError: there is no run, or the files are not ours.
    """
    target = read_influx(os.environ)
    if target is None:
        hint = "export it and INFLUXDB_BUCKET, and INFLUXDB_TOKEN and INFLUXDB_ORG where the server wants them"
        raise SetupError("INFLUXDB_URL is not set", hint)
    path = find_run(args.run)
    run_id = str(read_run(path)[0]["id"])
    sink = InfluxSink(target, turn_s=inf)  # how far a push came can be told in order only
    sink.probe()
    state = _State(path, target)
    skipped = 0 if args.again else state.read()
    if skipped:
        print(f"llmload push: goes on after the first {skipped:,} points", file=sys.stderr)
    points = islice(recorded_points(path), skipped, None)
    sink.start(run_id)
    is_whole = False
    try:
        is_whole = _push(sink, points, state, skipped, _about(path))
    finally:
        sink.stop(CLOSE_S)
        counts = sink.counts()
        state.note(skipped, counts)
    return _said(run_id, sink, counts, state, is_whole=is_whole)


def _push(sink: InfluxSink, points: Iterator[Point], state: _State, skipped: int, total: int) -> bool:
    """Give the sink the points; return whether it got rid of all of them."""
    columns = TextColumn("pushing"), BarColumn(), MofNCompleteColumn(), TextColumn("points"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        # how many seconds there are is known when they have been worked out
        task = progress.add_task("", total=max(total, skipped), completed=skipped)

        def is_down_to(queued: int) -> bool:
            """Wait until no more points are queued; False where InfluxDB took none for too long."""
            taken, taken_at = 0, time.monotonic()
            while True:
                counts = sink.counts()
                done = skipped + state.note(skipped, counts)
                progress.update(task, completed=done, total=max(total, done))
                if counts["queued"] <= queued:
                    return True
                if counts["written"] + counts["dropped"] > taken:
                    taken, taken_at = counts["written"] + counts["dropped"], time.monotonic()
                elif time.monotonic() - taken_at > GIVE_UP_S:
                    return False
                time.sleep(0.02)

        for chunk in _chunks(points):
            sink.write((), chunk)
            if not is_down_to(AHEAD):
                return False
        return is_down_to(0)


def _chunks(points: Iterator[Point]) -> Iterator[list[Point]]:
    while chunk := list(islice(points, CHUNK)):
        yield chunk


def _said(run_id: str, sink: InfluxSink, counts: dict[str, Any], state: _State, *, is_whole: bool) -> int:
    print(f"{run_id}: {counts['written']:,} points written to {sink.describe()}")
    if not is_whole:
        why = f"InfluxDB took no points for {GIVE_UP_S:g} s ({counts['error']})"
        print(f"llmload push: broken off, {why}: push again to go on from here", file=sys.stderr)
        return EXIT_INVALID
    if counts["dropped"]:
        print(f"llmload push: {counts['dropped']:,} points are not written: {counts['error']}", file=sys.stderr)
        return EXIT_INVALID
    state.clear()
    return EXIT_OK


def _about(path: Path) -> int:
    """How many points there will be, without those of seconds: lines of the record."""
    return sum(_lines(path / name) for name in (COMPLETIONS_FILE, SERIES_FILE))


def _lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in _blocks(file))
    except OSError:
        return 0


def _blocks(file: Any) -> Iterable[bytes]:
    while block := file.read(1 << 20):
        yield block


class _State:
    """How far a push to a target came: points in the order of `recorded_points`, all of them written."""

    def __init__(self, path: Path, target: InfluxTarget) -> None:
        self._path = path / STATE_FILE
        self._target = target.shown
        self._saved_at = 0.0
        self._done = 0

    def read(self) -> int:
        try:
            state = json.loads(self._path.read_text(encoding="ascii"))
            return int(state["points"]) if state["to"] == self._target else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def note(self, skipped: int, counts: dict[str, Any]) -> int:
        """Note what is written so far, unless something before it is not; return it."""
        if not counts["dropped"]:
            self._done = counts["written"]
        if time.monotonic() - self._saved_at >= SAVE_S or not counts["queued"]:
            self._saved_at = time.monotonic()
            try:
                self._path.write_text(
                    json.dumps({"to": self._target, "points": skipped + self._done}), encoding="ascii"
                )
            except OSError:  # a record that is read only can be pushed, but not resumed
                return self._done
        return self._done

    def clear(self) -> None:
        """All is written."""
        self._path.unlink(missing_ok=True)

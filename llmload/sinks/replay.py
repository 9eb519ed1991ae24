"""The points of a run, from its record: the same that its sinks got while it went on, and its processes over time.

Files only; no network, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from llmload.metrics.intervals import Intervals, ended_second
from llmload.metrics.processes import Processes
from llmload.metrics.tally import Tallies
from llmload.sinks.points import WORKER, Point, interval_point, request_point
from llmload.sinks.record import read_run, read_series

CHUNK = 500
"""Completions that are taken together."""
BEHIND_S = 30
"""Seconds are given out so long after their time: what comes later makes them come again."""


def recorded_points(path: Path | str) -> Iterator[Point]:
    """Yield every point of a run, finished or broken off, in about the order of time.

    A second may come more than once; the last one holds. Memory is bounded, however long the run was.

    Raises:
        RecordError: there is no such run, or what is in it is not ours.
    """
    info, completions, _ = read_run(path)
    run_id = str(info["id"])
    intervals, series = Intervals(float(info["started_at"])), _Looks(path)
    while chunk := list(islice(completions, CHUNK)):
        rows = [one.to_dict() for one in chunk]
        newest = max(map(ended_second, rows))
        yield from series.upto(newest, intervals)
        intervals.take(Tallies(chunk), rows)
        yield from (request_point(row, run_id) for row in rows)
        yield from _seconds(intervals, run_id, newest - BEHIND_S)
    yield from series.upto(float("inf"), intervals)
    yield from _seconds(intervals, run_id, float("inf"))


def read_processes(path: Path | str) -> Processes:
    """Return what was seen of a run's processes; its `problems` say what is missing."""
    processes = Processes()
    for point in read_series(path, problems=processes.problems):
        if point.measurement == WORKER:
            processes.take(str(point.tags.get("worker")), point.time_ns, point.fields)
    return processes


def _seconds(intervals: Intervals, run_id: str, before: float) -> Iterator[Point]:
    for second, key, fields in intervals.ready(before=before):
        yield interval_point(run_id, second, key, fields)


class _Looks:
    """The points of series.jsonl, read as far as the completions have come."""

    def __init__(self, path: Path | str) -> None:
        self._points = read_series(path)
        self._next: Point | None = next(self._points, None)

    def upto(self, second: float, intervals: Intervals) -> Iterator[Point]:
        """Yield the points until a second, and show looks at workers to the intervals."""
        while self._next is not None and self._next.time_ns < second * 1e9:
            point, self._next = self._next, next(self._points, None)
            if point.measurement == WORKER and "users" in point.fields:
                intervals.take_look(point.tags["worker"], point.time_ns / 1e9, point.fields)
            yield point

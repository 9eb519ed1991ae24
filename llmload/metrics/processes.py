"""The processes that carry a run, over time: users, requests in flight, CPU, loop lag and memory of each.

No I/O, no clock. Looks are kept in slots that begin as seconds; when they become too many two neighbours become one, so
memory is bounded however long a run and however many its processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmload.metrics.grid import MAX_SLOTS
from llmload.metrics.intervals import GONE_S

LAST = ("users", "in_flight")
"""Columns of which a slot keeps the last value; of the others it keeps the highest."""
COLUMNS = (*LAST, "cpu_percent", "lag_max_s", "rss_bytes")
MAX_LOOKS = 100_000
"""Slots of all processes together, about 30 MB."""
_ABSURD = 1e15

Row = list[float | None]
"""The values of a slot, by `COLUMNS`."""


class Process:
    """What was seen of one process. Maxima and the mean are of all looks, exact."""

    __slots__ = ("_cpu", "highest", "looks", "slots")

    def __init__(self) -> None:
        self.looks = 0
        self.highest: dict[str, float] = {}
        """By column; one that was never seen is not there."""
        self.slots: dict[int, Row] = {}
        """By the first unix second of the slot."""
        self._cpu = (0, 0.0)

    @property
    def cpu_mean(self) -> float | None:
        """Mean CPU of the looks, percent of one core; None where it was never seen."""
        n, total = self._cpu
        return total / n if n else None

    def take(self, slot: int, row: Row) -> None:
        """Take one look."""
        self.looks += 1
        self._add(slot, row)
        for column, value in zip(COLUMNS, row, strict=True):
            if value is not None:
                self.highest[column] = max(value, self.highest.get(column, value))
                if column == "cpu_percent":
                    self._cpu = (self._cpu[0] + 1, self._cpu[1] + value)

    def widen(self, width: int) -> None:
        """Make the slots this many seconds wide, a multiple of what they are."""
        old, self.slots = self.slots, {}
        for second in sorted(old):
            self._add(second - second % width, old[second])

    def _add(self, slot: int, row: Row) -> None:
        known = self.slots.get(slot)
        self.slots[slot] = row if known is None else _merged(known, row)


class Processes:
    """Takes looks one by one, in about the order of time.

    Example: looks at `w1` with 2 users at 11.0 s and with 4 at 12.0 s, and at `w2` with 3 users at 11.1 s:
    `load("users")` gives (10, 5) and (11, 7), because what is not older than a few seconds still counts.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Process] = {}
        self.problems: list[str] = []
        """What is wrong with the file that the looks are from, one sentence each."""
        self.width = 1
        """Seconds of a slot."""
        self._kept: set[int] = set()

    def take(self, name: str, time_ns: int, fields: Mapping[str, Any]) -> None:
        """Take a look at a process; fields that are no sensible number count as missing, others are not used.

        A look tells of the second that ends with it, so it belongs to the slot in which most of that second lies.
        """
        row = [_number(fields.get(column)) for column in COLUMNS]
        if all(value is None for value in row):
            return
        second = (time_ns - 10**9 // 2) // 10**9
        slot = second - second % self.width
        self.by_name.setdefault(name, Process()).take(slot, row)
        self._kept.add(slot)
        if len(self._kept) > min(MAX_SLOTS, max(1, MAX_LOOKS // len(self.by_name))):
            self._widen()

    def _widen(self) -> None:
        self.width *= 2
        for process in self.by_name.values():
            process.widen(self.width)
        self._kept = {slot for process in self.by_name.values() for slot in process.slots}

    def seconds(self) -> list[int]:
        """Return the first seconds of all slots with a look, in order."""
        return sorted(self._kept)

    def load(self, column: str) -> Iterator[tuple[int, float]]:
        """Yield (first second, sum over the processes) of a column of `LAST`, of each slot with a look.

        A process without a look in a slot counts with its last one for a few seconds: looks are a second apart, not to
        the millisecond, and one that is gone has no users any more.
        """
        at, last = COLUMNS.index(column), dict[str, tuple[int, float]]()
        for second in self.seconds():
            for name, process in self.by_name.items():
                value = process.slots.get(second, [None] * len(COLUMNS))[at]
                if value is not None:
                    last[name] = (second, value)
            current = [value for seen, value in last.values() if second - seen < max(GONE_S, self.width)]
            if current:
                yield second, sum(current)

    def line(self, name: str, column: str) -> Iterator[tuple[int, float | None]]:
        """Yield (first second, value) of the slots of a process; None in between where it was not looked at for longer
        than a few seconds."""
        at, before = COLUMNS.index(column), None
        for second, row in sorted(self.by_name[name].slots.items()):
            if row[at] is None:
                continue
            if before is not None and second - before > max(GONE_S, self.width):
                yield before + self.width, None
            yield second, row[at]
            before = second


def _merged(before: Row, after: Row) -> Row:
    merged: Row = []
    for column, one, other in zip(COLUMNS, before, after, strict=True):
        if one is None or other is None:
            merged.append(one if other is None else other)
        else:
            merged.append(other if column in LAST else max(one, other))
    return merged


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _ABSURD:
        return None
    return value

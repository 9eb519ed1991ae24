"""Lines that wait for InfluxDB, and what became of each: given = written + dropped + queued at every moment.

No network, no clock. Taken from by one thread, asked and given to by others.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import Any

MAX_REASONS = 3
"""Reasons of dropped points that are told apart; the rest are `other reasons`."""

log = logging.getLogger("llmload")


class LineQueue:
    """Bounded in bytes; lines that a writer has in hand count until it says what became of them.

    Args:
        most_bytes: what comes beyond it is dropped and counted.
    """

    def __init__(self, *, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lines: deque[bytes] = deque()
        self._again: deque[list[bytes]] = deque()
        self._is_turn_of_again = False
        self._bytes = 0
        self._in_hand = 0
        self._written = self._retried = 0
        self._dropped: dict[str, int] = {}
        self._trouble: str | None = None
        self._is_closed = False
        self._lock = Lock()

    def __len__(self) -> int:
        """Lines that can be taken."""
        return len(self._lines) + sum(map(len, self._again))

    def put(self, line: bytes | None) -> None:
        """Give a line; None stands for a point that makes none."""
        with self._lock:
            if line is None:
                self._drop(1, "a point has no field")
            elif self._is_closed:
                self._drop(1, "the run has ended")
            elif self._bytes + len(line) > self._most_bytes:
                self._drop(1, "the queue is full")
            else:
                self._lines.append(line)
                self._bytes += len(line)

    def take(self, most_lines: int, most_bytes: int, *, new_first: bool = False) -> list[bytes]:
        """Take the oldest lines into hand: at least one where there is one.

        What was put back comes alone, as it was, and in turns with what is new; with `new_first` after all of that.
        """
        with self._lock:
            if self._again and not (self._lines and (new_first or not self._is_turn_of_again)):
                self._is_turn_of_again = False
                lines = self._again.popleft()
            else:
                self._is_turn_of_again = True
                lines = self._take_new(most_lines, most_bytes)
            self._in_hand += len(lines)
        return lines

    def _take_new(self, most_lines: int, most_bytes: int) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        while self._lines and len(lines) < most_lines and size < most_bytes:
            lines.append(self._lines.popleft())
            size += len(lines[-1])
        return lines

    def note_written(self, lines: Sequence[bytes]) -> None:
        """Lines in hand are stored."""
        with self._lock:
            if self._let_go(lines):
                self._written += len(lines)

    def note_dropped(self, lines: Sequence[bytes], why: str) -> None:
        """Lines in hand are given up."""
        with self._lock:
            if self._let_go(lines):
                self._drop(len(lines), why)

    def note_trouble(self, text: str) -> None:
        """A write of lines in hand failed."""
        with self._lock:
            if not self._is_closed:
                self._trouble = text

    def note_retried(self, lines: Sequence[bytes]) -> None:
        """Lines in hand get another try."""
        with self._lock:
            if not self._is_closed:
                self._retried += len(lines)

    def put_back(self, lines: list[bytes]) -> None:
        """Lines in hand go to the end of the queue, where their room was kept for them."""
        with self._lock:
            if self._let_go(lines):
                self._again.append(lines)
                self._bytes += sum(map(len, lines))

    def close(self, why: str) -> None:
        """Drop what is queued and in hand; whatever is still said of it counts no more, and nothing more is taken."""
        with self._lock:
            if left := len(self) + self._in_hand:
                self._drop(left, why)
            self._lines.clear()
            self._again.clear()
            self._in_hand = self._bytes = 0
            self._is_closed = True

    def counts(self) -> dict[str, Any]:
        """See `Sink.counts`; all are points."""
        with self._lock:
            return {
                "written": self._written,
                "retried": self._retried,
                "dropped": sum(self._dropped.values()),
                "queued": len(self) + self._in_hand,
                "error": self._error(),
            }

    def _let_go(self, lines: Sequence[bytes]) -> bool:
        if self._is_closed:
            return False
        self._in_hand -= len(lines)
        self._bytes -= sum(map(len, lines))
        return True

    def _drop(self, points: int, why: str) -> None:
        if not self._dropped:
            log.error("InfluxDB: points are not written: %s (llmload push sends them from the record)", why)
        if why not in self._dropped and len(self._dropped) >= MAX_REASONS:
            why = "other reasons"
        self._dropped[why] = self._dropped.get(why, 0) + points

    def _error(self) -> str | None:
        """Why points were dropped, and what trouble stands behind it; where none were, the last trouble."""
        reasons = sorted(self._dropped.items(), key=lambda reason: -reason[1])
        said = [f"{why} ({points:,})" if len(reasons) > 1 else why for why, points in reasons]
        if self._trouble is not None and self._trouble not in self._dropped:
            said.append(f"last trouble: {self._trouble}" if said else self._trouble)
        return "; ".join(said) or None

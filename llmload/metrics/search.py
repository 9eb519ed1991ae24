"""The search for the highest level that holds: doubling, then bisection, then a second look at both edges.

No I/O, no clock: levels out, verdicts in. A verdict can be wrong, because a measurement is noisy: a level that was seen
more than once counts by its majority, a draw is measured again, and a level that held above one that did not sends the
search back to where the two contradict each other.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

End = Literal["bracketed", "limit", "none", "measurements", "time", "stopped"]

ENDS: dict[End, str] = {
    "bracketed": "the bracket is narrow enough",
    "limit": "the highest level that may be tried held",
    "none": "not even the lowest level held",
    "measurements": "so many measurements that the verdicts do not settle",
    "time": "the time was up",
    "stopped": "the run was stopped",
}


class Search:
    """Finds the highest level from 1 to a limit that holds, on the assumption that what holds, holds below as well.

    Args:
        limit: the highest level to try.
        width: the bracket is narrow when its ends are so far apart, as a share of the lower one, or by 1.
        confirm: how often both ends of the bracket must have been measured.
        tries: how often a level is measured at most to settle a contradiction.
        most: after so many measurements the search gives up.

    Example of a capacity of 5: 1, 2, 4, 8 (does not hold), 6 (does not), 5, then 5 and 6 once more.
    """

    def __init__(self, *, limit: int, width: float = 0.1, confirm: int = 2, tries: int = 5, most: int = 40) -> None:
        self._limit = limit
        self._width = width
        self._confirm = confirm
        self._tries = tries
        self._most = most
        self._held: Counter[int] = Counter()
        self._seen: Counter[int] = Counter()
        self.ended: End | None = None

    @property
    def high(self) -> int | None:
        """The lowest level that does not hold, None where each one did."""
        return min((level for level in self._seen if self._verdict(level) is False), default=None)

    @property
    def low(self) -> int | None:
        """The highest level below `high` that holds, None where none does."""
        high = self.high
        held = (level for level in self._seen if self._verdict(level) and (high is None or level < high))
        return max(held, default=None)

    def tell(self, level: int, held: bool) -> None:
        """Take the verdict on one measurement."""
        self._seen[level] += 1
        self._held[level] += held

    def votes(self, level: int) -> tuple[int, int]:
        """Return how often a level held, and how often it was measured."""
        return self._held[level], self._seen[level]

    def next(self) -> int | None:
        """Return the level to measure next; None when the search has ended, and then `ended` says why."""
        if self.ended is None and self._seen.total() >= self._most:
            self.ended = "measurements"
        return None if self.ended else self._unsettled() or self._further() or self._unconfirmed()

    def _verdict(self, level: int) -> bool | None:
        """What the majority says, None of a draw."""
        twice = 2 * self._held[level] - self._seen[level]
        return None if twice == 0 else twice > 0

    def _unsettled(self) -> int | None:
        """A level whose verdict is a draw, or the less measured of two that contradict each other."""
        draws = [level for level in self._seen if self._verdict(level) is None and self._seen[level] < self._tries]
        if draws:
            return min(draws)
        high = self.high
        above = [level for level in self._seen if high is not None and level > high and self._verdict(level)]
        if high is None or not above:
            return None
        doubtful = min((high, *above), key=lambda level: (self._seen[level], level))
        return doubtful if self._seen[doubtful] < self._tries else None

    def _further(self) -> int | None:
        low, high = self.low or 0, self.high
        if high is None:
            return min(max(1, low * 2), self._limit) if low < self._limit else None
        if high - low <= max(1, math.floor(low * self._width)):
            return None
        middle = round(math.sqrt(low * high)) if low else high // 2
        return min(max(middle, low + 1), high - 1)

    def _unconfirmed(self) -> int | None:
        low, high = self.low, self.high
        for level in (low, high):
            if level is not None and self._seen[level] < self._confirm:
                return level
        self.ended = "limit" if high is None else "none" if low is None else "bracketed"
        return None

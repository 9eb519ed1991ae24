"""Throughput over time: tokens and ended requests per second of wall-clock time.

No I/O, no clock: seconds come from the completions. Memory is bounded: after 24 hours two neighbours become
one bucket of two seconds, and so on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from llmload.records import Completion

MAX_BUCKETS = 86_400
_US = 1_000_000

COLUMNS = ("requests", "output_tokens", "served_tokens", "input_tokens", "good")
"""Of ok completions: ended, output tokens by arrival, (of every outcome: the same), input tokens by end, good ones."""


class Seconds:
    """Sums of `COLUMNS` per bucket of `width` unix seconds; a bucket's key is its first second."""

    __slots__ = ("buckets", "max_buckets", "width")

    def __init__(self, *, max_buckets: int = MAX_BUCKETS) -> None:
        self.buckets: dict[int, list[int]] = {}
        self.width = 1
        self.max_buckets = max_buckets

    def add(self, completion: Completion) -> None:
        """Count a completion's end and, in the seconds of their arrival, its tokens."""
        ok = completion.outcome == "ok"
        for second, tokens in arrivals(completion):
            self._add(second, (0, tokens if ok else 0, tokens, 0, 0))
        if ok:
            self._add(
                ended_unix_ns(completion) // 10**9, (1, 0, 0, completion.input_tokens or 0, int(bool(completion.good)))
            )

    def _add(self, second: int, values: tuple[int, ...] | list[int]) -> None:
        key = second - second % self.width
        bucket = self.buckets.get(key)
        if bucket is None:
            self.buckets[key] = list(values)
            if len(self.buckets) > self.max_buckets:
                self._widen(self.width * 2)
        else:
            for column, value in enumerate(values):
                bucket[column] += value

    def _widen(self, width: int) -> None:
        old, self.buckets, self.width = self.buckets, {}, width
        for second, values in old.items():
            self._add(second, values)

    def shift(self, seconds: int) -> None:
        """Move every bucket in time."""
        old, self.buckets = self.buckets, {}
        for second, values in old.items():
            self._add(second + seconds, values)

    def merge(self, other: Seconds) -> None:
        """Add another's buckets; the wider width wins."""
        if other.width > self.width:
            self._widen(other.width)
        for second, values in other.buckets.items():
            self._add(second, values)

    def between(self, from_s: float, to_s: float) -> tuple[dict[str, int], int, int] | None:
        """Return sums by column over the whole buckets inside [from_s, to_s), their first second and their
        end.

        None when not one whole bucket lies inside.
        """
        first = -int(-from_s // self.width) * self.width
        end = int(to_s // self.width) * self.width
        if end <= first:
            return None
        inside = [values for second, values in self.buckets.items() if first <= second < end]
        sums = [sum(column) for column in zip(*inside, strict=True)] or [0] * len(COLUMNS)
        return dict(zip(COLUMNS, sums, strict=True)), first, end

    def best(self, column: str, *, from_s: float | None = None) -> float | None:
        """Return the highest rate of any bucket that begins at `from_s` or later, per second; None when there is
        none."""
        at = COLUMNS.index(column)
        late = (values[at] for second, values in self.buckets.items() if from_s is None or second >= from_s)
        return max(late, default=0) / self.width or None

    def to_wire(self) -> dict[str, Any]:
        return {"width": self.width, "buckets": {str(second): v for second, v in self.buckets.items()}}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Seconds:
        seconds = cls()
        seconds.width = wire["width"]
        seconds.buckets = {int(second): list(values) for second, values in wire["buckets"].items()}
        return seconds


def ended_unix_ns(completion: Completion) -> int:
    """Wall-clock time of the end: of the response, else of the last token, else of the start."""
    return end_ns(completion.started_unix_ns, completion.closed_s, completion.e2e_s)


def end_ns(started_unix_ns: int, closed_s: float | None, e2e_s: float | None) -> int:
    """The same from the three values that it takes."""
    last_s = closed_s if closed_s is not None else e2e_s
    return started_unix_ns + round((last_s or 0) * 1e9)


def arrivals(completion: Completion) -> Iterator[tuple[int, int]]:
    """Yield (unix second, output tokens that arrived in it); the tokens add up to `output_tokens`.

    A read is given tokens in proportion to its token events, in whole tokens: cumulative events * n //
    events. An answer without a timeline arrives as a whole at its last token, else at its end.
    """
    tokens = completion.output_tokens
    if not tokens:
        return
    if completion.ttft_s is None:
        last_s = completion.e2e_s
        at_ns = completion.started_unix_ns + round(last_s * 1e9) if last_s is not None else ended_unix_ns(completion)
        yield at_ns // 10**9, tokens
        return
    first_us = completion.started_unix_ns // 1000 + round(completion.ttft_s * _US)
    reads_us = list(accumulate(completion.gaps_us, initial=first_us))
    shares = completion.events_per_read or [1] * len(reads_us)
    events = list(accumulate(shares, initial=0))
    done = reads = 0
    while reads < len(reads_us):
        second = reads_us[reads] // _US
        reads = bisect_left(reads_us, (second + 1) * _US, reads)
        arrived = events[reads] * tokens // events[-1]
        if arrived > done:
            yield second, arrived - done
        done = arrived

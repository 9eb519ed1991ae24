"""Compares what a client measured with what the server did. No I/O, no clock.

Both stamp with the machine's one monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from llmload.records import Completion


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as a client saw it, nanoseconds.

    `origin_ns` is the monotonic time that `ttft_ns` counts from; None where the client keeps durations only.
    `written_ns` is how long after it the whole request had been handed to the kernel; None where that is not known.
    `gaps_ns` lie between reads that carried tokens; `events_per_read` None means one token event each.
    """

    id: str
    ttft_ns: int
    gaps_ns: Sequence[int]
    origin_ns: int | None = None
    events_per_read: Sequence[int] | None = None
    written_ns: int | None = None

    @classmethod
    def of(cls, completion: Completion, *, clock_offset_ns: int | None = None) -> Answer:
        """Return what the record of an ok, streamed completion says.

        Args:
            completion: the record.
            clock_offset_ns: what its process adds to monotonic time to get unix time; None: no origin.

        Raises:
            ValueError: it has no TTFT.
        """
        if completion.outcome != "ok" or completion.ttft_s is None:
            raise ValueError(f"{completion.id} {completion.outcome}: {completion.kind} {completion.message}")
        return cls(
            completion.id,
            round(completion.ttft_s * 1e9),
            [gap_us * 1000 for gap_us in completion.gaps_us],
            origin_ns=None if clock_offset_ns is None else completion.started_unix_ns - clock_offset_ns,
            events_per_read=completion.events_per_read,
            written_ns=None if completion.written_s is None else round(completion.written_s * 1e9),
        )


@dataclass(frozen=True, slots=True)
class Errors:
    """Client minus server for one answer, nanoseconds. `start_ns` + `arrival_ns` = `ttft_ns`.

    `ttft_ns`: TTFT at the client − (first token − arrival of the request) at the server.
    `start_ns`: arrival of the request at the server's application − what the client calls its start. Holds the way
    to the server, and whatever the client did after that stamp and before the bytes left.
    `arrival_ns`: stamp of the first token at the client − at the server, right before the write.
    Both are None where the first token shared a read with a later one: what the client then has is a bound.
    `itl_ns`: one for each gap; a gap between two reads is held against the gap between their last tokens.
    """

    ttft_ns: int | None
    start_ns: int | None
    arrival_ns: int | None
    itl_ns: list[int]


def errors(answer: Answer, record: Mapping[str, Any], *, from_ns: int, to_ns: int) -> Errors:
    """Compare one answer with the server's record of the same request; of its gaps those inside a window.

    Raises:
        ValueError: the client did not see as many token events as the server sent.
    """
    sent_ns: list[int] = record["token_ns"]
    seen = list(accumulate(answer.events_per_read or [1] * (len(answer.gaps_ns) + 1)))
    if seen[-1] != len(sent_ns):
        raise ValueError(f"{answer.id}: {seen[-1]} token events seen, {len(sent_ns)} sent")
    true = [(sent_ns[before - 1], sent_ns[after - 1]) for before, after in pairwise(seen)]
    origin_ns, exact = answer.origin_ns, seen[0] == 1
    return Errors(
        ttft_ns=answer.ttft_ns - (sent_ns[0] - record["arrived_ns"]) if exact else None,
        start_ns=None if origin_ns is None else record["arrived_ns"] - origin_ns,
        arrival_ns=None if origin_ns is None or not exact else origin_ns + answer.ttft_ns - sent_ns[0],
        itl_ns=[
            gap_ns - (after_ns - before_ns)
            for gap_ns, (before_ns, after_ns) in zip(answer.gaps_ns, true, strict=True)
            if from_ns <= before_ns and after_ns < to_ns
        ],
    )


def client_ttft_ns(answer: Answer, error: Errors) -> int | None:
    """Return the part of the TTFT error that can be the client's: `arrival_ns` + min(`start_ns`, `written_ns`).

    The first byte went to the kernel between the client's stamp of the start and the moment at which the whole request
    was there. What passes from then on until the server's application notices is the server's time, not an error.
    Without those stamps it is the whole error, and None where that is.

    Example: stamp 0, written at 50 us, noticed by a busy server at 8,000 us, first token 20 us late: 70 us of 8,020.
    """
    if error.start_ns is None or error.arrival_ns is None or answer.written_ns is None:
        return error.ttft_ns
    return error.arrival_ns + min(error.start_ns, answer.written_ns)


def tokens_between(records: Sequence[Mapping[str, Any]], from_ns: int, to_ns: int) -> int:
    """Return how many tokens the server sent from `from_ns` on and before `to_ns`."""
    return sum(from_ns <= at_ns < to_ns for record in records for at_ns in record["token_ns"])


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile: of [1, 2, 3, 4] the 50th is 2."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]

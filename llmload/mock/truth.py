"""What the server really did: one record a request, and counters.

No network, no clock: stamps are handed in. All stamps are CLOCK_MONOTONIC nanoseconds (`time.monotonic_ns`),
which all processes of one machine share, so a client on the same machine can subtract them from its own.
A token's stamp is taken right before its bytes are handed to the transport.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import IO

KEPT_REQUESTS = 100_000


@dataclass(slots=True, kw_only=True)
class Record:
    """The truth about one request.

    `outcome` is `ok` (answered in full), `refused:STATUS` (a bad request), `fault:NAME` (a fault ended it),
    `disconnected` (the client left) or `cut` (the server was stopped).
    `token_ns` is empty for an answer that was not streamed, where `tokens` still counts what was generated.
    """

    id: str
    request_id: str | None
    arrived_ns: int
    slot_ns: int | None = None
    token_ns: array[int] = field(default_factory=lambda: array("q"))
    ended_ns: int | None = None
    tokens: int = 0
    outcome: str = ""
    faults: list[str] = field(default_factory=list)

    def line(self) -> bytes:
        """The record as one line of JSON; None is a stage that was not reached."""
        row = {
            "id": self.id,
            "request_id": self.request_id,
            "arrived_ns": self.arrived_ns,
            "slot_ns": self.slot_ns,
            "first_token_ns": self.token_ns[0] if self.token_ns else None,
            "token_ns": self.token_ns.tolist(),
            "ended_ns": self.ended_ns,
            "tokens": self.tokens,
            "outcome": self.outcome,
            "faults": self.faults,
        }
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"


class Ledger:
    """All records of a server, the newest `kept` in memory and all of them in `file`.

    `started == finished + in_flight` holds at every moment, and every request ends in exactly one record.
    """

    def __init__(self, file: IO[bytes] | None = None, *, kept: int = KEPT_REQUESTS) -> None:
        self.records: deque[Record] = deque(maxlen=kept)
        self.outcomes: Counter[str] = Counter()
        self.started = 0
        self.finished = 0
        self.peak_in_flight = 0
        self.tokens_sent = 0
        self._file = file

    @property
    def in_flight(self) -> int:
        """Requests that have arrived and not ended, queued ones included."""
        return self.started - self.finished

    def begin(self) -> int:
        """Count an arrival and return its number, from 0."""
        self.started += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        return self.started - 1

    def end(self, record: Record, outcome: str, now_ns: int) -> None:
        """Close a record; only the first call for a record counts."""
        if record.ended_ns is not None:
            return
        record.outcome, record.ended_ns = outcome, now_ns
        self.finished += 1
        self.outcomes[outcome] += 1
        self.records.append(record)
        if self._file is not None:
            self._file.write(record.line())

    def flush(self) -> None:
        """Bring what was written so far to the file."""
        if self._file is not None:
            self._file.flush()

"""The ledger: every request that was started ends exactly once.

No I/O, no clock. `started == ok + failed + cancelled + in_flight` holds at every moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from llmload.records import Outcome


@dataclass(slots=True)
class Ledger:
    """Counts of requests by what became of them; mergeable.

    >>> ledger = Ledger()
    >>> ledger.start(); ledger.start(); ledger.end("ok")
    >>> ledger.in_flight
    1
    """

    started: int = 0
    ok: int = 0
    failed: int = 0
    cancelled: int = 0

    def start(self) -> None:
        self.started += 1

    def end(self, outcome: Outcome) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)

    @property
    def ended(self) -> int:
        return self.ok + self.failed + self.cancelled

    @property
    def in_flight(self) -> int:
        """Started and not ended. After a run: requests whose end nobody saw, e.g. those of a lost worker."""
        return self.started - self.ended

    def merge(self, other: Ledger) -> None:
        self.started += other.started
        self.ok += other.ok
        self.failed += other.failed
        self.cancelled += other.cancelled

    def to_wire(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_wire(cls, wire: Mapping[str, int]) -> Ledger:
        return cls(wire["started"], wire["ok"], wire["failed"], wire["cancelled"])

"""One process that carries load, as the process knows it that collects the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llmload.metrics.ledger import Ledger


@dataclass(slots=True)
class Member:
    """One process that carries load, as its reports show it."""

    ledger: Ledger = field(default_factory=Ledger)
    reports: int = 0
    final: bool = False
    lost: str | None = None
    """Why it is gone although it should not be."""
    left_at: float | None = None
    cpu_percent_max: float | None = None
    rss_bytes_max: int = 0
    served: int = 0
    repeats: int = 0
    arrivals: dict[str, Any] | None = None
    """What its open loop last reported; None in a closed one."""
    clock_offset_s: float | None = None
    """Its clock minus the master's."""
    shift_s: int | None = None
    """Whole seconds by which its completions are moved onto the master's clock; fixed at its first report."""

    def shown(self) -> dict[str, Any]:
        return {
            "ledger": {**self.ledger.to_wire(), "in_flight": self.ledger.in_flight},
            "lost": self.lost,
            "cpu_percent_max": self.cpu_percent_max,
            "rss_bytes_max": self.rss_bytes_max,
            "arrivals": self.arrivals,
            "clock_offset_s": self.clock_offset_s,
            "shift_s": self.shift_s,
        }

"""How one mock server behaves: a value, checked before the server starts.

No I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llmload.errors import SetupError
from llmload.mock.distribution import Distribution
from llmload.mock.faults import Fault
from llmload.mock.schedule import NS_PER_MS

TEXTS = ("ascii", "unicode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the options say. Times in milliseconds as people write them, `slots` 0 means no limit."""

    ttft_ms: Distribution
    itl_ms: Distribution
    tokens: Distribution
    seed: int
    models: tuple[str, ...] = ("mock",)
    slots: int = 0
    lockstep: bool = False
    reasoning: int = 0
    text: str = "ascii"
    faults: tuple[Fault, ...] = ()
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse combinations that have no meaning."""
        if self.lockstep and not self.itl_ms.constant:
            raise SetupError(
                "--lockstep: the grid needs one step, and --itl-ms is 0 or a distribution",
                "give --itl-ms one number above 0 or leave --lockstep out",
            )

    @property
    def grid_ns(self) -> int:
        """The step of the common grid of all streams; 0 means that each stream has its own times."""
        return round((self.itl_ms.constant or 0) * NS_PER_MS) if self.lockstep else 0

    def line(self) -> str:
        """The behaviour in one line, without the key."""
        slots = self.slots or "unlimited"
        return (
            f"model={','.join(self.models)} ttft_ms={self.ttft_ms.text} itl_ms={self.itl_ms.text} "
            f"tokens={self.tokens.text} slots={slots} seed={self.seed}"
        )

"""The settings that say how the load of a run changes: warm-up, stages, sweeps, the search for the capacity.

No I/O. What a text means is said in `pacing`; that options contradict each other is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from llmload.config import duration_s
from llmload.errors import SetupError


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How the load changes; None where it does not. Built by `read_load`."""

    warmup_s: float | None = None
    """Requests that start so early are not measured."""

    def shown(self) -> dict[str, Any]:
        """Return the settings as they are written to a record."""
        return asdict(self)


def read_load(options: Mapping[str, Any]) -> LoadSettings:
    """Return the checked settings.

    Args:
        options: option values by name, as text or as a parser left them.

    Raises:
        SetupError: an option makes no sense, or contradicts another.
    """
    settings = LoadSettings(warmup_s=duration_s(options, "warmup"))
    run_time_s = options.get("run_time")
    if settings.warmup_s and isinstance(run_time_s, int) and 0 < run_time_s <= settings.warmup_s:
        raise SetupError(
            f"--warmup {options['warmup']} is as long as the run (-t {run_time_s}s)", "nothing would be measured"
        )
    return settings

"""The time in which a process is measured, and what it got of the machine meanwhile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

SCHEDSTAT = Path("/proc/self/schedstat")
"""Linux: nanoseconds of the main thread on a core, then nanoseconds in which it could run and had none."""


class Window:
    """Begins when it is made."""

    def __init__(self) -> None:
        self._from_ns = time.monotonic_ns()
        self._waited_ns = waited_ns()
        self._cpu_ns = time.process_time_ns()

    def end(self) -> dict[str, Any]:
        """Return begin and end, monotonic nanoseconds; CPU seconds of the process; seconds in which other processes
        had the core that it was waiting for, None where the system does not say."""
        cpu_ns = time.process_time_ns() - self._cpu_ns
        waited = waited_ns()
        return {
            "window_ns": [self._from_ns, time.monotonic_ns()],
            "cpu_s": cpu_ns / 1e9,
            "waited_s": None if waited is None or self._waited_ns is None else (waited - self._waited_ns) / 1e9,
        }


def waited_ns() -> int | None:
    """Return for how long this process could have run and had no core."""
    try:
        return int(SCHEDSTAT.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None

"""The time in which a process is measured, and what it got of the machine meanwhile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

SCHEDSTAT = "/proc/{}/schedstat"
"""Linux: nanoseconds of the main thread on a core, then nanoseconds in which it could run and had none."""


class Window:
    """Begins when it is made.

    Args:
        server_pid: another process whose waiting is of interest; None: none is.
    """

    def __init__(self, *, server_pid: int | None = None) -> None:
        self._server_pid = server_pid
        self._server_waited_ns = None if server_pid is None else waited_ns(server_pid)
        self._from_ns = time.monotonic_ns()
        self._waited_ns = waited_ns()
        self._cpu_ns = time.process_time_ns()

    def end(self) -> dict[str, Any]:
        """Return begin and end, monotonic nanoseconds; CPU seconds of the process; seconds in which it, and the
        server, waited for a core that others had, None where that is not known."""
        cpu_ns = time.process_time_ns() - self._cpu_ns
        waited = waited_ns()
        return {
            "window_ns": [self._from_ns, time.monotonic_ns()],
            "cpu_s": cpu_ns / 1e9,
            "waited_s": _between_s(self._waited_ns, waited),
            "server_waited_s": _between_s(
                self._server_waited_ns, None if self._server_pid is None else waited_ns(self._server_pid)
            ),
        }


def waited_ns(pid: int | str = "self") -> int | None:
    """Return for how long a process could have run and had no core; None where the system does not say."""
    try:
        return int(Path(SCHEDSTAT.format(pid)).read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _between_s(before_ns: int | None, after_ns: int | None) -> float | None:
    return None if before_ns is None or after_ns is None else (after_ns - before_ns) / 1e9

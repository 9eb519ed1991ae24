"""What can go wrong: set-up errors with a hint, and the closed set of failure kinds.

No I/O. A request that fails during a run is data with one of `FAILURE_KINDS`, never an exception.

    LlmloadError          base of everything this package raises on purpose
    ├── SetupError        bad input, found before any load is sent; exit code 2
    └── RecordError       a run directory that cannot be read or written; exit code 2
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_SETUP = 2
EXIT_MISSED = 3
"""An objective was missed."""
EXIT_INVALID = 4

FAILURE_KINDS: tuple[str, ...] = (
    "pool_timeout",
    "dns",
    "connect",
    "tls",
    "timeout_connect",
    "timeout_first_token",
    "timeout_idle",
    "timeout_total",
    "http_status",
    "provider_error",
    "bad_stream",
    "truncated",
    "empty",
    "content_filter",
    "protocol",
    "internal",
)
"""Every kind a failed completion can have, in the order in which a request meets them."""


class LlmloadError(Exception):
    """An error that a person can act on.

    Args:
        what: what is wrong and where, one sentence without a full stop.
        hint: what to do about it, one sentence without a full stop.
    """

    exit_code = EXIT_SETUP

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}: {self.hint}" if self.hint else self.what


class SetupError(LlmloadError):
    """Bad input, found before any load is sent."""


class RecordError(LlmloadError):
    """A run directory that cannot be read or written."""

"""What all clients of one process share: settings, target, protocol, deadlines, clock."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns

from llmload.config import Settings
from llmload.metrics.goodput import Goodput
from llmload.protocols import ChatProtocol
from llmload.redaction import Redactor
from llmload.target import Target
from llmload.wire.deadlines import Keeper

ANCHOR_LOOKS = 5
"""Of so many looks at both clocks the quickest counts: on a busy machine milliseconds may pass between two lines."""


class WallClock:
    """Wall-clock time that follows the monotonic clock: an anchor taken once, so that a stepped clock moves nothing."""

    def __init__(self) -> None:
        self._offset_ns = min(_look() for _ in range(ANCHOR_LOOKS))[1]

    def unix_ns(self, at_ns: int) -> int:
        """Return the Unix time in nanoseconds of a monotonic time."""
        return at_ns + self._offset_ns

    def monotonic_ns(self, unix_s: float) -> int:
        """Return the monotonic time of a Unix time in seconds."""
        return round(unix_s * 1e9) - self._offset_ns

    def now_s(self) -> float:
        """Return the Unix time in seconds."""
        return self.unix_ns(monotonic_ns()) / 1e9


def _look() -> tuple[int, int]:
    """Return how long it took to look at both clocks, and wall-clock time minus monotonic time."""
    before_ns = monotonic_ns()
    wall_ns = time.time_ns()
    took_ns = monotonic_ns() - before_ns
    return took_ns, wall_ns - before_ns - took_ns // 2


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all clients of a process share."""

    settings: Settings
    target: Target
    protocol: ChatProtocol
    redactor: Redactor
    keeper: Keeper
    clock: WallClock
    worker: str
    lag_since: Callable[[int], float | None]
    """Worst event-loop lag in seconds since a monotonic time."""
    goodput: Goodput | None = None
    """What a completion must meet to be good."""

    def headers(self, request_id: str) -> dict[str, str]:
        """Return the headers of one request. The id lets a request be found in the server's log."""
        headers = self.protocol.headers(self.settings.api_key)
        if self.target.auth is not None and self.settings.api_key is None:
            headers["Authorization"] = _basic(self.target.auth)
        given = {name.lower() for name in self.settings.headers}
        headers["X-Request-Id"] = request_id
        return {
            **{name: value for name, value in headers.items() if name.lower() not in given},
            **self.settings.headers,
        }


def _basic(auth: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(auth).encode()).decode()

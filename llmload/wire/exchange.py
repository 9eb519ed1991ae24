"""One request on the wire, as the client sees it: a head, then (bytes, arrival) pairs.

The client knows nothing else of a transport. Whatever carries the request fills the same `Stamps` and raises the
same `WireError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from llmload.timeline import Stamps


class WireError(Exception):
    """The transport failed.

    Args:
        kind: one of `errors.FAILURE_KINDS`.
        message: what happened, not yet redacted.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Exchange(Protocol):
    """One response that has begun. `close` must be called, in every case, exactly once."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Response headers; names are looked up in lower case."""

    @property
    def compressed(self) -> bool:
        """Whether the server compressed the body although it was asked not to."""

    @property
    def received_bytes(self) -> int:
        """Bytes of the body so far."""

    def chunks(self) -> Iterator[tuple[bytes, int]]:
        """Yield the body as (bytes of one read, monotonic arrival in ns), the stamp taken before any parsing.

        Ends when the body ends as HTTP says it should.

        Raises:
            WireError: the connection broke, or what came was not HTTP.
        """

    def close(self) -> None:
        """Give the connection back if the body was read to its end, else close it. Never blocks on the server."""


class Wire(Protocol):
    """Sends the requests of one user. `stamps` is filled while the request is under way."""

    stamps_source: str
    """`read` or `kernel`: where arrival times come from."""

    def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, stamps: Stamps
    ) -> Exchange:
        """Send a request and return once the response's head is there.

        Raises:
            WireError: no connection, no answer, or no HTTP.
        """

    def close(self) -> None:
        """Close the connections. Requests that are under way end with a `WireError`."""

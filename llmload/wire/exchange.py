"""One request on the wire, as the client sees it: a head, then (bytes, arrival) pairs.

The client knows nothing else of a transport. Whatever carries the request fills the same `Stamps` and raises the
same `WireError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from llmload import __version__
from llmload.stamps import Stamps

DEFAULT_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"llmload/{__version__}"}
"""What every request says unless it says otherwise itself. Compression would hide when a token came."""


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

    eager: bool
    """True at first: `batches` yields every read at once. Set to False, it may hold reads back and yield several
    together; whoever sets it calls `hand_over` when `oldest_ns` is too long ago, and before a deadline strikes."""

    @property
    def oldest_ns(self) -> int | None:
        """Arrival of the oldest bytes that are held back, or None."""

    def hand_over(self) -> None:
        """Let `batches` yield what has come. Called in the hub; returns when its reader waits again."""

    def batches(self) -> Iterator[Sequence[tuple[bytes, int]]]:
        """Yield the body as it comes, some reads at a time: each (its bytes, its monotonic arrival in ns), the stamp
        taken before any parsing.

        Ends when the body ends as HTTP says it should.

        Raises:
            WireError: the connection broke, or what came was not HTTP.
        """

    def close(self) -> None:
        """Give the connection back if the body was read to its end, else close it. Never blocks on the server."""


def chunks(exchange: Exchange) -> Iterator[tuple[bytes, int]]:
    """Yield the body of a response read by read; see `Exchange.batches`."""
    for pairs in exchange.batches():
        yield from pairs


class Wire(Protocol):
    """Sends the requests of one user. `stamps` is filled while the request is under way."""

    def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, stamps: Stamps
    ) -> Exchange:
        """Send a request and return once the response's head is there.

        Raises:
            WireError: no connection, no answer, or no HTTP.
        """

    def close(self) -> None:
        """Close the connections. Requests that are under way end with a `WireError`."""

"""The fast wire: (bytes, arrival) pairs straight from llhttp, arrivals from the kernel."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic_ns

import httpcore
import httpx

from llmload.stamps import Stamps
from llmload.wire.answer import Answer
from llmload.wire.connection import Connection, Pool
from llmload.wire.exchange import DEFAULT_HEADERS
from llmload.wire.failure import TRANSPORT_ERRORS, wire_error
from llmload.wire.request import request_bytes
from llmload.wire.tls import shared_context


class FastWire:
    """The connections of one user, HTTP/1.1 without a proxy.

    Args:
        ssl_context: says what is trusted; None takes the process's own.
        reuse: keep connections between requests; without it each request opens its own.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None, reuse: bool = True) -> None:
        self._reuse = reuse
        self._pool = Pool(ssl_context or shared_context())
        self._last: Connection | None = None
        """The connection of the last answer. A user goes on with it: asking the pool costs more than the request."""

    def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, stamps: Stamps
    ) -> FastExchange:
        """See `Wire.open`."""
        called_ns = monotonic_ns()
        try:
            target, host, origin = _parsed(url)
            lines = _headers(host, headers, body)
            kept = self._kept(origin)
            if kept is not None:
                data = request_bytes(method.encode("ascii"), target.target, lines, body or b"")
                try:
                    answer = kept.carry(data, stamps, called_ns=called_ns, head_only=method == "HEAD")
                    return FastExchange(answer, stamps, close=partial(kept.release, answer))
                except httpcore.ConnectionNotAvailable:
                    pass  # the server closed it meanwhile
            asked = {"stamps": stamps, "called_ns": called_ns}
            request = httpcore.Request(method, target, headers=lines, content=body, extensions=asked)
            response = self._pool.handle_request(request)
            connection: Connection = response.extensions["connection"]
            self._last = connection if self._reuse else None
        except TRANSPORT_ERRORS as error:
            raise wire_error(error, head=False) from error
        close = response.close if self._reuse else connection.close
        return FastExchange(response.extensions["answer"], stamps, close=close)

    def _kept(self, origin: httpcore.Origin) -> Connection | None:
        kept = self._last
        if kept is None or not kept.is_idle() or not kept.can_handle_request(origin):
            return None
        if kept.has_expired():
            kept.close()
            return None
        return kept

    def close(self) -> None:
        """See `Wire.close`."""
        self._pool.close()


class FastExchange:
    """A response of our connection; `close` gives the connection back."""

    def __init__(self, answer: Answer, stamps: Stamps, *, close: Callable[[], None]) -> None:
        self.status = answer.response.status
        self.headers = answer.response.named_headers()
        self.compressed = self.headers.get("content-encoding", "identity").lower() not in ("", "identity")
        self.received_bytes = 0
        self._answer = answer
        self._stamps = stamps
        self._close = close
        stamps.headers_ns = answer.response.head_ns
        self._note_source()

    @property
    def eager(self) -> bool:
        """See `Exchange.eager`."""
        return self._answer.eager

    @eager.setter
    def eager(self, eager: bool) -> None:
        self._answer.eager = eager

    @property
    def oldest_ns(self) -> int | None:
        """See `Exchange.oldest_ns`."""
        return self._answer.oldest_ns

    def hand_over(self) -> None:
        """See `Exchange.hand_over`."""
        self._answer.hand_over()

    def batches(self) -> Iterator[Sequence[tuple[bytes, int]]]:
        """See `Exchange.batches`."""
        # a server that compresses although it was asked not to still has to be understood
        try:
            yield from self._decoded() if self.compressed else self._taken()
        except TRANSPORT_ERRORS as error:
            raise wire_error(error, head=True) from error
        self._stamps.closed_ns = self._answer.response.end_ns

    def _taken(self) -> Iterator[list[tuple[bytes, int]]]:
        while pairs := self._answer.take():
            self._note_source()
            if not self.received_bytes:
                self._stamps.first_byte_ns = pairs[0][1]
            self.received_bytes += sum([len(data) for data, _ in pairs])
            yield pairs

    def _decoded(self) -> Iterator[list[tuple[bytes, int]]]:
        """Let httpx decode; what a read yields has that read's arrival."""
        arrival_ns = 0

        def raw() -> Iterator[bytes]:
            nonlocal arrival_ns
            for pairs in self._taken():
                for data, at_ns in pairs:
                    arrival_ns = at_ns
                    yield data

        for data in httpx.Response(self.status, headers=self.headers, content=raw()).iter_bytes():
            yield [(data, arrival_ns)]

    def _note_source(self) -> None:
        self._stamps.source = "kernel" if self._answer.kernel_stamped else "read"

    def close(self) -> None:
        """See `Exchange.close`."""
        if self._stamps.closed_ns is None:
            self._stamps.closed_ns = self._answer.response.end_ns or monotonic_ns()
        self._stamps.read_delay_ns = self._answer.read_delay_ns
        self._close()


@functools.lru_cache(maxsize=64)
def _parsed(url: str) -> tuple[httpcore.URL, bytes, httpcore.Origin]:
    """Return a URL as httpcore wants it, its Host header and its origin."""
    parsed = httpx.URL(url)
    core = core_url(parsed)
    return core, parsed.netloc, core.origin


def core_url(url: httpx.URL) -> httpcore.URL:
    """Return a URL of httpx as httpcore wants it."""
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def _headers(host: bytes, given: Mapping[str, str], body: bytes | None) -> list[tuple[bytes, bytes]]:
    added, names, sized = _completed(host, tuple(given))
    lines = [*added, *zip(names, [value.encode("ascii") for value in given.values()], strict=True)]
    if body is not None and not sized:
        lines.append((b"Content-Length", b"%d" % len(body)))
    return lines


@functools.lru_cache(maxsize=64)
def _completed(host: bytes, given: tuple[str, ...]) -> tuple[list[tuple[bytes, bytes]], list[bytes], bool]:
    """Return what is added to headers of these names, the names as bytes, and whether they give the body's length."""
    names = {name.lower() for name in given}
    added = [(b"Host", host)] if "host" not in names else []
    added += [
        (name.encode("ascii"), value.encode("ascii"))
        for name, value in DEFAULT_HEADERS.items()
        if name.lower() not in names
    ]
    return added, [name.encode("ascii") for name in given], "content-length" in names

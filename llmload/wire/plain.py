"""The plain wire: httpx's own transport, with stamps where httpx lets one look.

The start is stamped by httpcore's trace hook right before the request's first byte is handed to the socket, with
nothing in between that can yield; arrivals are stamped when a read comes back, before its bytes are parsed as
events (httpcore's HTTP parser has run by then, a few tens of microseconds).
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic_ns
from typing import Any

import httpx

from llmload.errors import SetupError
from llmload.stamps import Stamps
from llmload.wire.exchange import DEFAULT_HEADERS, WireError
from llmload.wire.failure import TRANSPORT_ERRORS, wire_error
from llmload.wire.tls import shared_context

STALE_S = 1.0
"""A server that ends an idle connection just as a request goes out on it is heard of within a round trip; a connection
that breaks later than this broke while the server had the request."""


def bad_proxy() -> SetupError:
    """Return what to say of a proxy that is none; what httpx says of it holds a user name."""
    return SetupError(
        "a proxy of the environment (http_proxy, https_proxy, all_proxy) cannot be used",
        "write e.g. http://proxy.example:3128 or socks5://proxy.example:1080, or unset the variable",
    )


class PlainWire:
    """One httpx client: its own connections, proxies from the environment.

    Args:
        ssl_context: says what is trusted; None takes the process's own.
        http2: offer HTTP/2 to a TLS server.
        reuse: keep connections between requests; without it each request opens its own.
        unix_socket: path of a socket on this machine to connect to, instead of the URL's host and any proxy.

    Raises:
        SetupError: a proxy of the environment cannot be used.
    """

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        http2: bool = False,
        reuse: bool = True,
        unix_socket: str | None = None,
    ) -> None:
        trust = ssl_context or shared_context()
        kept = None if reuse else 0
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=kept, keepalive_expiry=None)
        local = unix_socket and httpx.HTTPTransport(uds=unix_socket, verify=trust, http2=http2, limits=limits)
        try:
            self._client = httpx.Client(
                http2=http2,
                verify=trust,
                timeout=None,  # deadlines are watched elsewhere: a timeout on the socket is a timer per read
                limits=limits,
                headers=DEFAULT_HEADERS,
                transport=local or None,
                trust_env=not local,
            )
        except (ValueError, httpx.InvalidURL):  # of the proxies in the environment: nothing else is parsed here
            raise bad_proxy() from None

    def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, stamps: Stamps
    ) -> PlainExchange:
        """See `Wire.open`.

        A kept connection that the server was ending when the request went out on it is no failure of the request: it
        goes out once more, on a new one, and the stamps count from there. RFC 9110, section 9.2.2, lets a client do so
        for a POST only when it knows that repeating does no harm: a chat completion leaves nothing behind.
        """
        try:
            return self._send(method, url, headers=headers, body=body, stamps=stamps)
        except WireError as error:
            if not _is_stale(error.__cause__, stamps):
                raise
        stamps.reconnects += 1
        return self._send(method, url, headers=headers, body=body, stamps=stamps)

    def _send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, stamps: Stamps
    ) -> PlainExchange:
        phases = _Phases(stamps)
        try:
            request = self._client.build_request(
                method, url, headers=dict(headers), content=body, extensions={"trace": phases}
            )
            phases.called_ns = monotonic_ns()
            response = self._client.send(request, stream=True, follow_redirects=False)
        except TRANSPORT_ERRORS as error:
            raise wire_error(error, head=False) from error
        return PlainExchange(response, stamps)

    def close(self) -> None:
        """See `Wire.close`."""
        self._client.close()


class PlainExchange:
    """A response of httpx, read below its text and line layers, each read handed over at once."""

    eager = True
    oldest_ns = None

    def __init__(self, response: httpx.Response, stamps: Stamps) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.compressed = response.headers.get("content-encoding", "identity").lower() not in ("", "identity")
        self.received_bytes = 0
        self._response = response
        self._stamps = stamps

    def batches(self) -> Iterator[Sequence[tuple[bytes, int]]]:
        """See `Exchange.batches`."""
        # a server that compresses although it was asked not to still has to be understood
        source = self._response.iter_bytes() if self.compressed else iter(self._response.stream)  # type: ignore[arg-type]
        reads = _Reads.of(self._response)
        try:
            for data in source:
                # h11 hands out each HTTP chunk by itself; what one read brought shares its stamp
                now_ns = reads.arrival_ns
                if not self.received_bytes:
                    self._stamps.first_byte_ns = now_ns
                self.received_bytes += len(data)
                if data:
                    yield ((data, now_ns),)
        except TRANSPORT_ERRORS as error:
            raise wire_error(error, head=True) from error
        finally:
            if self.compressed:
                self.received_bytes = self._response.num_bytes_downloaded  # as it came, not as it was decoded
        self._stamps.closed_ns = monotonic_ns()

    def hand_over(self) -> None:
        """See `Exchange.hand_over`: nothing is ever held back here."""

    def close(self) -> None:
        """See `Exchange.close`."""
        if self._stamps.closed_ns is None:
            self._stamps.closed_ns = monotonic_ns()
        self._response.close()


class _Reads:
    """Stamps the reads of one connection right after `recv`, before HTTP parsing.

    `network_stream` is httpcore's public extension; the same object serves every response of its connection.
    """

    def __init__(self, stream: Any) -> None:
        self.arrival_ns = monotonic_ns()
        self._read = stream.read
        stream.read, stream.llmload_reads = self, self

    @classmethod
    def of(cls, response: httpx.Response) -> _Reads:
        stream = response.extensions["network_stream"]
        reads: _Reads | None = getattr(stream, "llmload_reads", None)
        if reads is None:
            return cls(stream)
        return reads

    def __call__(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._read(max_bytes, timeout)
        self.arrival_ns = monotonic_ns()
        return data


class _Phases:
    """httpcore's trace hook: called with a name such as `connection.connect_tcp.started`."""

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps
        self._began_ns = 0
        self.called_ns = 0
        stamps.reused = True

    def __call__(self, name: str, info: Mapping[str, Any]) -> None:
        stamps = self._stamps
        if getattr(info.get("request"), "method", b"") == b"CONNECT":
            return  # a proxy's tunnel is not the request
        if name.endswith("send_request_headers.started"):
            stamps.sent_ns = monotonic_ns()
            if stamps.pool_wait_ns is None:
                stamps.pool_wait_ns = stamps.sent_ns - self.called_ns
        elif name.endswith("receive_response_headers.complete"):
            stamps.headers_ns = monotonic_ns()
        elif name.endswith((".connect_tcp.started", ".connect_unix_socket.started")):
            self._began_ns = monotonic_ns()
            stamps.reused = False
            stamps.pool_wait_ns = self._began_ns - self.called_ns
        elif name.endswith((".connect_tcp.complete", ".connect_unix_socket.complete")):
            stamps.connect_ns = monotonic_ns() - self._began_ns
        elif name.endswith(".start_tls.started"):
            self._began_ns = monotonic_ns()
        elif name.endswith(".start_tls.complete"):
            stamps.tls_ns = monotonic_ns() - self._began_ns


def _is_stale(error: BaseException | None, stamps: Stamps) -> bool:
    """Whether a kept connection turned out to be gone before any of the answer came."""
    gone = isinstance(error, (httpx.ReadError, httpx.WriteError)) or (
        isinstance(error, httpx.RemoteProtocolError) and "without sending a response" in str(error)
    )
    if not gone or not stamps.reused or stamps.headers_ns is not None or stamps.sent_ns is None:
        return False
    return not stamps.reconnects and monotonic_ns() - stamps.sent_ns < STALE_S * 1e9

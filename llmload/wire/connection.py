"""One connection of the fast wire: httpcore's pool hands it a request, llhttp reads the response.

httpcore keeps pooling and origins (`ConnectionPool`, `ConnectionInterface`); connecting and reading are here.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from time import monotonic_ns
from typing import Any

import gevent
import httpcore
from gevent import get_hub

from llmload.stamps import Stamps
from llmload.wire.answer import READ, Answer
from llmload.wire.arrival import kernel_stamps
from llmload.wire.network import Network, TcpStream
from llmload.wire.request import request_bytes
from llmload.wire.tls import TlsStream

NO_LIMITS: Mapping[str, float | None] = {}
RECONNECT_NS = 1_000_000_000
"""A kept connection that the server has closed shows within a round trip. One that breaks later than this was alive:
its request may have been worked on, and is not sent again."""


class Pool(httpcore.ConnectionPool):
    """httpcore's pool with connections of ours. No limit on connections, no expiry: one user holds few."""

    def __init__(self, ssl_context: ssl.SSLContext) -> None:
        super().__init__(max_connections=None, keepalive_expiry=None)
        self._network = Network()
        self._context = ssl_context

    def create_connection(self, origin: httpcore.Origin) -> httpcore.ConnectionInterface:
        """Called by httpcore when no connection is free."""
        return Connection(origin, network=self._network, ssl_context=self._context)


class State(Enum):
    """What a connection is at."""

    NEW = auto()
    ACTIVE = auto()
    IDLE = auto()
    CLOSED = auto()


class Connection(httpcore.ConnectionInterface):
    """A connection to one origin, opened by its first request. It carries one request at a time.

    `handle_request` is for httpcore's pool: a request's `extensions` may hold `stamps`, filled while it is under way,
    and `called_ns`, when it was given to the pool; its `timeout` is obeyed where httpx sets one. A response's
    `extensions` hold `answer` and `connection`. Whoever has that one may go on with `carry`, without the pool, and
    shares the connection with it: the first to come takes it.
    """

    def __init__(self, origin: httpcore.Origin, *, network: Network, ssl_context: ssl.SSLContext) -> None:
        self._origin = origin
        self._network = network
        self._context = ssl_context
        self._state = State.NEW
        self._stream: TcpStream | TlsStream | None = None
        self._watcher: Any = None
        self._answer: Answer | None = None
        self._written = False

    def handle_request(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request and return when the response's head is there.

        Raises:
            httpcore.ConnectionNotAvailable: take another connection: this one is in use, or the server closed it
                while it was idle.
            httpcore.NetworkError, httpcore.ProtocolError: the request failed; the connection is closed.
        """
        if self._state not in (State.NEW, State.IDLE):
            raise httpcore.ConnectionNotAvailable
        asked = request.extensions
        stamps: Stamps = asked.get("stamps") or Stamps(asked_ns=monotonic_ns())
        data = request_bytes(request.method, request.url.target, request.headers, _body(request))
        answer = self.carry(
            data,
            stamps,
            called_ns=asked.get("called_ns") or monotonic_ns(),
            head_only=request.method == b"HEAD",
            server_name=asked.get("sni_hostname"),
            limits_s=asked.get("timeout") or {},
        )
        return httpcore.Response(
            answer.response.status,
            headers=answer.response.headers,
            content=_Body(self, answer, asked.get("timeout") or {}),
            extensions={"answer": answer, "connection": self, "http_version": b"HTTP/1.1"},
        )

    def carry(
        self,
        data: bytes,
        stamps: Stamps,
        *,
        called_ns: int,
        head_only: bool = False,
        server_name: str | None = None,
        limits_s: Mapping[str, float | None] = NO_LIMITS,
    ) -> Answer:
        """Send the bytes of a request and return its answer when its head is there; `release` ends it.

        Raises:
            httpcore.ConnectionNotAvailable, NetworkError, ProtocolError: see `handle_request`.
        """
        if self._state not in (State.NEW, State.IDLE):
            raise httpcore.ConnectionNotAvailable
        stamps.pool_wait_ns = monotonic_ns() - called_ns
        stamps.reused = self._state is State.IDLE
        stamps.source = "kernel" if kernel_stamps() else "read"
        self._state = State.ACTIVE
        try:
            stream = self._stream
            if stream is None:
                with _limit(limits_s, "connect", httpcore.ConnectTimeout):
                    stream = self._connect(server_name, stamps)
            self._answer = answer = Answer(stream, self._watcher, head_only=head_only)
            with _limit(limits_s, "read", httpcore.ReadTimeout):
                self._send(stream, answer, data, stamps)
                answer.wait_head()
        except BaseException as error:
            again = self._was_closed_while_idle(error, stamps)
            self.close()
            if again:
                stamps.reconnects += 1
                stamps.sent_ns = stamps.written_ns = None
                raise httpcore.ConnectionNotAvailable from None
            raise
        return answer

    def _connect(self, server_name: str | None, stamps: Stamps) -> TcpStream | TlsStream:
        began_ns = monotonic_ns()
        host = self._origin.host.decode("ascii")
        tcp = self._network.connect_tcp(host, self._origin.port)
        connected_ns = monotonic_ns()
        stamps.dns_ns = tcp.dns_ns
        stamps.connect_ns = connected_ns - began_ns - (tcp.dns_ns or 0)
        stream: TcpStream | TlsStream = tcp
        if self._origin.scheme == b"https":
            self._context.set_alpn_protocols(["http/1.1"])
            stream = tcp.start_tls(self._context, server_name or host)
            stamps.tls_ns = monotonic_ns() - connected_ns
        if self._state is State.CLOSED:
            stream.close()
            raise httpcore.ConnectError("the client was closed")
        self._stream, self._watcher = stream, get_hub().loop.io(stream.fd, READ)
        return stream

    def _send(self, stream: TcpStream | TlsStream, answer: Answer, data: bytes, stamps: Stamps) -> None:
        """Send a request. A server that answers before it has read all of it, and closes, has answered."""
        self._written = False
        rest = memoryview(stream.seal(data))
        stamps.sent_ns = monotonic_ns()  # nothing that could yield between this and the write
        try:
            while True:
                rest = rest[stream.send(rest) :]
                if not rest:
                    break
                answer.wait_writable()
                if answer.ended:
                    return
        except OSError as error:
            answer.read_rest()
            if not answer.response.has_head:
                raise httpcore.WriteError(str(error)) from error
            return
        stamps.written_ns = monotonic_ns()
        self._written = True

    def _was_closed_while_idle(self, error: BaseException, stamps: Stamps) -> bool:
        # RFC 9110, 9.2.2: no automatic retry of a POST without "some means to detect that the original request was
        # never applied". A close at once, before one byte of an answer, on a kept connection is as near as one gets.
        return (
            isinstance(error, (httpcore.ReadError, httpcore.WriteError))
            and self._state is not State.CLOSED
            and bool(stamps.reused)
            and not stamps.reconnects
            and self._answer is not None
            and not self._answer.response.began
            and monotonic_ns() - (stamps.sent_ns or 0) < RECONNECT_NS
        )

    def release(self, answer: Answer) -> None:
        """The response was closed: keep the connection if it is clean, else close it. A second call does nothing."""
        if self._answer is not answer:
            return
        answer.stop()
        if answer.response.reusable and self._written:
            self._answer, self._state = None, State.IDLE
        else:
            self.close()

    def close(self) -> None:
        """Close now; whoever waits for an answer hears of it."""
        self._state = State.CLOSED
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.stop()
            answer.fail(httpcore.ReadError("the client was closed"))
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        if self._stream is not None:
            self._stream.close()

    # what the pool asks

    def can_handle_request(self, origin: httpcore.Origin) -> bool:
        return origin == self._origin

    def is_available(self) -> bool:
        return self._state is State.IDLE

    def is_idle(self) -> bool:
        return self._state is State.IDLE

    def is_closed(self) -> bool:
        return self._state is State.CLOSED

    def has_expired(self) -> bool:
        """Whether the server has closed the idle connection, or said something that nobody asked for."""
        if self._state is not State.IDLE or self._stream is None:
            return False
        try:
            return self._stream.receive() is not None
        except OSError:
            return True

    def info(self) -> str:
        return f"{self._origin}, {self._state.name}"


class _Body:
    """The body for those who take it from httpcore, without arrivals."""

    def __init__(self, connection: Connection, answer: Answer, limits_s: Mapping[str, float | None]) -> None:
        self._connection, self._answer, self._limits_s = connection, answer, limits_s

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with _limit(self._limits_s, "read", httpcore.ReadTimeout):
                pairs = self._answer.take()
            if not pairs:
                return
            for data, _ in pairs:
                yield data

    def close(self) -> None:
        self._connection.release(self._answer)


def _body(request: httpcore.Request) -> bytes:
    assert isinstance(request.stream, Iterable)
    return b"".join(request.stream)


def _limit(limits_s: Mapping[str, float | None], name: str, error: type[Exception]) -> AbstractContextManager[object]:
    """Return httpx's timeout of this name as a context manager; without one it costs nothing."""
    seconds = limits_s.get(name)
    return nullcontext() if seconds is None else gevent.Timeout(seconds, error(f"no {name} within {seconds} s"))

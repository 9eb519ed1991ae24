"""Connections of the fast wire: a non-blocking socket whose reads carry arrival times.

httpcore's `NetworkBackend` and `NetworkStream`, for gevent and without timeouts: deadlines are watched elsewhere.
Sockets are Python's own, not gevent's, which bring two watchers each and wait in every call.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable
from time import monotonic_ns
from typing import Any

import gevent.socket
import httpcore
from gevent.monkey import get_original

from llmload.wire.arrival import ANCILLARY_BYTES, SO_TIMESTAMPNS, Arrivals, kernel_stamps
from llmload.wire.tls import TlsStream

READ_BYTES = 64 * 1024

_socket = get_original("socket", "socket")
_getaddrinfo = get_original("socket", "getaddrinfo")


class Network(httpcore.NetworkBackend):
    """Resolves and connects; only the calling greenlet waits."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> TcpStream:
        """Return a stream to the first address of `host` that accepts.

        Raises:
            httpcore.ConnectError: no address (its context is the `gaierror`), or none accepts.
        """
        began_ns = monotonic_ns()
        try:
            addresses, looked_up = _resolve(host, port)
            dns_ns = monotonic_ns() - began_ns if looked_up else None
            return TcpStream(_connect_first(addresses), dns_ns=dns_ns)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error


class TcpStream(httpcore.NetworkStream):
    """One TCP connection.

    Args:
        sock: connected and non-blocking.
        dns_ns: what the look-up of its name took; None where there was none.
    """

    finished = False
    """Whether the other side has said that it is done; of TCP alone, the read without bytes says so."""

    def __init__(self, sock: socket.socket, *, dns_ns: int | None = None) -> None:
        self._sock = sock
        self._recvmsg = sock.recvmsg
        self.fd = sock.fileno()
        self.dns_ns = dns_ns
        self.arrivals = Arrivals()

    def receive(self) -> tuple[bytes, int] | None:
        """Return (bytes, monotonic arrival) of one read, no bytes at the end; None if there is nothing now."""
        try:
            data, ancillary, _, _ = self._recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return None
        # the end of a stream carries no stamp, and needs none
        return data, self.arrivals.stamp(ancillary) if data else monotonic_ns()

    def seal(self, data: bytes) -> bytes:
        """Return what has to be sent so that the other side reads `data`."""
        return data

    def send(self, sealed: memoryview) -> int:
        """Hand sealed bytes to the kernel and return how many it took, 0 if none now."""
        try:
            return self._sock.send(sealed)
        except BlockingIOError:
            return 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Wait for bytes; none at the end."""
        while True:
            try:
                return self._sock.recv(max_bytes)
            except BlockingIOError:
                gevent.socket.wait_read(self.fd)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Wait until the kernel has taken all bytes."""
        rest = memoryview(buffer)
        while rest:
            rest = rest[self.send(rest) :]
            if rest:
                gevent.socket.wait_write(self.fd)

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> TlsStream:
        """Return the encrypted stream after its handshake.

        Raises:
            httpcore.ConnectError: the handshake failed; this stream is closed.
        """
        try:
            return TlsStream(self, ssl_context, server_hostname)
        except OSError as error:
            self.close()
            raise httpcore.ConnectError(str(error)) from error
        except BaseException:
            self.close()
            raise


def _resolve(host: str, port: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the addresses of a host, and whether its name had to be looked up."""
    try:
        return _getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST), False
    except socket.gaierror:
        return gevent.socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM), True


def _connect_first(addresses: list[tuple[Any, ...]]) -> socket.socket:
    failed = OSError("the name has no address")
    for family, kind, protocol, _, address in addresses:
        sock: socket.socket = _socket(family, kind, protocol)
        try:
            _connect(sock, address)
            return sock
        except OSError as error:
            sock.close()
            failed = error
        except BaseException:
            sock.close()
            raise
    raise failed


def _connect(sock: socket.socket, address: Any) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if kernel_stamps():
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    try:
        sock.connect(address)
    except BlockingIOError:
        gevent.socket.wait_write(sock.fileno())
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code)) from None

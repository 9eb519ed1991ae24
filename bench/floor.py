"""The floor: what a client costs at least that is written in Python on gevent.

One persistent IO watcher a connection, whose callback does `recvmsg` with the kernel's stamp, feeds llhttp and decodes
each event with orjson; the greenlet that asked is woken once, at the end of the answer. No pool, no deadlines, no
statistics, and of HTTP and SSE only what the mock server sends. Over TLS the C object that is behind Python's own TLS
sockets reads, without stamps of the kernel. Linux only. Knows nothing of llmload.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from itertools import groupby, pairwise
from time import monotonic_ns, time_ns
from typing import Any
from urllib.parse import urlsplit

import httptools
import orjson
from gevent import get_hub
from gevent.hub import Waiter
from gevent.monkey import get_original

from bench.baseline import BODY

SO_TIMESTAMPNS = 35
TIMESPEC = struct.Struct("@ll")
ANCILLARY_BYTES = socket.CMSG_SPACE(TIMESPEC.size)
WALL_AHEAD_NS = time_ns() - monotonic_ns()
SENT = json.dumps(BODY).encode()


class Floor:
    """One connection, and the greenlet that asks through it."""

    def __init__(self, url: str, *, ca_file: str | None = None) -> None:
        parts = urlsplit(url)
        head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(SENT)}\r\n"
        self._head = head.encode()
        self._address = (parts.hostname, parts.port)
        self._sock: socket.socket | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter = Waiter()
        self._rest = b""
        self._trust: Any = None
        self._receive = self._receive_tcp
        if parts.scheme == "https":
            self._trust, self._receive = get_original("ssl", "SSLContext")(ssl.PROTOCOL_TLS_CLIENT), self._receive_tls
            self._trust.load_verify_locations(ca_file)
        self._at_ns = 0
        self._ended = False
        self._arrivals_ns: list[int] = []

    def ask(self, request_id: str) -> list[Any]:
        """Send one request and return what was measured, as the fields of `truth.Answer`."""
        sock = self._sock or self._connect()
        self._arrivals_ns, self._waiter, self._ended = [], Waiter(), False
        started_ns = monotonic_ns()
        send = sock.send if self._trust is None else self._tls.write
        send(b"%sX-Request-Id: %s\r\n\r\n%s" % (self._head, request_id.encode(), SENT))
        self._waiter.get()
        reads = [(at_ns, len(list(events))) for at_ns, events in groupby(self._arrivals_ns)]
        gaps_ns = [after - before for (before, _), (after, _) in pairwise(reads)]
        return [request_id, reads[0][0] - started_ns, gaps_ns, started_ns, [events for _, events in reads]]

    def _connect(self) -> socket.socket:
        self._sock = sock = get_original("socket", "socket")(socket.AF_INET, socket.SOCK_STREAM)
        sock.connect(self._address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        if self._trust is not None:
            self._tls = self._trust._wrap_socket(sock, False, self._address[0])  # gevent has replaced what is above it
            self._tls.do_handshake()
        sock.setblocking(False)
        self._watcher = get_hub().loop.io(sock.fileno(), 1)
        self._watcher.start(self._read)
        return sock

    def _read(self) -> None:
        data = self._receive()
        if data is None:
            return
        if not data:
            self._watcher.stop()
            self._waiter.throw(ConnectionError("the server closed"))
            return
        self._parser.feed_data(data)
        if self._ended:
            self._waiter.switch(None)

    def _receive_tcp(self) -> bytes | None:
        data, ancillary, _, _ = self._sock.recvmsg(65536, ANCILLARY_BYTES)
        if ancillary:
            seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2])
            self._at_ns = seconds * 1_000_000_000 + nanoseconds - WALL_AHEAD_NS
        elif data:  # the kernel begins to stamp a moment after the first socket has asked for it
            self._at_ns = monotonic_ns()
        return data

    def _receive_tls(self) -> bytes | None:
        self._at_ns = monotonic_ns()
        try:
            data: bytes = self._tls.read(65536)
            while self._tls.pending():
                data += self._tls.read(65536)
        except ssl.SSLWantReadError:
            return None
        return data

    def on_body(self, body: bytes) -> None:
        *events, self._rest = (self._rest + body).split(b"\n\n")
        for event in events:
            if event == b"data: [DONE]":
                continue
            choices = orjson.loads(event[6:])["choices"]
            if choices and choices[0]["delta"].get("content"):
                self._arrivals_ns.append(self._at_ns)

    def on_message_complete(self) -> None:
        self._ended = True

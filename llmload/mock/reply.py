"""The response to one request on its way out: when which bytes leave, and what the truth says about it.

Knows ASGI and the connection below it (needed to break it); knows no chat.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from llmload.mock.faults import Fault
from llmload.mock.truth import Ledger, Record

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class Reply:
    """One response.

    Args:
        send: ASGI's.
        transport: the connection.
        faults: those that strike this request; `late_headers`, `coalesce`, `buffer` and `gzip` act here.
    """

    def __init__(
        self,
        send: Send,
        transport: asyncio.Transport,
        *,
        record: Record,
        ledger: Ledger,
        faults: dict[str, Fault],
    ) -> None:
        self._send = send
        self._transport = transport
        self._record = record
        self._ledger = ledger
        self._head: MutableMapping[str, Any] | None = None
        self._late = "late_headers" in faults
        self._per_write = int(faults["coalesce"].number("size") or 1) if "coalesce" in faults else 1
        if "buffer" in faults:
            self._per_write = sys.maxsize
        self._zip = zlib.compressobj(wbits=31) if "gzip" in faults else None
        self._held = b""
        self._held_tokens = 0
        self.over = False
        """True once the end is decided here: a closed connection is then no client that left."""

    async def head(self, status: int, headers: Headers) -> None:
        """Send status and headers, or keep them for the first bytes (`late_headers`)."""
        if self._zip is not None:
            headers = [*headers, (b"content-encoding", b"gzip")]
        self._head = {"type": "http.response.start", "status": status, "headers": headers}
        if not self._late:
            await self._send_head()

    async def write(self, data: bytes, tokens: int = 0) -> None:
        """Send `data`, which holds `tokens` tokens; `coalesce` and `buffer` make one of several writes."""
        if self._per_write > 1:
            self._held += data
            self._held_tokens += tokens
            if self._held_tokens >= self._per_write:
                await self.flush()
            return
        await self._put(data, tokens)

    async def flush(self) -> None:
        """Send what `write` has kept back."""
        data, tokens = self._held, self._held_tokens
        self._held, self._held_tokens = b"", 0
        if data:
            await self._put(data, tokens)

    async def end(self, outcome: str) -> None:
        """End the body properly and close the record."""
        await self.flush()
        await self._send_head()
        rest = self._zip.flush() if self._zip is not None else b""
        self.close_record(outcome)
        await self._send({"type": "http.response.body", "body": rest, "more_body": False})

    async def whole(self, status: int, body: bytes, *, outcome: str, headers: Headers | None = None) -> None:
        """Send a complete response; its content type is JSON unless `headers` say otherwise."""
        if self._zip is not None:
            body, self._zip = self._zip.compress(body) + self._zip.flush(), None
            headers = [*(headers or []), (b"content-encoding", b"gzip")]
        given = headers or []
        if not any(name == b"content-type" for name, _ in given):
            given = [(b"content-type", b"application/json"), *given]
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*given, (b"content-length", b"%d" % len(body))],
            }
        )
        self.close_record(outcome)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def part(self, body: bytes, *, sent: int) -> None:
        """Announce the whole JSON `body` and send only the first `sent` bytes of it."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": body[:sent], "more_body": True})

    def break_off(self, outcome: str, *, reset: bool) -> None:
        """Close the connection without ending the response: FIN after what was sent, or RST."""
        self.close_record(outcome)
        if reset:
            # The transport's socket object need not have setsockopt; a duplicate sets the option for both.
            with socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno())) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def close_record(self, outcome: str) -> None:
        """Say in the truth how the request ended; later calls change nothing."""
        self.over = True
        self._ledger.end(self._record, outcome, time.monotonic_ns())

    async def _put(self, data: bytes, tokens: int) -> None:
        if self._head is not None:
            await self._send_head()
        if self._zip is not None:
            data = self._zip.compress(data) + self._zip.flush(zlib.Z_SYNC_FLUSH)
        if tokens:
            stamps, now_ns = self._record.token_ns, time.monotonic_ns()
            for _ in range(tokens):
                stamps.append(now_ns)
            self._record.tokens += tokens
            self._ledger.tokens_sent += tokens
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _send_head(self) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head)

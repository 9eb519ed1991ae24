"""One HTTP/1.1 response, read by llhttp: (bytes, arrival) of each read in, head and (body, arrival) pairs out.

No network, no clock. Framing (RFC 9112, section 6): chunked with extensions and trailers, a length, or until the
connection closes; interim responses (1xx) are skipped. What is held is bounded by `MAX_HEAD_BYTES` and by how long
the pairs are left here.
"""

from __future__ import annotations

from collections.abc import Iterable

import httpcore
import httptools

MAX_HEAD_BYTES = 100 * 1024
"""Bytes without a byte of body that are read at most: a head, interim responses, trailers, chunk extensions."""


class Response:
    """What has come of one response.

    Args:
        head_only: the request was a HEAD: the response ends with its head, whatever length that gives.
    """

    def __init__(self, *, head_only: bool = False) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._named: dict[str, str] | None = None
        self.has_head = False
        self.complete = False
        """The body ended as HTTP says it should."""
        self.reusable = False
        """The connection may carry another request. Known when complete."""
        self.pairs: list[tuple[bytes, int]] = []
        """Body as (bytes of one read, arrival), until somebody takes them."""
        self.began = False
        """Whether any byte came."""
        self.head_ns: int | None = None
        self.end_ns: int | None = None
        self._head_only = head_only
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # llhttp calls it once a piece of a chunk: straight into the list
        self._own_parts: int | None = None
        self._no_body_bytes = 0
        parser = httptools.HttpResponseParser(self)
        # What other clients take from servers is taken here: both lengths given, bare line feeds, padded sizes.
        parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._parser: httptools.HttpResponseParser | None = parser

    def named_headers(self) -> dict[str, str]:
        """Return the head's fields, names in lower case; values of one name are joined (RFC 9110, 5.3)."""
        if self._named is None:
            named: dict[str, str] = {}
            for raw_name, raw_value in self.headers:
                name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
                named[name] = f"{named[name]}, {value}" if name in named else value
            self._named = named
        return self._named

    @property
    def chunked(self) -> bool:
        """Whether the body is. Known when the head is."""
        return self.named_headers().get("transfer-encoding", "").lower().rstrip().endswith("chunked")

    def feed(self, reads: Iterable[tuple[bytes, int]]) -> None:
        """Take some reads, at least one, each its bytes and its arrival.

        Raises:
            httpcore.RemoteProtocolError: this is not HTTP, or too much of it without a body.
        """
        feed_data, parts = self._parser.feed_data, self._parts  # type: ignore[union-attr]  # nobody feeds after `forget`
        take, pop = self.pairs.append, parts.pop
        streaming = self.has_head and not self.complete
        self.began = True
        for data, arrival_ns in reads:
            try:
                feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self._take_parts(arrival_ns)
                if not self.complete:
                    raise httpcore.RemoteProtocolError(f"this is not HTTP ({error})") from error
                self.reusable = False  # bytes after the end: the answer is whole, the connection is not to be trusted
                streaming = False
            if streaming and len(parts) == 1 and not self.complete:  # one chunk of a stream, as nearly all reads are
                take((pop(), arrival_ns))
                self._no_body_bytes = 0
            else:
                self._look(len(data), arrival_ns)
                streaming = self.has_head and not self.complete

    def _look(self, size: int, arrival_ns: int) -> None:
        """Look at what a read of `size` bytes has changed."""
        if self._parts:
            self._take_parts(arrival_ns)
        else:
            self._no_body_bytes += size
            if self._no_body_bytes > MAX_HEAD_BYTES and not self.complete:
                raise httpcore.RemoteProtocolError(f"more than {MAX_HEAD_BYTES} bytes of headers")
        if self.has_head and self.head_ns is None:
            self.head_ns = arrival_ns
        if self.complete and self.end_ns is None:
            self.end_ns = arrival_ns

    def _take_parts(self, arrival_ns: int) -> None:
        parts = self._parts
        if self._own_parts is not None:
            del parts[self._own_parts :]  # the body of a second response in the same read
        if parts:
            self.pairs.append((parts[0] if len(parts) == 1 else b"".join(parts), arrival_ns))
            parts.clear()
            self._no_body_bytes = 0

    def feed_eof(self, arrival_ns: int) -> None:
        """The server has closed.

        Raises:
            httpcore.ReadError: it did so before the response was complete.
        """
        if self.complete:
            return
        if not self.has_head:
            raise httpcore.ReadError("the server closed in the head" if self.began else "no answer")
        if not self._ends_with_the_connection():
            raise httpcore.ReadError("the server closed in the body")
        self.complete, self.end_ns = True, arrival_ns

    def forget(self) -> None:
        """Let go of the parser, which knows this object: without a cycle both are freed at once."""
        self._parser = None

    def take(self) -> list[tuple[bytes, int]]:
        """Return the pairs that have come, and hold them no longer."""
        pairs, self.pairs = self.pairs, []
        return pairs

    def _ends_with_the_connection(self) -> bool:
        if "transfer-encoding" in self.named_headers():
            return not self.chunked
        return "content-length" not in self.named_headers()

    # llhttp's callbacks

    def on_message_begin(self) -> None:
        if self.complete:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # else it is a trailer
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        status = self._parser.get_status_code()  # type: ignore[union-attr]
        if status < 200:
            self.headers.clear()
            return
        self.status, self.has_head = status, True
        self.complete = self._head_only

    def on_message_complete(self) -> None:
        if self.has_head and not self.complete:
            self.complete = True
            self._own_parts = len(self._parts)
            self.reusable = self._parser.should_keep_alive()  # type: ignore[union-attr]

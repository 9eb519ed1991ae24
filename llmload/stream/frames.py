"""Cuts a byte stream into complete SSE frames that any SSE parser agrees on.

No network, no clock, no field is interpreted. What sseclient-py gets wrong is put right here, on bytes,
before it sees them: a byte order mark, mixed line ends, a CRLF cut by a read, invalid UTF-8, an unfinished
last frame, and frames without end. Source: WHATWG HTML, "Server-sent events", sections on parsing and
interpreting a stream.
"""

from __future__ import annotations

import codecs
import re

MAX_LINES = 256
"""Lines one frame may have once its comments are out; a chat event has one or two. sseclient-py copies a
frame for every line of it, so without a limit its work would grow with the square of the frame."""

_COMMENT = re.compile(rb"^:[^\n]*\n", re.MULTILINE)
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


class OversizedEvent(Exception):
    """A frame is longer than the limit: the stream is broken, or is none."""


class Frames:
    """Collects bytes until a blank line ends a frame.

    Work is linear in the bytes fed, however they are cut; memory is bounded by the limit plus one read.

    Args:
        max_frame_bytes: length that a frame may have without its blank line, every line end counted as one
            byte.
    """

    def __init__(self, *, max_frame_bytes: int) -> None:
        self.comments = 0
        """Comment lines seen; servers send them as signs of life."""
        self.invalid_bytes = 0
        """Bytes that were no UTF-8; U+FFFD stands for them."""
        self._max_bytes = max_frame_bytes
        self._pending = bytearray()
        self._mark: bytes | None = b""
        self._after_cr = False

    @property
    def between(self) -> bool:
        """Whether the next byte begins a frame, or the whole stream."""
        return not self._pending and not self._mark and not self._after_cr

    def skip(self) -> None:
        """Whole frames were read elsewhere, with no byte order mark before them."""
        self._mark = None

    def feed(self, data: bytes) -> bytes:
        """Take the bytes of one read.

        Returns:
            The frames that this read completed, one after the other: valid UTF-8, LF line ends, each with its
            blank line, no comments. Empty when it completed none.

        Raises:
            OversizedEvent: a frame is too long. What the same read completed before it is lost, and the
                object must not be used again.
        """
        if self._mark is not None:
            data = self._without_mark(self._mark + data)
        data = self._with_lf(data)
        pending = self._pending
        end = data.rfind(b"\n\n") + 2
        if end == 1:  # none inside this read; the blank line may have begun in the read before
            end = int(data.startswith(b"\n") and (not pending or pending.endswith(b"\n")))
        if not end:
            pending += data
            self._check_length(len(pending))
            return b""
        block = data[:end]
        if pending:
            pending += block
            block = bytes(pending)
            pending.clear()
        if end < len(data):
            pending += data[end:]
            self._check_length(len(pending))
        return self._clean(block)

    def finish(self) -> bytes:
        """Return the unfinished last frame, made complete; empty when there is none.

        A character that the end of the stream cut is left out and is not counted as invalid.

        Raises:
            OversizedEvent: the frame has too many lines.
        """
        whole = codecs.utf_8_decode(self._pending, "ignore", False)[1]
        block = bytes(self._pending[:whole])
        self._pending.clear()
        return self._clean(block + b"\n\n") if block else b""

    def _without_mark(self, start: bytes) -> bytes:
        # "The UTF-8 decode algorithm strips one leading UTF-8 Byte Order Mark (BOM), if any."
        if len(start) < len(codecs.BOM_UTF8) and codecs.BOM_UTF8.startswith(start):
            self._mark = start
            return b""
        self._mark = None
        return start.removeprefix(codecs.BOM_UTF8)

    def _with_lf(self, data: bytes) -> bytes:
        # A CR ends its line at once, so that no event waits for the byte after it; an LF that follows is
        # swallowed.
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _clean(self, block: bytes) -> bytes:
        if len(block) > self._max_bytes:
            for frame in block.split(b"\n\n"):
                self._check_length(len(frame.lstrip(b"\n")) + 1)
        if block.startswith(b":") or b"\n:" in block:
            block, comments = _COMMENT.subn(b"", block)
            self.comments += comments
        if len(block) > MAX_LINES and block.count(b"\n") > MAX_LINES:
            self._check_lines(block)
        return block if block.isascii() else self._as_utf8(block)

    def _as_utf8(self, block: bytes) -> bytes:
        try:
            block.decode()
        except UnicodeDecodeError:
            self.invalid_bytes += len(_ESCAPED_BYTE.findall(block.decode("utf-8", "surrogateescape")))
            return block.decode("utf-8", "replace").encode()
        return block

    def _check_length(self, frame_bytes: int) -> None:
        if frame_bytes > self._max_bytes:
            raise OversizedEvent(f"an event is longer than {self._max_bytes} bytes")

    def _check_lines(self, block: bytes) -> None:
        if max(frame.strip(b"\n").count(b"\n") for frame in block.split(b"\n\n")) >= MAX_LINES:
            raise OversizedEvent(f"an event has more than {MAX_LINES} lines")

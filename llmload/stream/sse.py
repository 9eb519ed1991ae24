"""Server-sent events: the bytes of each read in, events with their arrival out.

No provider knowledge, no network, no clock. sseclient-py interprets the fields; `frames` makes its input such
that it cannot be wrong about where lines and frames end.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import sseclient

from llmload.stream.frames import Frames, OversizedEvent

__all__ = ["Event", "OversizedEvent", "SseReader"]

# It logs every event at DEBUG, the level that people set to look at something else.
logging.getLogger("sseclient").setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class Event:
    """One event and the read that completed it.

    Events with the same `read` share an `arrival_ns` (monotonic nanoseconds), which is exact for the last of
    them only. `tail` is True for the last frame of a stream that ended without a blank line: its data may be
    cut.
    """

    name: str
    data: str
    arrival_ns: int
    read: int
    tail: bool = False


class SseReader:
    """Turns reads into events, for one response.

    Blocks without data and unnamed events with empty data are skipped: they say nothing.

    Args:
        max_event_bytes: length that one event may have on the wire.
    """

    def __init__(self, *, max_event_bytes: int = 8 * 1024 * 1024) -> None:
        self._frames = Frames(max_frame_bytes=max_event_bytes)
        # The client iterates over this list anew at each call of `events()`. As it only ever holds complete
        # frames, nothing is left in the generator's own buffer in between.
        self._source = [b""]
        self._client = sseclient.SSEClient(self._source)  # type: ignore[arg-type]  # any iterable will do
        self._arrival_ns = 0
        self._read = -1

    @property
    def comments(self) -> int:
        """Comment lines so far; servers send them to keep a connection open."""
        return self._frames.comments

    @property
    def invalid_bytes(self) -> int:
        """Bytes so far that were no UTF-8; U+FFFD stands for them in the events."""
        return self._frames.invalid_bytes

    def feed(self, data: bytes, arrival_ns: int) -> list[Event]:
        """Take the bytes of one read and return the events that it completed, in their order.

        Args:
            data: the decoded body's bytes (no chunked framing, no compression), cut anywhere.
            arrival_ns: monotonic arrival of the read.

        Raises:
            OversizedEvent: an event is too long. Events that the same read completed before it are lost, and
                the reader must not be used again.
        """
        if self._read < 0 or arrival_ns != self._arrival_ns:
            self._read += 1
        self._arrival_ns = arrival_ns
        block = self._frames.feed(data)
        return self._events(block, tail=False) if block else []

    def finish(self) -> list[Event]:
        """Return what the end of the stream left unfinished, as an event that arrived with the last read.

        Raises:
            OversizedEvent: it has too many lines.
        """
        block = self._frames.finish()
        return self._events(block, tail=True) if block else []

    def _events(self, block: bytes, *, tail: bool) -> list[Event]:
        self._source[0] = block
        arrival_ns, read = self._arrival_ns, self._read
        return [
            Event(event.event, event.data, arrival_ns, read, tail)
            for event in self._client.events()
            if event.data or event.event != "message"
        ]

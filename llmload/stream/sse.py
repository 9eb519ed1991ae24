"""Server-sent events: the bytes of each read in, events with their arrival out.

No provider knowledge, no network, no clock. sseclient-py interprets the fields; `frames` makes its input such
that it cannot be wrong about where lines and frames end. Frames that are one `data` line each, which nearly all are,
do not need it: `plain_data` reads them at a tenth of the cost, and a read of whole frames, which nearly all are too,
does not even need `frames`. A test holds both against sseclient-py.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import sseclient

from llmload.stream.frames import Frames, OversizedEvent

__all__ = ["Event", "OversizedEvent", "SseReader"]

# It logs every event at DEBUG, the level that people set to look at something else.
logging.getLogger("sseclient").setLevel(logging.INFO)


class Event(NamedTuple):
    """One event and the read that completed it.

    Events of one read share an `arrival_ns` (monotonic nanoseconds), which is exact for the last of them only. `tail`
    is True for the last frame of a stream that ended without a blank line: its data may be cut.
    """

    name: str
    data: str
    arrival_ns: int
    tail: bool = False


class SseReader:
    """Turns reads into events, for one response.

    Blocks without data and unnamed events with empty data are skipped: they say nothing.

    Args:
        max_event_bytes: length that one event may have on the wire.
    """

    def __init__(self, *, max_event_bytes: int = 8 * 1024 * 1024) -> None:
        self._frames = Frames(max_frame_bytes=max_event_bytes)
        self._max_bytes = max_event_bytes
        self._source = [b""]
        self._client: sseclient.SSEClient | None = None
        self._arrival_ns = 0

    @property
    def comments(self) -> int:
        """Comment lines so far; servers send them to keep a connection open."""
        return self._frames.comments

    @property
    def invalid_bytes(self) -> int:
        """Bytes so far that were no UTF-8; U+FFFD stands for them in the events."""
        return self._frames.invalid_bytes

    @property
    def between(self) -> bool:
        """Whether the next byte begins an event, or the whole stream."""
        return self._frames.between

    def feed(self, data: bytes, arrival_ns: int) -> list[Event]:
        """Take the bytes of one read and return the events that it completed, in their order.

        Args:
            data: the decoded body's bytes (no chunked framing, no compression), cut anywhere.
            arrival_ns: monotonic arrival of the read.

        Raises:
            OversizedEvent: an event is too long. Events that the same read completed before it are lost, and
                the reader must not be used again.
        """
        self._arrival_ns = arrival_ns
        if data[:5] == b"data:" and len(data) <= self._max_bytes and self._frames.between:
            plain = plain_data(data)
            if plain is not None:
                self._frames.skip()
                return [Event("message", text, arrival_ns) for text in plain if text]
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
        arrival_ns = self._arrival_ns
        plain = plain_data(block)
        if plain is not None:
            return [Event("message", data, arrival_ns, tail) for data in plain if data]
        # The client iterates over this list anew at each call of `events()`. As it only ever holds complete
        # frames, nothing is left in the generator's own buffer in between.
        self._source[0] = block
        if self._client is None:
            self._client = sseclient.SSEClient(self._source)  # type: ignore[arg-type]  # any iterable will do
        return [
            Event(event.event, event.data, arrival_ns, tail)
            for event in self._client.events()
            if event.data or event.event != "message"
        ]


def plain_data(data: bytes) -> list[str] | None:
    """Return the data of each frame, None where anything is not a whole frame of one line that begins with `data:`.

    Args:
        data: what comes from between two frames on.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    frames = text.split("\n\n")
    if frames.pop() or "\r" in text:
        return None
    for frame in frames:
        if not frame.startswith("data:") or "\n" in frame:
            return None
    # "If value starts with a U+0020 SPACE character, remove it from value."
    return [frame[6:] if frame.startswith(" ", 5) else frame[5:] for frame in frames]

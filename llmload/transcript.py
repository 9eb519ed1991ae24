"""What one streamed answer says: its reads in, its timeline out.

No network, no clock. Reads that differ in nothing but a text are understood together (`stream.template`); all others
go through the reader of events and the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmload.protocols import ChatProtocol
from llmload.stream.sse import Event, SseReader, plain_data
from llmload.stream.template import Template
from llmload.timeline import Timeline

TRIES = 4
"""Templates in a row that fit nothing, until no more are looked for: each costs as much as some events."""


class Transcript:
    """Writes down one answer.

    Args:
        protocol: says what its events mean.
    """

    def __init__(self, protocol: ChatProtocol) -> None:
        self.timeline = Timeline()
        self.last_ns: int | None = None
        """Arrival of the last event of any kind."""
        self._read_event = protocol.read_event
        self._reader = SseReader()
        self._template: Template | None = None
        self._tries = 0

    @property
    def invalid_bytes(self) -> int:
        """Bytes so far that were no UTF-8."""
        return self._reader.invalid_bytes

    def take(self, pairs: Sequence[tuple[bytes, int]]) -> None:
        """Take some reads, each its bytes and its monotonic arrival in nanoseconds.

        Raises:
            OversizedEvent: an event is too long; nothing more can be taken.
        """
        at = 0
        while at < len(pairs):
            if self._template is not None and self._reader.between:
                texts, arrivals_ns = self._template.texts(pairs, at)
                if texts:
                    self.timeline.add_texts(texts, arrivals_ns)
                    self.last_ns = arrivals_ns[-1]
                    self._tries = 0
                    at += len(texts)
                    continue
            self._take_one(*pairs[at])
            at += 1

    def finish(self) -> None:
        """Take the end of the stream.

        Raises:
            OversizedEvent: an event is too long.
        """
        self._add(self._reader.finish())

    def _take_one(self, data: bytes, arrival_ns: int) -> None:
        text = self._add(self._reader.feed(data, arrival_ns))
        if text is not None and self._tries < TRIES:
            self._tries += 1
            self._template = Template.of(data, text, self._understood)

    def _add(self, events: list[Event]) -> str | None:
        """Add events to the timeline; return the text if that is all there was."""
        delta = None
        for name, data, arrival_ns, tail in events:
            delta = self._read_event(data, name)
            self.timeline.add(delta, arrival_ns, tail)
            self.last_ns = arrival_ns
        return delta if len(events) == 1 and isinstance(delta, str) else None

    def _understood(self, data: bytes) -> str | None:
        """Return the text that a read by itself is understood as, None if it is not one text and nothing else."""
        plain = plain_data(data)
        delta = self._read_event(plain[0], "message") if plain and len(plain) == 1 else None
        return delta if isinstance(delta, str) else None

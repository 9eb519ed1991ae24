"""Plays streams to reader, protocol and timeline, cut in every way; and reads recorded responses.

The HTTP side (head, chunked framing, gzip) is undone here by a few lines of its own, independent of `wire`.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from llmload.protocols.openai_chat import OpenAIChat
from llmload.stream.sse import Event, SseReader
from llmload.timeline import Delta, Timeline

STREAMS = Path(__file__).parent / "data" / "streams"
STEP_NS = 20_000_000


@dataclass
class Played:
    """All that one response came to."""

    events: list[Event]
    deltas: list[Delta]
    timeline: Timeline
    reader: SseReader

    def facts(self) -> tuple[object, ...]:
        """What must not depend on where reads cut the stream."""
        line = self.timeline
        return (
            [(event.name, event.data, event.tail) for event in self.events],
            self.deltas,
            (line.token_events, line.events, line.malformed_events, line.text, line.generated, line.done, line.error),
            (line.finish_reasons, line.usage, line.ending(complete=True), line.ending(complete=False)),
            (self.reader.comments, self.reader.invalid_bytes),
        )


def play(reads: Iterable[bytes], *, arrivals: Iterable[int] | None = None) -> Played:
    """Play reads that arrive 20 ms apart, the first at 0, or at the given nanoseconds."""
    protocol = OpenAIChat()
    played = Played([], [], Timeline(), SseReader())
    times = iter(arrivals) if arrivals is not None else iter(range(0, 1 << 62, STEP_NS))

    def take(events: list[Event]) -> None:
        for event in events:
            delta = protocol.read_event(event.data, event.name)
            played.timeline.add(delta, event.arrival_ns, event.tail)
            played.events.append(event)
            played.deltas.append(Delta(delta) if isinstance(delta, str) else delta)

    for data in reads:
        take(played.reader.feed(data, next(times)))
    take(played.reader.finish())
    return played


def ways(body: bytes, *, most: int = 1 << 30) -> Iterator[list[bytes]]:
    """Yield the body byte by byte, and cut in two at every offset (at `most` evenly spread ones)."""
    yield [body[at : at + 1] for at in range(len(body))]
    for cut in range(1, len(body), max(1, len(body) // most)):
        yield [body[:cut], body[cut:]]


def play_every_way(body: bytes, *, most: int = 1 << 30) -> Played:
    """Play the body whole; fail if another way of cutting it gives anything else."""
    whole = play([body])
    for reads in ways(body, most=most):
        assert play(reads).facts() == whole.facts()
    return whole


@dataclass
class Recorded:
    """A recorded response: status, headers in lower case, decoded body, and whether the body was complete."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool


def recorded(name: str) -> Recorded:
    """Read `tests/data/streams/<name>.jsonl`."""
    lines = [json.loads(line) for line in (STREAMS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    raw = b"".join(base64.b64decode(line["b64"]) if "b64" in line else line["s"].encode() for line in lines[1:-1])
    head, _, body = raw.partition(b"\r\n\r\n")
    status_line, *rest = head.decode("latin-1").split("\r\n")
    headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in rest)}
    complete = lines[-1]["end"] == "eof"
    if headers.get("transfer-encoding") == "chunked":
        body, complete = _dechunked(body)
    if headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    return Recorded(int(status_line.split()[1]), headers, body, complete)


def _dechunked(framed: bytes) -> tuple[bytes, bool]:
    body = b""
    while framed:
        size, _, framed = framed.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if length == 0:
            return body, True
        body, framed = body + framed[:length], framed[length + 2 :]
    return body, False

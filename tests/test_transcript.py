"""Reads that are understood together come to what they come to one by one, whatever a server sends."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmload.protocols.openai_chat import OpenAIChat
from llmload.stream.template import Template
from llmload.transcript import TRIES, Transcript
from tests.playback import STEP_NS, play

HEAD, TAIL = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"', b'"},"finish_reason":null}]}\n\n'


def event(text: str, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: " + json.dumps({"id": "1", "choices": [choice], **more}, ensure_ascii=False).encode() + b"\n\n"


def taken(reads: list[bytes], batches: list[int] | None = None) -> Transcript:
    """Take the reads 20 ms apart, as many together as `batches` says, then one by one."""
    transcript = Transcript(OpenAIChat())
    pairs = [(data, number * STEP_NS) for number, data in enumerate(reads)]
    for size in itertools.chain(batches or [], itertools.repeat(1)):
        transcript.take(pairs[:size])
        del pairs[:size]
        if not pairs:
            break
    transcript.finish()
    return transcript


INNER = st.sampled_from(
    [
        b"a",
        b" b",
        "é".encode(),
        "你好".encode(),
        b"\\n",
        b'\\"',
        b"\\\\",
        b"\\",
        b"\\ud83d",
        b"\\u0041",
        b"",
        b'"',
        b'","',
        b'","x":"',
        b'"},{"delta":{"content":"',
        b"\x00",
        b"\xff",
        b"\xf0\x9f",
        b"\r",
        b"\n",
        b"\n\n",
        b"\n\ndata: ",
    ]
)
READ = (
    st.lists(INNER, max_size=3).map(lambda parts: HEAD + b"".join(parts) + TAIL)
    | st.sampled_from([HEAD, TAIL, HEAD[:-9], TAIL[3:], HEAD + b"a" + TAIL + HEAD + b"b" + TAIL, TAIL + HEAD])
    | st.sampled_from([b": ping\n\n", b"data: [DONE]\n\n", b"event: x\n", b"data: {}\n\n", b"\xef\xbb\xbf", b""])
)


@settings(max_examples=1500)
@given(st.lists(READ, max_size=16), st.lists(st.integers(1, 9), max_size=4))
def test_batches_come_to_what_single_events_come_to(reads: list[bytes], batches: list[int]) -> None:
    """Any reads, in any batches, give the timeline of the events one by one, with what was wrong about them."""
    transcript, played = taken([HEAD + b"Hi" + TAIL, *reads], batches), play([HEAD + b"Hi" + TAIL, *reads])
    assert transcript.timeline == played.timeline
    assert transcript.invalid_bytes == played.reader.invalid_bytes
    assert transcript.last_ns == (played.events[-1].arrival_ns if played.events else None)


def test_reads_of_one_template_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first text is decoded and shows the template; the ninety-nine after it are not, the finish reason is."""
    decoded: list[str] = []
    read_event = OpenAIChat.read_event
    monkeypatch.setattr(
        OpenAIChat, "read_event", lambda self, data, name: decoded.append(data) or read_event(self, data, name)
    )
    stop = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    transcript = taken([*[event(f" {number}\n") for number in range(100)], stop], [1, 30, 70])
    assert transcript.timeline.text == "".join(f" {number}\n" for number in range(100))
    assert [event("\u2603 llmload \u2603")[6:-2].decode()] == decoded[1:2]
    assert len(decoded) == 3


def test_a_place_that_is_not_the_text_makes_no_template() -> None:
    """The same text stands in another field, before the one that is meant and behind it."""
    data = b'data: {"id":"Hi","choices":[{"delta":{"content":"Hi"}}],"user":"Hi"}\n\n'
    other = data.replace(b'"content":"Hi"', b'"content":"Ho"')
    assert taken([data, other, data.replace(b'"id":"Hi"', b'"id":"Hu"')]).timeline.text == "HiHoHi"
    # given twice, the last one counts for JSON: only that one may vary
    twice = [b'data: {"choices":[{"delta":{"content":"%s","content":"Hi"}}]}\n\n' % text for text in (b"Hi", b"Ho")]
    assert taken(twice).timeline.text == "HiHi"


def test_what_changes_each_time_is_decoded_each_time() -> None:
    """Events with a text of random length beside the token (OpenAI's `obfuscation`) have no template."""
    reads = [event(f" {number}", obfuscation="x" * (number % 7 + 1)) for number in range(3 * TRIES)]
    assert taken(reads).timeline.text == "".join(f" {number}" for number in range(3 * TRIES))


def test_a_time_that_moves_on_makes_a_new_template() -> None:
    """llama.cpp's `created` counts seconds: each second has a template of its own, however many there are."""
    reads = [event(f" {number}", created=1_700_000_000 + number // 10) for number in range(20 * TRIES)]
    assert taken(reads, [7] * 30).timeline == play(reads).timeline


def test_a_byte_order_mark_is_no_part_of_a_template() -> None:
    """Only the first read of a stream may begin with one: a later one is an event that nobody understands."""
    marked = b"\xef\xbb\xbf" + event("a")
    timeline = taken([marked, event("b"), marked]).timeline
    assert (timeline.text, timeline.malformed_events) == (play([marked, event("b"), marked]).timeline.text, 0)


def test_no_template_without_the_text_as_it_is() -> None:
    """A server that escapes what need not be is decoded."""
    data = HEAD + b"\\u0041" + TAIL
    assert Template.of(data, "A", lambda _: None) is None
    assert taken([data, data]).timeline.text == "AA"

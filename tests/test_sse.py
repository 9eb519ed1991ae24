"""Reads become the events that the specification says, however the network cut them."""

from __future__ import annotations

import codecs
import itertools
import json
import logging

import pytest
import sseclient
from hypothesis import given, settings
from hypothesis import strategies as st

from llmload.stream.frames import Frames
from llmload.stream.sse import Event, OversizedEvent, SseReader, plain_data
from tests.playback import STEP_NS, Played, play, play_every_way, ways

X = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


def datas(played: Played) -> list[str]:
    return [event.data for event in played.events]


def test_unicode_line_separators_inside_json_are_text() -> None:
    """SSE-01: lines end at CR and LF only; U+2028, U+0085 and U+2029 arrive inside the content."""
    body = b'data: {"choices":[{"index":0,"delta":{"content":"a\xe2\x80\xa8b\xc2\x85c\xe2\x80\xa9d"}}]}\n\n' + DONE
    played = play_every_way(body)
    assert played.timeline.text == "a\u2028b\u0085c\u2029d"
    assert len(played.events) == 2


def test_a_character_may_be_split_over_reads() -> None:
    """SSE-02: a character that arrives in pieces is whole, and nothing is counted as invalid."""
    start, end = b'data: {"choices":[{"delta":{"content":"\xe4\xbd', b'\xa0\xf0\x9f\x98\x80"}}]}\n\n'
    assert play([start, end]).timeline.text == "你😀"
    played = play_every_way(start + end)
    assert (played.timeline.text, played.reader.invalid_bytes) == ("你😀", 0)


def test_keep_alive_comments_are_no_events() -> None:
    """SSE-03: comments are counted and nothing else; the first token is timed by the read that brought it."""
    comments = b": keep-alive\n\n:\n\n: OPENROUTER PROCESSING\n\n"
    played = play([comments, X + DONE], arrivals=[0, 2_000_000_000])
    assert (played.timeline.first_token_ns, played.timeline.events) == (2_000_000_000, 2)
    assert play_every_way(comments + X + DONE).reader.comments == 3


def test_the_space_after_the_colon_is_optional() -> None:
    """SSE-08: `data:x` is `data: x`, and a second space is part of the data."""
    body = b'data:{"choices":[{"delta":{"content":"x"}}]}\n\ndata:[DONE]\n\n'
    played = play_every_way(body)
    assert (played.timeline.text, played.timeline.done) == ("x", True)
    assert datas(play_every_way(b"data:  a\n\n")) == [" a"]


def test_mixed_line_ends_end_frames() -> None:
    """SSE-05: an LF line with a CRLF blank line ends a frame."""
    played = play_every_way(b'data: {"a":1}\n\r\ndata: {"a":2}\n\r\ndata: {"a":3}\r\rdata: {"a":4}\r\n\n')
    assert datas(played) == ['{"a":1}', '{"a":2}', '{"a":3}', '{"a":4}']


def test_a_crlf_may_be_cut_between_its_bytes() -> None:
    """SSE-07: a CRLF that the network cut is one line end."""
    reads = [b"data: A\r\n", b"data: B\r", b"\ndata: C\r\n", b"\r\n"]
    assert datas(play(reads)) == ["A\nB\nC"]
    assert datas(play_every_way(b"".join(reads))) == ["A\nB\nC"]


def test_an_event_that_ends_in_cr_arrives_with_that_cr() -> None:
    """An event is not held back to see whether an LF follows its last CR."""
    reader = SseReader()
    assert reader.feed(b"data: A\r\n\r", 7) == [Event("message", "A", 7)]
    assert reader.feed(b"\n", 9) == []
    assert reader.feed(b"data: B\r\r", 11) == [Event("message", "B", 11)]
    assert reader.finish() == []


def test_blocks_without_data_are_skipped() -> None:
    """SSE-09: id, retry and event lines alone, and empty data, are no events."""
    body = b"retry: 3000\n\nid: 7\n\nevent: ping\n\ndata:\n\ndata\n\n" + X
    played = play_every_way(body)
    assert (len(played.events), played.timeline.text, played.timeline.malformed_events) == (1, "x", 0)


def test_a_named_event_with_empty_data_is_an_event() -> None:
    """The name of an event may be all that it says."""
    assert [(event.name, event.data) for event in play_every_way(b"event: error\ndata:\n\n").events] == [("error", "")]


def test_a_name_holds_for_its_own_event_only() -> None:
    """Each event begins as `message` again, also when the parser is used for many reads."""
    reader = SseReader()
    names = [event.name for data in (b"event: a\ndata: 1\n\n", b"data: 2\n\n") for event in reader.feed(data, 0)]
    assert names == ["a", "message"]


def test_a_comment_inside_data_is_one_malformed_event() -> None:
    """SSE-10: a comment that a gateway wrapped into a data field is counted, and the answer is good."""
    timeline = play_every_way(b"data: : PROCESSING\n\n" + X + DONE).timeline
    assert (timeline.malformed_events, timeline.text, timeline.ending(complete=True)) == (1, "x", None)


def test_a_stream_of_malformed_events_is_bad() -> None:
    """SSE-10: when no event but the end marker can be understood, the stream is bad."""
    timeline = play_every_way(b"data: : PROCESSING\n\ndata: nonsense\n\n" + DONE).timeline
    assert (timeline.malformed_events, timeline.ending(complete=True)) == (2, "bad_stream")


def test_a_last_frame_without_blank_line_is_accepted() -> None:
    """SSE-13: a whole event at the end of the stream counts though its blank line, or its line end, is missing."""
    for end in (b"data: [DONE]\n", b"data: [DONE]", b"data: [DONE]\r"):
        played = play_every_way(X + end)
        assert (played.timeline.done, played.timeline.ending(complete=True)) == (True, None)
        assert [event.tail for event in played.events] == [False, True]


def test_a_frame_cut_in_its_middle_is_truncated_not_malformed() -> None:
    """SSE-13: partial JSON at the end keeps the tokens before it, and the answer is truncated."""
    played = play_every_way(X + b'data: {"choices":[{"del')
    timeline = played.timeline
    assert (timeline.token_events, timeline.malformed_events) == (1, 0)
    assert timeline.ending(complete=True) == timeline.ending(complete=False) == "truncated"


def test_a_stream_that_is_only_a_cut_frame_is_truncated() -> None:
    """SSE-13: half an event alone is no malformed stream."""
    assert play_every_way(b'data: {"choices":[{"del').timeline.ending(complete=False) == "truncated"


def test_a_tail_arrives_with_the_last_read() -> None:
    """What the end of the stream completes has the arrival of the read before it."""
    reader = SseReader()
    reader.feed(X, 5)
    reader.feed(b"data: y", 8)
    assert reader.finish() == [Event("message", "y", 8, tail=True)]


def test_data_after_the_end_marker_is_read() -> None:
    """SSE-15: white space around [DONE] is nothing, and usage that comes after it counts."""
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    timeline = play_every_way(X + b"data: [DONE] \n\n" + usage + DONE).timeline
    assert timeline.usage is not None
    assert (timeline.usage.input_tokens, timeline.usage.output_tokens, timeline.done) == (3, 2, True)
    assert (timeline.malformed_events, timeline.ending(complete=True)) == (0, None)


@pytest.mark.parametrize("body", [b'{"choices":[{"message":{"content":"hello"}}]}', b"<html>login</html>", b""])
def test_a_body_that_is_no_event_stream_has_no_events(body: bytes) -> None:
    """SSE-17: JSON, HTML or nothing, read as a stream, are no events and no good answer."""
    played = play_every_way(body)
    assert (played.events, played.timeline.ending(complete=True)) == ([], "truncated")


def test_an_invalid_byte_costs_one_character() -> None:
    """SSE-18: a byte that is no UTF-8 becomes U+FFFD and is counted; the stream goes on."""
    ok, bad = (
        b'data: {"choices":[{"delta":{"content":"ok"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
    )
    played = play_every_way(ok + bad + DONE)
    assert (played.timeline.text, played.reader.invalid_bytes) == ("ok\ufffd", 1)
    assert played.timeline.ending(complete=True) is None


def test_a_byte_order_mark_does_not_hide_the_first_event() -> None:
    """The first field is read though the stream begins with a byte order mark."""
    assert play_every_way(b"\xef\xbb\xbf" + X).timeline.text == "x"


def test_events_of_one_read_share_its_arrival() -> None:
    """Each call is one read: its events carry its arrival, also the one that began earlier."""
    reader = SseReader()
    assert reader.feed(b"data: a\n\ndata: b", 10) == [Event("message", "a", 10)]
    assert reader.feed(b"", 15) == []
    assert reader.feed(b"\n\ndata: c\n\n", 20) == [Event("message", "b", 20), Event("message", "c", 20)]


def test_an_event_longer_than_the_limit_is_refused() -> None:
    """The limit of 8 MiB can be set, and an event beyond it raises whatever its cuts."""
    assert play([b"data: " + b"x" * 8_000_000 + b"\n\n"]).events[0].data == "x" * 8_000_000
    for reads in ways(b"data: 0123456789\n\n"):
        reader = SseReader(max_event_bytes=16)
        with pytest.raises(OversizedEvent):
            [reader.feed(data, 0) for data in reads]


def test_debug_logging_does_not_reach_the_parser(caplog: pytest.LogCaptureFixture) -> None:
    """A run at DEBUG does not log every event: the answers would be in the log, and the log in the times."""
    with caplog.at_level(logging.DEBUG):
        play([b"nonsense: 1\n" + X])
    assert caplog.records == []


def reference(body: bytes) -> list[tuple[str, str]]:
    """Parse as the specification reads, one character at a time, at the end of the stream."""
    # Not final: a character that the end of the stream cuts is left out.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(body).removeprefix("\ufeff")
    lines, line, after_cr = [], "", False
    for character in text:
        if character == "\n" and after_cr:
            after_cr = False
            continue
        after_cr = character == "\r"
        if character in "\r\n":
            lines.append(line)
            line = ""
        else:
            line += character
    events, data, name = [], "", ""
    for entry in [*lines, line, ""]:
        if entry == "":
            if data and (data != "\n" or name not in ("", "message")):
                events.append((name or "message", data.removesuffix("\n")))
            data = name = ""
            continue
        field, colon, value = entry.partition(":")
        value = value.removeprefix(" ") if colon else ""
        if field == "data":
            data += value + "\n"
        elif field == "event":
            name = value
    return events


LINE_END = st.sampled_from([b"\n", b"\r\n", b"\r"])
BLANK_LINES = [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\n\r", b"\r\n\n", b"\r\n\r"]
VALUE = st.one_of(st.text(max_size=6).map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=6))
FIELD = st.sampled_from(
    [b"data:", b"data: ", b"event:", b"event: ", b"id: ", b"retry:", b":", b"data", b"other: ", b" ", b""]
)
STREAM = st.lists(st.one_of(st.tuples(FIELD, VALUE, LINE_END).map(b"".join), LINE_END), max_size=12).map(b"".join)


@settings(max_examples=250, deadline=None)
@given(st.one_of(STREAM, STREAM.map(lambda body: b"\xef\xbb\xbf" + body)), st.lists(st.integers(0, 200), max_size=8))
def test_any_stream_is_parsed_as_the_specification_says(body: bytes, cuts: list[int]) -> None:
    """Random fields with random line ends and cuts give the events of an independent parser of the specification."""
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    reads = [body[start:end] for start, end in itertools.pairwise(edges)]
    for way in (reads, [body], [body[at : at + 1] for at in range(len(body))]):
        reader = SseReader()
        events = []
        for number, data in enumerate(way):
            came = reader.feed(data, number * STEP_NS)
            assert all(event.arrival_ns == number * STEP_NS for event in came)
            events += came
        events += reader.finish()
        assert [(event.name, event.data) for event in events] == reference(body)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(), max_size=6), st.sampled_from(BLANK_LINES), st.data())
def test_random_texts_survive_random_line_ends_and_cuts(texts: list[str], end: bytes, data: st.DataObject) -> None:
    """What a server put into its deltas is what is read, whole and cut at random."""
    chunks = [json.dumps({"choices": [{"delta": {"content": text}}]}, ensure_ascii=False) for text in texts]
    body = b"".join(b"data: " + chunk.encode("utf-8", "replace") + end for chunk in chunks)
    cut = data.draw(st.integers(0, len(body)))
    expected = "".join(texts).encode("utf-8", "replace").decode()
    assert play([body]).timeline.text == play([body[:cut], body[cut:]]).timeline.text == expected


def by_sseclient(reads: list[bytes]) -> list[tuple[str, str]]:
    """Read a stream with sseclient-py alone, over `Frames`."""
    frames = Frames(max_frame_bytes=1 << 20)
    blocks = [*map(frames.feed, reads), frames.finish()]
    events = itertools.chain.from_iterable(sseclient.SSEClient([block]).events() for block in blocks if block)
    return [(event.event, event.data) for event in events if event.data or event.event != "message"]


PIECES = [
    b"data: ",
    b"data:",
    b"data",
    b"event: x",
    b"event:",
    b"id: 1",
    b": c",
    b":",
    b" ",
    b"{}",
    b"x",
    b"\0",
    b"\x0b\x1c",
]
PIECES += [
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"\r\n\r\n",
    codecs.BOM_UTF8,
    "é".encode(),
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\xff",
]
LIKELY = [b"data: {}\n\n", b"data:x\n\n", b"data:  y\n\n", b"data:\n\n", b"data: [DONE]\r\n\r\n"]


@settings(max_examples=1000)
@given(
    st.lists(st.sampled_from(PIECES) | st.sampled_from(LIKELY), max_size=24), st.lists(st.integers(0, 120), max_size=6)
)
def test_plain_frames_are_read_as_sseclient_reads_them(pieces: list[bytes], cuts: list[int]) -> None:
    """The short way for frames of one data line gives the events of sseclient-py, for any stream and any cuts."""
    body = b"".join(pieces)
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    reads = [body[start:end] for start, end in itertools.pairwise(edges)]
    assert [(event.name, event.data) for event in play(reads).events] == by_sseclient(reads)


def test_which_frames_are_plain() -> None:
    """One data line each; anything else is left to sseclient-py."""
    assert plain_data(b"data: a\n\ndata:b\n\ndata:\n\ndata:  \xc3\xa9\n\n") == ["a", "b", "", " é"]
    for other in (b"data\n\n", b"event: x\ndata: a\n\n", b"data: a\ndata: b\n\n", b"data: a\n\n\n", b"\ndata: a\n\n"):
        assert plain_data(other) is None

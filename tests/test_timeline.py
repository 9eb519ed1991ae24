"""Which token was first, what the server counted, and how an answer ended, on made-up deltas."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmload.protocols.openai_chat import OpenAIChat
from llmload.stamps import Stamps
from llmload.timeline import Delta, Timeline, Usage
from tests.playback import STEP_NS, play, play_every_way

MS = 1_000_000
DONE = b"data: [DONE]\n\n"
STOP = Delta(finish_reasons=((0, "stop"),))


def line(*deltas: Delta | tuple[float, Delta]) -> Timeline:
    """A timeline of deltas in reads of their own, 20 ms apart, or at the given milliseconds."""
    timeline = Timeline()
    for read, item in enumerate(deltas):
        at_ms, delta = (read * STEP_NS / MS, item) if isinstance(item, Delta) else item
        timeline.add(delta, int(at_ms * MS))
    return timeline


def chunk(text: str | None = None, reason: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"choices": [{"index": index, "delta": delta, "finish_reason": reason}], **more}


def counted(tokens: int, prompt: int = 3) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}


def stream(*payloads: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n" for payload in payloads)


# the first token


@pytest.mark.parametrize("content", ["", None])
def test_a_role_chunk_is_not_the_first_token(content: str | None) -> None:
    """TOK-01: a role chunk at 10 ms and text at 910 ms make a first token at 910 ms."""
    role = stream({"choices": [{"delta": {"role": "assistant", "content": content}}]})
    timeline = play([role, stream(chunk("A"))], arrivals=[10 * MS, 910 * MS]).timeline
    assert (timeline.first_token_ns, timeline.first_answer_ns) == (910 * MS, 910 * MS)


@pytest.mark.parametrize(
    "part",
    [
        {"reasoning_content": "Hm"},
        {"reasoning": "Hm"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]},
    ],
)
def test_reasoning_is_the_first_token_but_not_the_first_answer(part: dict[str, Any]) -> None:
    """TOK-02: reasoning from 50 ms on and an answer at 1,050 ms are two different firsts."""
    reads = [stream({"choices": [{"delta": part}]})] * 20 + [stream(chunk("A", "stop"))]
    timeline = play(reads, arrivals=range(50 * MS, 1051 * MS, 50 * MS)).timeline
    assert (timeline.first_token_ns, timeline.first_answer_ns) == (50 * MS, 1050 * MS)
    assert (timeline.token_events, timeline.text, timeline.generated) == (21, "A", "A" + "Hm" * 20)


def test_encrypted_reasoning_is_no_token() -> None:
    """TOK-02: a reasoning detail without text does not move the first token."""
    encrypted = {"choices": [{"delta": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "AA"}]}}]}
    timeline = play([stream(encrypted), stream(chunk("A"))]).timeline
    assert (timeline.first_token_ns, timeline.token_events) == (STEP_NS, 1)


def test_an_answer_without_tokens_has_no_first_token() -> None:
    """TOK-03: a first token that never came is None, not 0, and the answer is empty."""
    timeline = play_every_way(stream(chunk(reason="stop")) + DONE).timeline
    assert (timeline.first_token_ns, timeline.first_answer_ns, timeline.last_token_ns) == (None, None, None)
    assert (timeline.token_events, timeline.ending(complete=True)) == (0, "empty")


def test_a_tool_call_is_an_answer() -> None:
    """TOK-13: the name of a called function is the first token of the answer, and the call is a good ending."""
    call = {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}}]}
    more = {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]}
    reads = [stream(call), stream(more), stream(chunk(reason="tool_calls")) + DONE]
    timeline = play(reads).timeline
    assert (timeline.first_token_ns, timeline.first_answer_ns, timeline.last_token_ns) == (0, 0, STEP_NS)
    assert (timeline.text, timeline.generated, timeline.ending(complete=True)) == ("", "f{}", None)


@given(st.lists(st.tuples(st.sampled_from(["a", "bc", "é"]), st.integers(0, 2)), min_size=1), st.integers(0, 9))
def test_texts_together_are_texts_one_by_one(steps: list[tuple[str, int]], cut: int) -> None:
    """`add_texts` comes to what `add` comes to, also where events share a read, within a batch and across."""
    texts = [text for text, _ in steps]
    arrivals_ns = list(accumulate(step for _, step in steps))
    one_by_one, together = Timeline(), Timeline()
    for text, arrival_ns in zip(texts, arrivals_ns, strict=True):
        one_by_one.add(text, arrival_ns)
    for part in (slice(0, cut), slice(cut, None)):
        if texts[part]:
            together.add_texts(texts[part], arrivals_ns[part])
    assert together == one_by_one


def test_empty_deltas_before_a_character_are_no_tokens() -> None:
    """UNI-01: three empty deltas and an emoji are one token event; usage says that it took four tokens."""
    reads = [stream(chunk("")), stream(chunk("")), stream(chunk("")), stream(chunk("😀", "stop", usage=counted(4)))]
    timeline = play(reads).timeline
    assert (timeline.first_token_ns, timeline.token_events, timeline.usage) == (3 * STEP_NS, 1, Usage(3, 4))


def test_replacement_characters_from_the_server_are_text() -> None:
    """UNI-01: U+FFFD that the server itself sent is generated text and no invalid byte."""
    played = play_every_way(stream(chunk("\ufffd"), chunk("\ufffd", "stop")) + DONE)
    assert (played.timeline.text, played.timeline.token_events, played.reader.invalid_bytes) == ("\ufffd" * 2, 2, 0)


def test_the_halves_of_a_character_are_joined() -> None:
    """A character whose escaped halves came in two events is one, and half of one is U+FFFD."""
    body = b"".join(
        b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % half for half in (rb"a\ud83d", rb"\ude00b", rb"\ud83d")
    )
    assert play_every_way(body).timeline.text == "a😀b\ufffd"


# reads and gaps


def test_gaps_do_not_contain_the_first_token() -> None:
    """TOK-17: tokens at 5 s, +20 ms and +20 ms are two gaps of 20 ms."""
    token = Delta(answer="x")
    arrivals_ns = line((5000, token), (5020, token), (5040, token)).arrivals_ns
    gaps_ns = [after - before for before, after in pairwise(arrivals_ns)]
    assert gaps_ns == [20 * MS, 20 * MS]


def test_comments_and_usage_do_not_move_the_last_token() -> None:
    """SSE-03: the last token is the last text, whatever comes after it."""
    reads = [stream(chunk("a")), b": ping\n\n", stream(chunk(reason="stop")), stream({"usage": counted(1)}) + DONE]
    timeline = play(reads).timeline
    assert (timeline.arrivals_ns, timeline.events_per_read, timeline.last_token_ns) == ([0], [1], 0)


def test_events_of_one_read_are_one_read_of_several_events() -> None:
    """Events that shared a read are counted in it, and it has one arrival."""
    timeline = play([stream(chunk("a")), stream(chunk("b"), chunk("c"), chunk("")), stream(chunk("d"))]).timeline
    assert (timeline.arrivals_ns, timeline.events_per_read) == ([0, STEP_NS, 2 * STEP_NS], [1, 2, 1])
    assert (timeline.token_events, timeline.bursts) == (4, 1)


def test_several_tokens_a_chunk_are_counted_by_the_server() -> None:
    """TOK-04: four chunks 100 ms apart with a usage of 20 are 4 events and 20 tokens."""
    reads = [stream(chunk("a b c d e")) for _ in range(4)] + [stream(chunk(reason="stop", usage=counted(20)))]
    timeline = play(reads, arrivals=range(0, 500 * MS, 100 * MS)).timeline
    assert (timeline.token_events, timeline.usage) == (4, Usage(3, 20))
    assert (timeline.first_token_ns, timeline.last_token_ns) == (0, 300 * MS)


def test_two_tokens_in_one_chunk_have_one_arrival() -> None:
    """TOK-08: with both tokens in one chunk there is no time between the first and the last."""
    timeline = play([stream(chunk("a b", "stop", usage=counted(2)))]).timeline
    assert (timeline.arrivals_ns, timeline.events_per_read, timeline.last_token_ns) == ([0], [1], 0)


def test_a_buffered_stream_is_all_bursts() -> None:
    """TOK-09: of 60 events in one read, 59 came with the one before; events 20 ms apart are no bursts."""
    events = [stream(chunk("x")) for _ in range(60)]
    whole, apart = play([b"".join(events)]).timeline, play(events).timeline
    assert (whole.bursts, whole.arrivals_ns, whole.events_per_read) == (59, [0], [60])
    assert (apart.bursts, apart.events_per_read) == (0, [1] * 60)


@pytest.mark.parametrize(("gap_ms", "bursts"), [(1.999999, 1), (2, 0)])
def test_a_burst_is_less_than_two_milliseconds(gap_ms: float, bursts: int) -> None:
    """Events in different reads are a burst when less than 2 ms lie between them."""
    assert line((0, Delta(answer="a")), (gap_ms, Delta(answer="b"))).bursts == bursts


# usage


def test_white_space_tokens_are_counted_by_the_server() -> None:
    """TOK-11: 100 chunks of one space are 100 tokens, as usage says, though the text looks empty."""
    body = stream(*[chunk(" ")] * 100, chunk(reason="length", usage=counted(100))) + DONE
    timeline = play([body]).timeline
    assert (timeline.token_events, timeline.usage, timeline.text) == (100, Usage(3, 100), " " * 100)


def test_a_stream_without_usage_has_none() -> None:
    """USE-02: usage that was never sent is None."""
    timeline = play_every_way(stream(chunk("a"), chunk(reason="stop")) + DONE).timeline
    assert (timeline.usage, timeline.ending(complete=True)) == (None, None)


def test_the_last_usage_that_says_something_holds() -> None:
    """USE-03: null or empty usage after the real one does not take it away."""
    body = stream(
        chunk("a", "stop"),
        {"choices": [], "usage": counted(7)},
        {"choices": [], "usage": None},
        {"choices": [], "usage": {}},
    )
    assert play_every_way(body + DONE).timeline.usage == Usage(3, 7)


def test_usage_in_every_chunk_is_cumulative() -> None:
    """USE-04: of counts 1, 4, 5, 99 the last holds; they are not added."""
    body = stream(*[chunk("x", usage=counted(count)) for count in (1, 4, 5, 99)], chunk(reason="stop"))
    assert play_every_way(body + DONE).timeline.usage == Usage(3, 99)


def test_usage_in_parts_is_put_together() -> None:
    """Counts that come in different events are all kept, each with its last value."""
    timeline = line(
        Delta(usage=Usage(input_tokens=9)), Delta(usage=Usage(output_tokens=2)), Delta(usage=Usage(None, 5))
    )
    assert timeline.usage == Usage(9, 5)


def test_counts_of_each_choice_are_added() -> None:
    """llama.cpp with n=2: one usage chunk a choice, the first before the other choice's end, 8 + 8 tokens."""
    one = {"choices": [], "usage": counted(8, prompt=34)}
    body = stream(
        chunk("a", index=0),
        chunk("b", index=1),
        chunk(None, "length", 1),
        one,
        chunk("a"),
        chunk(None, "length", 0),
        one,
    )
    assert play_every_way(body + DONE).timeline.usage == Usage(34, 16)


def test_counts_of_choices_that_came_one_after_the_other_are_added() -> None:
    """The same when the second choice begins after the first has ended."""
    one = {"choices": [], "usage": counted(8)}
    body = stream(chunk("a"), chunk(None, "stop", 0), one, chunk("b", index=1), chunk(None, "stop", 1), one)
    assert play_every_way(body + DONE).timeline.usage == Usage(3, 16)


def test_a_total_for_all_choices_is_not_added_to_anything() -> None:
    """vLLM with n=2: counts of each choice in its chunks, then one total, which is what holds."""
    body = stream(
        chunk("a", index=0, usage=counted(1)),
        chunk("b", index=1, usage=counted(1)),
        chunk("a", "stop", 0, usage=counted(2)),
        chunk("b", "stop", 1, usage=counted(3)),
    )
    total = {"choices": [], "usage": counted(5)}
    assert play_every_way(body + DONE).timeline.usage == Usage(3, 5)
    assert play_every_way(body + stream(total) + DONE).timeline.usage == Usage(3, 5)
    plain = stream(chunk("a", "stop", 0), chunk("b", "stop", 1), total)
    assert play_every_way(plain + DONE).timeline.usage == Usage(3, 5)


def test_counts_of_one_choice_of_two_are_not_doubled() -> None:
    """When the second choice never finished, the last counts hold as they are."""
    body = stream(chunk("a", "stop", 0), {"choices": [], "usage": counted(8)}, chunk("b", index=1))
    assert play_every_way(body).timeline.usage == Usage(3, 8)


def test_a_middle_usage_of_one_choice_is_not_added_to_its_last() -> None:
    """One choice has one count, however often and wherever it is given."""
    bare = {"choices": [], "usage": counted(4)}
    body = stream(bare, chunk("a", usage=counted(5)), chunk(None, "stop", usage=counted(6)), {"usage": counted(7)})
    assert play_every_way(body).timeline.usage == Usage(3, 7)


# endings


def endings(timeline: Timeline) -> tuple[str | None, str | None]:
    return timeline.ending(complete=True), timeline.ending(complete=False)


@pytest.mark.parametrize(
    ("deltas", "kind"),
    [
        ([], "truncated"),
        ([Delta()], "truncated"),
        ([Delta(answer="a")], "truncated"),
        ([Delta(done=True)], "empty"),
        ([STOP], "empty"),
        ([Delta(answer="a"), STOP], None),
        ([Delta(answer="a"), Delta(done=True)], None),
        ([Delta(answer="a", finish_reasons=((0, "length"),))], None),
        ([Delta(reasoning="Hm"), STOP], None),
        ([Delta(tool="f"), Delta(finish_reasons=((0, "tool_calls"),))], None),
        ([Delta(malformed=True)], "bad_stream"),
        ([Delta(malformed=True), Delta(done=True)], "bad_stream"),
        ([Delta(malformed=True), Delta(answer="a"), STOP], None),
        ([Delta(malformed=True), Delta()], "truncated"),
        ([Delta(answer="a"), Delta(error="x"), STOP, Delta(done=True)], "provider_error"),
        ([Delta(malformed=True), Delta(error="x")], "provider_error"),
        ([Delta(answer="a"), Delta(finish_reasons=((0, "error"),))], "provider_error"),
        ([Delta(answer="a"), Delta(finish_reasons=((0, "content_filter"),))], "content_filter"),
        ([Delta(finish_reasons=((0, "stop"), (1, "content_filter")))], "content_filter"),
        ([Delta(finish_reasons=((0, "content_filter"), (1, "error")))], "provider_error"),
    ],
)
def test_an_answer_ends_in_one_way(deltas: list[Delta], kind: str | None) -> None:
    """ERR-04, ERR-10: what was received decides the ending, the same for a body that broke off."""
    assert endings(line(*deltas)) == (kind, kind)


def test_a_stream_that_just_stops_is_truncated() -> None:
    """ERR-04: three texts and a proper end of the body, without finish reason and end marker, are no answer."""
    timeline = play_every_way(stream(chunk("a"), chunk("b"), chunk("c"))).timeline
    assert (timeline.ending(complete=True), timeline.text) == ("truncated", "abc")


def test_a_server_without_end_marker_is_fine() -> None:
    """ERR-04: a finish reason is enough; transformers and others never send [DONE]."""
    assert endings(play_every_way(stream(chunk("a"), chunk(reason="stop"))).timeline) == (None, None)


def test_a_choice_that_broke_off_makes_the_answer_truncated() -> None:
    """With text after the last finish reason it matters whether the body ended as it should."""
    body = stream(chunk("a", "stop", 0), chunk("b", index=1))
    assert endings(play_every_way(body).timeline) == (None, "truncated")
    assert endings(play_every_way(body + DONE).timeline) == (None, None)


def test_the_first_error_is_kept() -> None:
    """Later errors of the same answer follow from the first."""
    assert line(Delta(error="a"), Delta(error="b")).error == "a"


@pytest.mark.parametrize(
    ("reasons", "worst"),
    [
        ({0: "stop"}, "stop"),
        ({0: "stop", 1: "tool_calls"}, "tool_calls"),
        ({0: "stop", 1: "length", 2: "tool_calls"}, "length"),
        ({0: "length", 1: "content_filter"}, "content_filter"),
        ({0: "content_filter", 1: "error"}, "error"),
        ({0: "stop", 1: "insufficient_system_resource"}, "insufficient_system_resource"),
        ({}, None),
    ],
)
def test_the_finish_reason_of_several_choices_is_the_worst(reasons: dict[int, str], worst: str | None) -> None:
    """Of several choices the one that went worst speaks for the request."""
    assert line(Delta(finish_reasons=tuple(reasons.items()))).finish_reason == worst


def test_a_cut_tail_is_not_an_event() -> None:
    """SSE-13: a tail that cannot be understood is no event; one that can is."""
    timeline = Timeline()
    timeline.add(Delta(malformed=True), 1, True)
    assert (timeline.events, timeline.malformed_events, timeline.ending(complete=False)) == (0, 0, "truncated")
    timeline.add(Delta(answer="a"), 1, True)
    assert (timeline.events, timeline.text) == (1, "a")


def test_an_answer_that_was_not_streamed_ends_well() -> None:
    """TOK-16: one delta of a whole body is a good answer, without a finish reason too."""
    body = json.dumps({"choices": [{"message": {"content": "hello"}}]}).encode()
    assert endings(line(OpenAIChat().read_answer(body))) == (None, None)
    assert endings(line(OpenAIChat().read_answer(b'{"choices":[]}'))) == ("empty", "empty")
    assert endings(line(OpenAIChat().read_answer(b"<html>"))) == ("bad_stream", "bad_stream")


# stamps


def test_the_origin_lies_before_the_connection_that_the_request_opened() -> None:
    """TOK-15: DNS, connect and TLS are part of the request that paid for them; a reused connection costs nothing."""
    opened = Stamps(asked_ns=0, sent_ns=1000, dns_ns=100, connect_ns=200, tls_ns=300)
    assert (opened.setup_ns, opened.origin_ns) == (600, 400)
    reused = Stamps(asked_ns=0, sent_ns=1000, reused=True)
    assert (reused.setup_ns, reused.origin_ns) == (0, 1000)
    assert Stamps(asked_ns=0).origin_ns is None

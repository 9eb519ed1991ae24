"""The OpenAI dialect: what is asked for, and what each shape of event, answer and error means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmload.protocols import ChatProtocol
from llmload.protocols.openai_chat import OpenAIChat, _decoded, _plain_text, _read
from llmload.protocols.openai_usage import MAX_COUNT
from llmload.records import ChatRequest
from llmload.timeline import Delta, Timeline, Usage
from tests.playback import play_every_way

CHAT: ChatProtocol = OpenAIChat()


def event(data: str, name: str = "message") -> Delta:
    """What an event says, also where it is plain text."""
    found = CHAT.read_event(data, name)
    return Delta(found) if isinstance(found, str) else found


def read(payload: Any, *, name: str = "message") -> Delta:
    return event(json.dumps(payload), name)


def delta(**parts: Any) -> Delta:
    return read({"choices": [{"index": 0, "delta": parts, "finish_reason": None}]})


def asked(request: ChatRequest, **settings: Any) -> Any:
    return json.loads(OpenAIChat(**settings).encode(request))


def stream(*payloads: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads)


# what is asked for


def test_a_request_says_only_what_was_set() -> None:
    """Fields that are None are left out; usage is asked for in streams."""
    request = ChatRequest([{"role": "user", "content": "Hi"}], "m")
    assert asked(request) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_usage_is_not_asked_for_where_it_is_not_wanted_or_not_needed() -> None:
    """USE-08: `stream_options` can be left out, and is never sent without a stream."""
    assert "stream_options" not in asked(ChatRequest([], "m"), ask_usage=False)
    assert asked(ChatRequest([], "m", stream=False)) == {"model": "m", "messages": [], "stream": False}


def test_the_name_of_the_token_limit_can_be_chosen() -> None:
    """CFG-04: endpoints differ in what they call the limit."""
    request = ChatRequest([], "m", max_tokens=5, temperature=0.0)
    assert asked(request)["max_tokens"] == 5
    assert asked(request)["temperature"] == 0.0
    body = asked(request, max_tokens_field="max_completion_tokens")
    assert (body["max_completion_tokens"], "max_tokens" in body) == (5, False)


def test_extra_body_overrides_everything() -> None:
    """`extra_body` is merged last, whole keys at a time."""
    body = asked(ChatRequest([], "m", max_tokens=5, extra_body={"max_tokens": 6, "stream_options": None, "top_k": 1}))
    assert (body["max_tokens"], body["stream_options"], body["top_k"]) == (6, None, 1)


def test_a_request_is_utf8_also_with_half_a_character() -> None:
    """Text is sent as UTF-8, not as escapes, and a lone surrogate does not stop the request."""
    body = OpenAIChat().encode(ChatRequest([{"role": "user", "content": "你\ud83d"}], "m"))
    assert '"content":"你?"'.encode() in body


def test_headers_carry_the_key_if_there_is_one() -> None:
    """A key becomes a bearer token; without one there is no such header."""
    assert CHAT.headers(None) == {"Content-Type": "application/json", "Accept": "application/json"}
    assert CHAT.headers("k")["Authorization"] == "Bearer k"


def test_paths_are_below_the_base_url() -> None:
    """The dialect's name and paths are what the target and the records use."""
    assert (CHAT.name, CHAT.path, CHAT.models_path) == ("openai_chat", "/chat/completions", "/models")


# text


def test_generated_text_is_found_in_every_place() -> None:
    """TOK-02: content, refusal, reasoning of every spelling, tool calls and the completions shape are text."""
    assert delta(content="A") == Delta(answer="A")
    assert delta(content=[{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]) == Delta(answer="AB")
    assert delta(refusal="No") == Delta(answer="No")
    assert delta(reasoning_content="Hm") == delta(reasoning="Hm") == Delta(reasoning="Hm")
    assert delta(reasoning_details=[{"type": "reasoning.text", "text": "Hm"}]) == Delta(reasoning="Hm")
    assert delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]) == Delta(reasoning="Hm")
    assert delta(function_call={"name": "f", "arguments": "{}"}) == Delta(tool="f{}")
    assert read({"choices": [{"text": "x", "finish_reason": None}]}) == Delta(answer="x")


def test_tool_calls_are_text_with_their_names() -> None:
    """TOK-13: the model generated the name of a function as well as its arguments."""
    assert delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": ""}}]) == Delta(tool="f")
    assert delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a'}}]) == Delta(tool='{"a')
    assert delta(tool_calls=[{"function": {"name": "f"}}, {"function": {"name": "g"}}]) == Delta(tool="fg")


def test_reasoning_that_is_sent_twice_counts_once() -> None:
    """OpenRouter repeats the reasoning text in its details."""
    details = [{"type": "reasoning.text", "text": "Hm"}]
    assert delta(content="", reasoning="Hm", reasoning_details=details) == Delta(reasoning="Hm")


def test_a_copy_of_the_whole_message_in_a_chunk_is_not_read() -> None:
    """Perplexity sends `message`, all text so far, beside `delta`; also beside an empty one."""
    for part, text in (({"content": "b"}, "b"), ({}, "")):
        assert read({"choices": [{"delta": part, "message": {"content": "ab"}}]}) == Delta(answer=text)


@pytest.mark.parametrize(
    "parts",
    [
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"role": "assistant"},
        {},
        {"content": []},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "AAAA"}]},
        {"reasoning_content": None, "reasoning": ""},
        {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "id": "c", "type": "function"}]},
    ],
)
def test_a_delta_without_text_is_no_token(parts: dict[str, Any]) -> None:
    """TOK-01: role-only, empty, null, encrypted and type-only deltas carry no token."""
    assert delta(**parts) == Delta()


def test_several_choices_in_one_event_are_one_delta() -> None:
    """An event is one token event however many choices it is about; their finish reasons are kept apart."""
    choices = [
        {"index": 1, "delta": {"content": "b"}, "finish_reason": "length"},
        {"index": 0, "delta": {"content": "a"}, "finish_reason": None},
        {"delta": {}, "finish_reason": "stop"},
    ]
    assert read({"choices": choices}) == Delta(answer="ba", finish_reasons=((1, "length"), (2, "stop")))


# usage


def test_chunks_without_choices_are_no_tokens() -> None:
    """USE-01: empty, null and missing `choices` are fine; usage is taken from there."""
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    assert read({"id": "", "choices": [], "prompt_filter_results": []}) == Delta()
    for nothing in ({"choices": []}, {"choices": None}, {}):
        assert read({**nothing, "usage": usage}) == Delta(usage=Usage(3, 1))


def test_usage_is_read_wherever_it_is() -> None:
    """USE-06: usage in a chunk with text or a finish reason belongs to that chunk's choice."""
    usage = {"prompt_tokens": 12, "completion_tokens": 8, "total_tokens": 20}
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "length"}
    expected = Delta(finish_reasons=((0, "length"),), usage=Usage(12, 8), usage_choice=0)
    assert read({"choices": [choice], "usage": usage}) == expected
    assert read({"choices": [{**choice, "usage": usage}]}) == expected


def test_an_empty_choice_beside_usage_is_not_what_it_is_about() -> None:
    """LiteLLM puts an empty choice 0 into the usage chunk of all choices."""
    payload = {"choices": [{"index": 0, "delta": {}}], "usage": {"completion_tokens": 16}}
    assert read(payload) == Delta(usage=Usage(None, 16))


def test_details_of_usage_are_read() -> None:
    """Cached and reasoning tokens are read from the details, DeepSeek's cached tokens from their own field."""
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    assert read({"choices": [], "usage": usage}).usage == Usage(9, 7, 4, 5)
    assert read({"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 0}}).usage == Usage(9, None, 0, None)


@pytest.mark.parametrize("count", [True, False, -1, MAX_COUNT + 1, 1.5, "7", None, [7], {"a": 7}])
def test_a_count_that_is_no_count_is_passed_over(count: object) -> None:
    """Booleans, negative, absurd, fractional and textual counts are missing, not 0."""
    assert read({"usage": {"prompt_tokens": 3, "completion_tokens": count}}).usage == Usage(3, None)
    assert read({"choices": [], "usage": {"completion_tokens": count}}) == Delta()


# errors


def test_an_error_object_is_an_error() -> None:
    """ERR-01: an error under HTTP 200 is read with its code, since no status says it."""
    payload = {"error": {"message": "queue full", "type": "GatewayTimeout", "code": 504}}
    assert read(payload) == Delta(error="queue full (504)")
    timeline = play_every_way(stream(payload) + b"data: [DONE]\n\n").timeline
    assert (timeline.ending(complete=True), timeline.error) == ("provider_error", "queue full (504)")


def test_an_error_in_a_chunk_that_looks_normal_is_an_error() -> None:
    """ERR-02: OpenRouter's error chunk has choices and the finish reason `error`; tokens before it are kept."""
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    payload = {"choices": [choice], "error": {"code": "server_error", "message": "upstream gone"}}
    expected = Delta(finish_reasons=((0, "error"),), error="upstream gone (server_error)")
    assert read(payload) == expected
    assert read({"choices": [{**choice, "error": payload["error"]}]}) == expected
    timeline = play_every_way(stream({"choices": [{"delta": {"content": "a"}}]}, payload)).timeline
    assert (timeline.ending(complete=True), timeline.token_events, timeline.text) == ("provider_error", 1, "a")


def test_an_event_named_error_is_an_error() -> None:
    """ERR-03: the event's name makes it an error, whatever its data is."""
    body = b'event: error\ndata: {"message":"overloaded"}\n\n'
    assert play_every_way(body).deltas == [Delta(error="overloaded")]
    assert read({"type": "error", "error": {"type": "overloaded_error"}}, name="error").error == "overloaded_error"
    assert CHAT.read_event("gone\naway", name="error") == Delta(error="gone away")
    assert CHAT.read_event("", name="error") == Delta(error="error without a message")


def test_a_chunk_in_the_completions_shape_is_read() -> None:
    """ERR-09: one odd chunk is read as text and aborts nothing."""
    chat, odd = {"choices": [{"delta": {"content": "a"}}]}, {"choices": [{"text": "x"}]}
    timeline = play_every_way(stream(chat, odd, chat) + b"data: [DONE]\n\n").timeline
    assert (timeline.text, timeline.ending(complete=True)) == ("axa", None)


def test_errors_of_other_shapes_are_found() -> None:
    """ERR-08: choices null with an error message, `"object": "error"` and a textual error are errors."""
    odd = {"choices": None, "error_type": "BadRequestError", "error_message": "context length"}
    assert read(odd) == Delta(error="context length")
    assert read({"object": "error", "message": "no", "code": 40303}) == Delta(error="no (40303)")
    assert read({"error": "boom"}) == Delta(error="boom")
    assert read({"error": {"foo": 1}}) == read({"error": True}) == Delta(error="error without a message")


@pytest.mark.parametrize("nothing", [None, "", {}, False, []])
def test_an_empty_error_field_is_no_error(nothing: object) -> None:
    """Servers that always send the field mean nothing by an empty one."""
    assert read({"choices": [{"delta": {"content": "a"}}], "error": nothing}) == Delta(answer="a")


@pytest.mark.parametrize(("reason", "kind"), [("content_filter", "content_filter"), ("error", "provider_error")])
def test_a_finish_reason_alone_can_be_a_failure(reason: str, kind: str) -> None:
    """ERR-10: `content_filter` and `error` fail the answer also when nothing else was sent."""
    body = stream({"choices": [{"delta": {}, "finish_reason": reason}]})
    assert play_every_way(body).timeline.ending(complete=True) == kind


# answers that were not streamed


def test_a_whole_answer_is_one_delta_that_is_done() -> None:
    """TOK-16: message, reasoning, tool calls, finish reason and usage of a non-streamed body are one delta."""
    message = {
        "role": "assistant",
        "content": "hello",
        "reasoning": "Hm",
        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
    }
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}
    expected = Delta("hello", "Hm", "f{}", ((0, "stop"),), Usage(None, 1), 0, done=True)
    assert CHAT.read_answer(b"\xef\xbb\xbf" + json.dumps(body).encode()) == expected


def test_a_body_that_is_no_answer_is_malformed_or_an_error() -> None:
    """SSE-17: HTML, nothing and cut JSON are malformed; an error object under 200 is an error."""
    for body in (b"<html>login</html>", b"", b'{"choices":[', b"[]", b"\xff"):
        assert CHAT.read_answer(body) == Delta(malformed=True)
    assert CHAT.read_answer(b'{"error":"no"}') == Delta(error="no", done=True)


# error bodies and model lists


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error":{"message":"no model","type":"x","code":"404"}}', "no model"),
        ('{"error":"no model"}', "no model"),
        ('{"message":"max_completion_tokens: extra inputs"}', "max_completion_tokens: extra inputs"),
        ('{"object":"error","message":"no"}', "no"),
        ('{"error":"Unauthorized","message":"key expired"}', "key expired"),
        ('{"detail":"Not Found"}', "Not Found"),
        (
            '{"detail":[{"loc":["body","messages",0],"msg":"Field required","input":{}}]}',
            "body.messages.0: Field required",
        ),
        ('{"detail":[{"loc":["body","a"],"msg":"x"},{"loc":["body","b"],"msg":"y"}]}', "body.a: x; body.b: y"),
        ('{"error_message":"context length"}', "context length"),
        ('[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]', "bad"),
        ('{"error":{"type":"overloaded_error"}}', "overloaded_error"),
        ('{"foo":1}', '{"foo":1}'),
        ("upstream connect error\r\n  or disconnect", "upstream connect error or disconnect"),
        ("<html><head><title>502 Bad Gateway</title></head><body><h1>x</h1></body></html>", "502 Bad Gateway"),
        ("<!DOCTYPE html><p>a &amp; b</p><br>c", "a & b c"),
        ("\x1b[31mred\x00", "[31mred"),
        ("  \n", ""),
        ("", ""),
    ],
)
def test_an_error_body_of_any_gateway_has_a_message(body: str, message: str) -> None:
    """HTTP-01: the message is found in each known shape, else the body itself is the message."""
    assert CHAT.read_error(body.encode()) == message


def test_a_long_error_is_cut() -> None:
    """A message has at most 300 characters, and shows that it was cut."""
    assert CHAT.read_error(b"x" * 300) == "x" * 300
    assert CHAT.read_error(b"x" * 301) == "x" * 299 + "…"
    for page in (b"<" * 2_000_000, b"<title" * 200_000):
        assert len(CHAT.read_error(page)) == 300


def test_model_names_are_read_from_a_model_list() -> None:
    """Ids that are texts, in the server's order; anything else is no model."""
    body = b'{"object":"list","data":[{"id":"b"},{"id":"a"},{"id":7},"c",{}]}'
    assert CHAT.read_models(body) == ["b", "a"]
    assert CHAT.read_models(b"[]") == CHAT.read_models(b"<html>") == CHAT.read_models(b'{"data":{"id":"a"}}') == []


# anything


KEYS = st.sampled_from(
    [
        "choices",
        "delta",
        "message",
        "content",
        "text",
        "refusal",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "tool_calls",
        "function",
        "function_call",
        "name",
        "arguments",
        "finish_reason",
        "index",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "error",
        "code",
        "object",
        "detail",
        "loc",
        "msg",
        "error_message",
        "type",
        "thinking",
        "data",
        "id",
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just("error"))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)


@settings(max_examples=400, deadline=None)
@given(VALUES | st.dictionaries(KEYS, VALUES, max_size=8), st.sampled_from(["message", "error", "ping"]))
def test_no_value_of_any_type_raises(value: object, name: str) -> None:
    """Whatever JSON a server sends, every reader returns what it must return, and the timeline takes it."""
    data = json.dumps(value)
    found = event(data, name)
    timeline = Timeline()
    timeline.add(found, 1)
    timeline.add(CHAT.read_answer(data.encode()), 2)
    assert all(isinstance(text, str) for text in (found.answer, found.reasoning, found.tool))
    assert found.malformed == (not isinstance(value, dict) and name != "error")
    assert len(found.error or "") <= 300
    assert len(CHAT.read_error(data.encode())) <= 300
    assert all(isinstance(model, str) for model in CHAT.read_models(data.encode()))
    timeline.generated.encode()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_raise(body: bytes) -> None:
    """Bytes that are no JSON are malformed or a message, never an exception."""
    CHAT.read_answer(body)
    CHAT.read_models(body)
    assert len(CHAT.read_error(body)) <= 300


@pytest.mark.parametrize("data", ["[" * 100_000, '{"a":' * 100_000, '{"error":' * 900 + "1" + "}" * 900, "9" * 5000])
def test_json_that_is_too_deep_or_too_long_does_not_raise(data: str) -> None:
    """Nesting beyond the interpreter's stack and numbers beyond its limit are malformed or passed over."""
    for name in ("message", "error"):
        assert isinstance(CHAT.read_event(data, name), Delta)
    assert CHAT.read_answer(data.encode()).is_token is False
    assert len(CHAT.read_error(data.encode())) == 300


def odd(*usual: object) -> st.SearchStrategy[object]:
    """Mostly what servers send, sometimes any value."""
    return st.sampled_from(usual) | VALUES


PARTS = st.fixed_dictionaries(
    {}, optional={"content": odd("x", "", None), "role": odd("assistant"), "reasoning_content": odd("y", "", None)}
)
CHOICES = st.fixed_dictionaries(
    {"delta": PARTS | VALUES},
    optional={
        "index": odd(0, 1),
        "finish_reason": odd(None, "stop"),
        "usage": odd(None, {"prompt_tokens": 3}),
        "message": PARTS,
        "error": odd(None, "e"),
    },
)
CHUNKS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES | VALUES, max_size=2) | VALUES},
    optional={
        "object": odd("chat.completion.chunk", "error"),
        "usage": odd(None, {"completion_tokens": 2}),
        "error": odd(None, {"message": "e"}),
        "error_message": odd(None, "e"),
    },
)


@settings(max_examples=1000)
@given(CHUNKS)
def test_the_short_way_gives_what_the_long_one_gives(chunk: dict[str, object]) -> None:
    """An event that is taken for plain text is the same delta when it is read with every exception in mind."""
    text = _plain_text(chunk)
    assert text is None or Delta(text) == _read(chunk)


def test_plain_text_takes_the_short_way() -> None:
    """The chunks of OpenAI and its copies, with or without a role and empty fields beside the text."""
    assert _plain_text({"choices": [{"delta": {"content": "x"}}]}) == "x"
    choice = {"index": 0, "delta": {"role": "assistant", "content": "x"}, "finish_reason": None}
    assert _plain_text({"object": "chat.completion.chunk", "choices": [choice], "usage": None}) == "x"


@given(st.dictionaries(KEYS, VALUES, max_size=8), st.booleans())
def test_orjson_decodes_what_json_decodes(value: dict[str, object], ascii_only: bool) -> None:
    """Every object is decoded to the same values, escaped or not; whole numbers beyond 64 bits may become floats."""
    data = json.dumps(value, ensure_ascii=ascii_only)
    whole = json.loads(data, parse_int=lambda digits: n if -(2**63) <= (n := int(digits)) < 2**64 else float(n))
    assert repr(_decoded(data)) in (repr(whole), repr(json.loads(data)))


def test_what_orjson_refuses_is_decoded_all_the_same() -> None:
    """Halves of a character and numbers that JSON does not have; a whole number beyond 64 bits becomes a float."""
    assert _decoded('{"a":"\\ud83d"}') == {"a": "\ud83d"}
    assert repr(_decoded('{"a":NaN,"b":1e999}')) == "{'a': nan, 'b': inf}"
    assert _decoded('{"a":18446744073709551616}') == {"a": 2.0**64}
    assert _decoded("{") is None
    assert _decoded("[1]") is None

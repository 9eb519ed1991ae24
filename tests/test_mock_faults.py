"""Mock server: the fault grammar, and what one request asks for."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from llmload.errors import SetupError
from llmload.mock.distribution import parse_distribution
from llmload.mock.faults import FAULTS, draw_faults, parse_fault, parse_faults
from llmload.mock.order import Order, Refused, check_key, read_order
from llmload.mock.settings import Settings

SETTINGS = Settings(
    ttft_ms=parse_distribution("200", "x"),
    itl_ms=parse_distribution("20", "x"),
    tokens=parse_distribution("128", "x"),
    seed=1,
)


@pytest.mark.parametrize(
    ("text", "name", "probability", "params"),
    [
        ("http_429", "http_429", 1.0, {"retry_after": None}),
        ("http_503=0.05:retry_after=2", "http_503", 0.05, {"retry_after": 2.0}),
        ("cut=0.01", "cut", 0.01, {"after": None, "how": "close", "mid": 0.0}),
        ("cut:after=3:how=reset:mid=1", "cut", 1.0, {"after": 3.0, "how": "reset", "mid": 1.0}),
        ("redirect:to=/v2", "redirect", 1.0, {"status": "307", "to": "/v2"}),
        (" stall : after=2 ", "stall", 1.0, {"after": 2.0, "seconds": None}),
    ],
)
def test_a_fault_is_read(text: str, name: str, probability: float, params: dict[str, Any]) -> None:
    """Name, probability and parameters are read; what is left out has its default."""
    fault = parse_fault(text, "--fault")
    assert (fault.name, fault.probability, dict(fault.params)) == (name, probability, params)


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "http_NNN"])
def test_every_fault_needs_no_parameter(name: str) -> None:
    """Each fault of the table is read by its bare name and strikes always."""
    assert parse_fault(name, "x").probability == 1.0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("boom", "--fault: no fault is called 'boom'"),
        ("http_200", "--fault: no fault is called 'http_200'"),
        ("http_NNN", "--fault: no fault is called 'http_NNN'"),
        ("cut=2", "--fault: cut: '2' is not a number from 0 to 1"),
        ("cut=nan", "--fault: cut: 'nan' is not a number from 0 to 1"),
        ("cut:how=loud", "--fault: cut:how: 'loud' is unknown"),
        ("cut:before=3", "--fault: cut has no parameter 'before'"),
        ("stall:after=-1", "--fault: stall:after: '-1' is not a number from 0 to 1e+09"),
    ],
)
def test_a_wrong_fault_is_refused(text: str, what: str) -> None:
    """An unknown fault, parameter or value is a set-up error that names it and helps."""
    with pytest.raises(SetupError) as caught:
        parse_fault(text, "--fault")
    assert caught.value.what == what
    assert caught.value.hint


def test_a_header_lists_several_faults() -> None:
    """Faults in the header are separated by commas; an empty header has none."""
    assert [f.name for f in parse_faults("role_early, stall:after=3,gzip", "x")] == ["role_early", "stall", "gzip"]
    assert parse_faults("", "x") == ()


def test_faults_strike_with_their_probability() -> None:
    """Of 20,000 draws at 0.05, 5 % strike; 0 never and 1 always do; the later of one name counts."""
    rng = Random(11)
    faults = parse_faults("cut=0.05,gzip=0,http_500=1", "x")
    drawn = [draw_faults(faults, rng) for _ in range(20_000)]
    assert sum("cut" in d for d in drawn) / 20_000 == pytest.approx(0.05, abs=0.006)
    assert (sum("gzip" in d for d in drawn), sum("http_500" in d for d in drawn)) == (0, 20_000)
    assert draw_faults(parse_faults("cut:after=1,cut:after=2", "x"), rng)["cut"].number("after") == 2.0


def test_after_defaults_to_half_of_the_tokens() -> None:
    """`after` is half of the tokens when left out, and never more than all of them."""
    assert [parse_fault(text, "x").after(9) for text in ("cut", "cut:after=2", "cut:after=50")] == [4, 2, 9]


def order_of(headers: dict[str, str] | None = None, **fields: Any) -> Order:
    """The order of a valid request with these fields changed."""
    chat = {"model": "mock", "messages": [{"role": "user", "content": "one two three"}]} | fields
    return read_order(json.dumps(chat).encode(), headers or {}, settings=SETTINGS, rng=Random(1))


@pytest.mark.parametrize(
    ("fields", "tokens", "reason"),
    [
        ({}, 128, "stop"),
        ({"max_tokens": 10}, 10, "length"),
        ({"max_completion_tokens": 11, "max_tokens": 10}, 11, "length"),
        ({"max_tokens": 128}, 128, "stop"),
        ({"max_tokens": 500}, 128, "stop"),
        ({"max_tokens": 500, "ignore_eos": True}, 500, "length"),
    ],
)
def test_the_request_limits_the_length(fields: dict[str, Any], tokens: int, reason: str) -> None:
    """max_completion_tokens, then max_tokens, cuts the answer; ignore_eos makes it exactly that long."""
    order = order_of(**fields)
    assert (order.tokens, order.finish_reason, len(order.offsets_ns)) == (tokens, reason, tokens)


def test_headers_override_the_times() -> None:
    """The three control headers replace TTFT, ITL and tokens for one request."""
    order = order_of({"x-mock-ttft-ms": "5", "x-mock-itl-ms": "2", "x-mock-tokens": "3"})
    assert list(order.offsets_ns) == [5_000_000, 7_000_000, 9_000_000]


def test_prompt_tokens_are_the_words_of_all_messages() -> None:
    """Texts and text parts are counted by words; other content counts nothing."""
    parts = [{"type": "text", "text": "three four"}, {"type": "image_url", "image_url": {"url": "x"}}]
    messages = [{"role": "system", "content": "one two"}, {"role": "user", "content": parts}, {"role": "user"}]
    assert order_of(messages=messages).prompt_tokens == 4


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"model": "gpt-9"}, 404),
        ({"model": None}, 400),
        ({"messages": []}, 400),
        ({"messages": "hello"}, 400),
        ({"max_tokens": 0}, 400),
        ({"max_tokens": True}, 400),
        ({"max_tokens": 10**9}, 400),
        ({"n": 2}, 400),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any], status: int) -> None:
    """An unknown model is 404, a wrong field 400, both with an error object in OpenAI's shape."""
    with pytest.raises(Refused) as caught:
        order_of(**fields)
    assert caught.value.status == status
    assert sorted(json.loads(caught.value.body)["error"]) == ["code", "message", "param", "type"]


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b"", b"[" * 100_000])
def test_malformed_json_is_refused(body: bytes) -> None:
    """What is no JSON object is 400."""
    with pytest.raises(Refused) as caught:
        read_order(body, {}, settings=SETTINGS, rng=Random(1))
    assert caught.value.status == 400


def test_a_wrong_key_is_refused_and_not_repeated() -> None:
    """Without the right key the answer is 401, which names neither key."""
    check_key({"authorization": "Bearer right"}, "right")
    check_key({}, None)
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "right"}):
        with pytest.raises(Refused) as caught:
            check_key(headers, "right")
        assert caught.value.status == 401
        assert json.loads(caught.value.body)["error"]["code"] == "invalid_api_key"
        assert b"right" not in caught.value.body
        assert b"wrong" not in caught.value.body

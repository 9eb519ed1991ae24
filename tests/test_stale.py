"""A kept connection that the server ends just as the next request goes out on it (HTTP-14)."""

from time import monotonic_ns

import pytest

from llmload.stamps import Stamps
from llmload.wire.exchange import WireError, chunks
from llmload.wire.plain import PlainWire
from tests.scripted import CLOSE, RESET, body

ENDS = pytest.mark.parametrize("end", [CLOSE, RESET])


@pytest.fixture
def wire():
    wire = PlainWire()
    yield wire
    wire.close()


def ask(wire, url):
    """Send one request and return its stamps and the answer's body."""
    stamps = Stamps(asked_ns=monotonic_ns())
    exchange = wire.open("POST", url, headers={}, body=b"{}", stamps=stamps)
    data = b"".join(data for data, _ in chunks(exchange))
    exchange.close()
    return stamps, data


@ENDS
def test_it_is_sent_again_once_on_a_new_connection(scripted, wire, end):
    """No byte of an answer came: the request is repeated, visibly, and its times are those of the second attempt."""
    scripted.plays_in_turn([body("{}")], [end], [body("[]")])
    ask(wire, scripted.url)
    stamps, data = ask(wire, scripted.url)
    assert (data, stamps.reconnects, stamps.reused) == (b"[]", 1, False)
    assert len(scripted.requests) == 3


@ENDS
def test_a_new_connection_that_breaks_is_a_failure(scripted, wire, end):
    """Once is all: the second break is the server's, and the request's."""
    scripted.plays_in_turn([body("{}")], [end])
    ask(wire, scripted.url)
    with pytest.raises(WireError) as failed:
        ask(wire, scripted.url)
    assert failed.value.kind == "truncated"
    assert len(scripted.requests) == 3


def test_a_server_that_had_the_request_is_not_asked_twice(scripted, wire):
    """After more than a second the connection was no stale one: the server took the request and dropped it."""
    scripted.plays_in_turn([body("{}")], [1.2, CLOSE])
    ask(wire, scripted.url)
    with pytest.raises(WireError):
        ask(wire, scripted.url)
    assert len(scripted.requests) == 2

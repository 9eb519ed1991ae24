"""Any bytes, cut anywhere, closed in any way: one outcome, never a hang, nothing left behind."""

import gc
import os

import gevent
import httpcore
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmload.config import Deadlines
from llmload.errors import FAILURE_KINDS
from llmload.wire.fast import FastWire
from llmload.wire.response import Response
from tests.clients import ASK, Heard, client_for
from tests.scripted import CHUNKED, CLOSE, HOLD, LAST_CHUNK, RESET, ScriptedServer, body, chunk, head
from tests.test_client import DONE, STOP, token

EVENTS = token("a") + token("b") + STOP + DONE
GOOD = [
    head(CHUNKED) + chunk(token("a")) + chunk(token("b") + STOP) + chunk(DONE) + LAST_CHUNK,
    head(f"Content-Length: {len(EVENTS)}") + EVENTS,
    b"HTTP/1.1 100 Continue\r\n\r\n" + head(CHUNKED) + chunk(EVENTS) + b"0\r\nTrailer: x\r\n\r\n",
    body('{"error": {"message": "no"}}', status="400 Bad"),
    head(CHUNKED) + b"9999999999\r\n" + b"x" * 100,
    b"SSH-2.0-OpenSSH_9.2\r\n",
]


@st.composite
def scripts(draw):
    """A response, perhaps damaged, in pieces, and a way to end it."""
    data = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=8))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    pieces = [bytes(data[a:b]) for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    pauses = draw(st.sampled_from([[], [0.0], [0.002]]))
    script = [step for piece in pieces if piece for step in (piece, *pauses)]
    return [*script, draw(st.sampled_from([CLOSE, RESET, HOLD, None]))]


def open_files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="module")
def server():
    with ScriptedServer() as server:
        yield server


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts(), kill_after=st.sampled_from([None, None, None, 0.0, 0.001, 0.004]))
def test_any_response_is_one_outcome_and_leaves_nothing(server, script, kill_after):
    """STAT-09, ERR: whatever comes, one completion, in time; the next request works and no file stays open."""
    server.plays_in_turn([step for step in script if step is not None], [head(), EVENTS, CLOSE])
    files = open_files()
    wire = FastWire()
    client, heard = client_for(server.url, wire=wire, deadlines=Deadlines(1, 0.15, 0.15, 1)), Heard()
    user = gevent.spawn(client.complete, ASK, request_id="1", listener=heard)
    if kill_after is not None:
        gevent.sleep(kill_after)
        user.kill()
    user.join(5)
    assert user.ready()
    assert len(heard.completions) == 1
    assert heard.completions[0].outcome in ("ok", "failed", "cancelled")
    assert heard.completions[0].kind in (None, *FAILURE_KINDS)
    assert heard.completions[0].kind != "internal"
    if server.requests and server._scripts == [[head(), EVENTS, CLOSE]]:
        gevent.sleep(0.02)  # what the server still says after the end of its answer is no answer to the next request
        assert client.complete(ASK, request_id="2", listener=heard).outcome == "ok"
    wire.close()
    gevent.sleep(0.005)
    assert open_files() <= files + 1  # the server may not have noticed yet


def fed(reads):
    """Return what a response came to: its body, whether it broke, whether it ended."""
    response, broken = Response(), False
    try:
        for number, data in enumerate(reads):
            response.feed([(data, number)])
            if response.complete:
                break
    except httpcore.RemoteProtocolError:
        broken = True
    return b"".join(data for data, _ in response.pairs), broken, response.complete, response.status


def fed_together(reads):
    """The same, with all reads in one batch."""
    response, broken = Response(), False
    try:
        response.feed([(data, number) for number, data in enumerate(reads)])
    except httpcore.RemoteProtocolError:
        broken = True
    return response, broken


@settings(max_examples=500, deadline=None)
@given(script=scripts())
def test_batches_decide_nothing(script):
    """Reads in one batch give the pairs, the stamps and the end that they give one by one."""
    reads = [step for step in script if isinstance(step, bytes) and step] or [b"x"]
    together, broken = fed_together(reads)
    one_by_one = Response()
    try:
        for number, data in enumerate(reads):
            one_by_one.feed([(data, number)])
        assert not broken
    except httpcore.RemoteProtocolError:
        assert broken
    for name in ("pairs", "head_ns", "end_ns", "complete", "reusable", "status", "headers"):
        assert getattr(together, name) == getattr(one_by_one, name), name


@settings(max_examples=500, deadline=None)
@given(script=scripts())
def test_cuts_decide_nothing(script):
    """Damaged or not, a response is the same however reads cut it."""
    reads = [step for step in script if isinstance(step, bytes)]
    data = b"".join(reads)
    assert fed(reads) == fed([data]) == fed([data[at : at + 1] for at in range(len(data))])

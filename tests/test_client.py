"""One request in, one completion out: outcomes, kinds and times against a server that plays scripts."""

import gc
import json
from dataclasses import replace

import certifi
import gevent
import pytest
from gevent.server import StreamServer

from llmload.config import Deadlines
from llmload.mock.process import MockProcess
from llmload.wire.fast import FastWire
from llmload.wire.plain import PlainWire
from llmload.wire.tls import shared_context
from tests import clients
from tests.clients import ASK, Heard, client_for, complete
from tests.scripted import CHUNKED, CLOSE, HOLD, LAST_CHUNK, RESET, body, chunk, head

DONE = b"data: [DONE]\n\n"
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'


@pytest.fixture(autouse=True, params=[PlainWire, FastWire])
def _each_wire(request, monkeypatch):
    """Every test of this file holds on both wires."""
    monkeypatch.setattr(clients, "WIRE", request.param)


def token(text):
    """Return one event with a token."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


def outcome(completion):
    """Return (outcome, kind, status)."""
    return completion.outcome, completion.kind, completion.status


def test_a_streamed_answer_is_ok(scripted):
    """Text, usage, finish reason and one call of each listener method: a whole answer."""
    scripted.plays(
        head(CHUNKED), chunk(ROLE), chunk(token("Hi")), 0.02, chunk(token("!") + STOP + USAGE + DONE), LAST_CHUNK
    )
    heard = Heard()
    completion = complete(scripted.url, heard=heard)
    assert outcome(completion) == ("ok", None, 200)
    assert completion.text == "Hi!"
    assert (completion.input_tokens, completion.output_tokens, completion.usage_source) == (3, 2, "server")
    assert completion.finish_reason == "stop"
    assert completion.token_events == 2
    assert heard.completions == [completion]
    assert heard.first_tokens == [completion.ttft_s]
    assert completion.reused is False


def test_what_is_sent(scripted):
    """One POST with the model, the messages, streaming with usage, no compression, the id and the key."""
    scripted.plays(head(), token("x"), STOP, CLOSE)
    complete(scripted.url, api_key="sk-123456", headers={"X-Team": "a"})
    top, sent = scripted.requests[0]
    lines = top.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert headers["accept-encoding"] == "identity"
    assert headers["authorization"] == "Bearer sk-123456"
    assert headers["x-request-id"] == "t-1"
    assert headers["x-team"] == "a"
    assert json.loads(sent) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Say hi."}],
        "max_tokens": 16,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_role_chunk_and_comments_are_no_first_token(scripted):
    """SSE-03, TOK-01: TTFT counts to the first text, whatever came before it."""
    scripted.plays(head(), ROLE, b": keep-alive\n\n:\n\n", 0.3, token("x"), STOP, DONE, CLOSE)
    completion = complete(scripted.url)
    assert completion.outcome == "ok"
    assert completion.ttft_s >= 0.3 > completion.first_byte_s
    assert completion.token_events == 1


def test_unsplit_and_split_reads_are_the_same(scripted):
    """SSE-02: a character cut by the network is the same character."""
    data = token("你😀") + STOP + DONE
    scripted.plays(head(), *(step for at in range(len(data)) for step in (data[at : at + 1], 0.0)), CLOSE)
    completion = complete(scripted.url)
    assert (completion.outcome, completion.text, completion.invalid_bytes) == ("ok", "你😀", 0)


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable", "404 Not Found", "529 "])
def test_status_is_checked_before_the_body_is_parsed(scripted, status):
    """HTTP-01, HTTP-02: a refusal is a failure with its status and the server's words, secrets removed."""
    scripted.plays(body('{"error":{"message":"slow down, sk-abcdefgh"}}', status=status))
    completion = complete(scripted.url)
    assert outcome(completion) == ("failed", "http_status", int(status[:3]))
    assert completion.message == "slow down, ***"
    assert (completion.ttft_s, completion.e2e_s, completion.output_tokens) == (None, None, None)


def test_error_body_that_is_no_json_still_ends_once(scripted):
    """STAT-09: a 500 whose body cannot be parsed is one failure."""
    heard = Heard()
    scripted.plays(body(b"\xff{oops", status="500 Oops"))
    assert outcome(complete(scripted.url, heard=heard)) == ("failed", "http_status", 500)
    assert len(heard.completions) == 1


def test_redirect_is_not_followed(scripted):
    """HTTP-12: the key never goes to another host; the run learns where it should have gone."""
    scripted.plays(body("", "Location: http://elsewhere/v1/chat/completions", status="307 Temporary Redirect"))
    completion = complete(scripted.url, api_key="sk-123456")
    assert outcome(completion) == ("failed", "http_status", 307)
    assert completion.message == "redirected to http://elsewhere/v1/chat/completions"
    assert scripted.connections == 1


def test_json_answer_to_a_stream_request_has_no_ttft(scripted):
    """SSE-17: a server that does not stream is understood; its latency is no TTFT."""
    answer = {
        "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 1},
    }
    scripted.plays(body(json.dumps(answer)))
    completion = complete(scripted.url)
    assert outcome(completion) == ("ok", None, 200)
    assert (completion.stream, completion.text, completion.output_tokens) == (False, "hello", 1)
    assert (completion.ttft_s, completion.tpot_s, completion.gaps_us) == (None, None, ())
    assert completion.e2e_s > 0


def test_plain_answer_on_request(scripted):
    """TOK-16: with streaming off TTFT and ITL do not exist, latency does."""
    answer = {
        "choices": [{"message": {"content": "hello you"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2},
    }
    scripted.plays(0.05, body(json.dumps(answer)))
    completion = complete(scripted.url, replace(ASK, stream=False))
    assert completion.outcome == "ok"
    assert (completion.ttft_s, completion.ttfa_s, completion.tpot_s, completion.output_tokens) == (None, None, None, 2)
    assert completion.e2e_s >= 0.05
    assert "stream_options" not in json.loads(scripted.requests[0][1])


def test_a_page_is_no_answer(scripted):
    """SSE-17: HTML under 200 fails, with its beginning kept."""
    scripted.plays(body("<html>login</html>", kind="text/html"))
    completion = complete(scripted.url)
    assert outcome(completion) == ("failed", "bad_stream", 200)
    assert completion.message == "unexpected content type text/html: <html>login</html>"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([head(), token("a"), CLOSE], "truncated"),
        ([head(CHUNKED), chunk(token("a")), LAST_CHUNK], "truncated"),
        ([head(CHUNKED), chunk(token("a")), CLOSE], "truncated"),
        ([head(CHUNKED), chunk(token("a")), 0.05, RESET], "truncated"),
        ([head(), b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: {"choi', CLOSE], "truncated"),
        ([head("Content-Length: 0")], "truncated"),
        ([CLOSE], "truncated"),
        ([head(), ROLE, STOP, DONE, CLOSE], "empty"),
        ([head(), b"data: : PROCESSING\n\ndata: nonsense\n\n", DONE, CLOSE], "bad_stream"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n", CLOSE], "protocol"),
        ([head(), b'data: {"error":{"message":"queue full","code":504}}\n\n', DONE, CLOSE], "provider_error"),
        ([head(), token("a"), b'event: error\ndata: {"message":"overloaded"}\n\n', CLOSE], "provider_error"),
        (
            [head(), b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}\n\n', DONE, CLOSE],
            "content_filter",
        ),
    ],
)
def test_failure_kinds(scripted, script, kind):
    """SSE-13, ERR-01, ERR-03, ERR-04, ERR-10, HTTP: each way to fail is one kind, and the next request works."""
    scripted.plays_in_turn(script, [head(), token("ok"), STOP, CLOSE])
    client, heard = client_for(scripted.url), Heard()
    failed = client.complete(ASK, request_id="1", listener=heard)
    good = client.complete(ASK, request_id="2", listener=heard)
    assert (failed.outcome, failed.kind) == ("failed", kind)
    assert failed.message
    assert good.outcome == "ok"
    assert heard.completions == [failed, good]


def test_partial_tokens_of_a_cut_answer_are_kept(scripted):
    """ERR-02, TMO-04: what came before the break is counted."""
    scripted.plays(head(CHUNKED), chunk(token("a")), chunk(token("b")), 0.05, CLOSE)
    completion = complete(scripted.url)
    assert (completion.kind, completion.token_events, completion.output_tokens) == ("truncated", 2, 2)
    assert completion.usage_source == "estimate"


def test_break_after_a_whole_answer_breaks_nothing(scripted):
    """A finish reason makes the answer whole: a reset after it costs nothing that was measured."""
    scripted.plays(head(CHUNKED), chunk(token("a") + STOP), 0.05, RESET)
    assert complete(scripted.url).outcome == "ok"


def test_refused_connection_is_a_kind():
    """Nothing listens: connect, and no time is made up."""
    completion = complete("http://127.0.0.1:9")
    assert outcome(completion) == ("failed", "connect", None)
    assert (completion.ttft_s, completion.closed_s, completion.reused) == (None, None, None)


def test_unknown_name_is_dns():
    """A name that does not resolve is told apart from a server that is down."""
    assert complete("http://no-such-host.invalid:1").kind == "dns"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_plain_server_behind_https_is_tls():
    """A handshake that fails is told apart from a connection that fails."""
    server = StreamServer(("127.0.0.1", 0), lambda sock, _: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    server.start()
    try:
        assert complete(f"https://127.0.0.1:{server.server_port}").kind == "tls"
    finally:
        server.stop(timeout=0.1)
        gc.collect()  # gevent's wrap_socket leaves the socket of a failed handshake to the garbage collector


@pytest.mark.parametrize(
    ("script", "deadlines", "kind"),
    [
        ([HOLD], Deadlines(5, 0.2, 5, 5), "timeout_first_token"),
        ([head(), ROLE, HOLD], Deadlines(5, 0.2, 5, 5), "timeout_first_token"),
        ([head(), *[b": keep-alive\n\n", 0.02] * 100, HOLD], Deadlines(5, 0.2, 5, 5), "timeout_first_token"),
        ([head(), token("a"), HOLD], Deadlines(5, 5, 0.2, 5), "timeout_idle"),
        ([head(), token("a"), *[b": ping\n\n", 0.02] * 100, HOLD], Deadlines(5, 5, 0.2, 5), "timeout_idle"),
        ([head(), *[token("a"), 0.02] * 100, HOLD], Deadlines(5, 5, 5, 0.3), "timeout_total"),
        ([head(), *[b": keep-alive\n\n", 0.02] * 100, HOLD], Deadlines(5, None, 5, 0.3), "timeout_total"),
    ],
)
def test_deadlines_hold_whatever_the_socket_does(scripted, script, deadlines, kind):
    """TMO-01, TMO-02: silence, comments and trickling tokens all meet their deadline; the next request works."""
    scripted.plays_in_turn(script, [head(), token("ok"), STOP, CLOSE])
    client, heard = client_for(scripted.url, deadlines=deadlines), Heard()
    late = client.complete(ASK, request_id="1", listener=heard)
    assert (late.outcome, late.kind) == ("failed", kind)
    assert client.complete(ASK, request_id="2", listener=heard).outcome == "ok"


def test_connect_deadline_holds_where_nobody_answers():
    """A listener whose backlog is full never completes the handshake."""
    import socket

    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    waiting = []
    for _ in range(4):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(full.getsockname())
        waiting.append(one)
    try:
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        assert complete(url, deadlines=Deadlines(0.3, 5, 5, 5)).kind == "timeout_connect"
    finally:
        for one in (*waiting, full):
            one.close()


def test_late_head_does_not_count_as_connecting(scripted):
    """A server that queues before it answers meets the first-token deadline, not the one for connecting."""
    scripted.plays(0.4, head(), token("a"), STOP, CLOSE)
    completion = complete(scripted.url, deadlines=Deadlines(0.2, 5, 5, 5))
    assert completion.outcome == "ok"
    assert completion.headers_s >= 0.4


@pytest.mark.parametrize("exception", [gevent.GreenletExit, gevent.Timeout])
@pytest.mark.parametrize("script", [[HOLD], [head(), token("a"), HOLD]])
def test_a_cut_off_request_is_cancelled_and_counted(scripted, script, exception):
    """TMO-06: a kill and a gevent.Timeout end the request as cancelled, go on upwards, and spoil nothing."""
    scripted.plays_in_turn(script, [head(), token("ok"), STOP, CLOSE])
    client, heard = client_for(scripted.url), Heard()
    caught = []

    def user():
        try:
            client.complete(ASK, request_id="1", listener=heard)
        except BaseException as error:
            caught.append(type(error))
            raise

    greenlet = gevent.spawn(user)
    gevent.sleep(0.2)
    greenlet.kill(exception() if exception is gevent.GreenletExit else gevent.Timeout(1))
    assert caught == [exception]
    assert [one.outcome for one in heard.completions] == ["cancelled"]
    assert [client.complete(ASK, request_id=str(n), listener=heard).outcome for n in (2, 3)] == ["ok", "ok"]


def test_end_marker_with_the_socket_held_open_costs_a_second_at_most(scripted):
    """HTTP-06, SSE-15: after [DONE] the answer is over; usage that still comes is taken."""
    scripted.plays(head(), token("a"), DONE, 0.1, USAGE, HOLD)
    completion = complete(scripted.url)
    assert (completion.outcome, completion.output_tokens, completion.usage_source) == ("ok", 2, "server")
    assert completion.closed_s < 5


def test_idle_connection_closed_by_the_server_is_replaced(scripted):
    """HTTP-14: the server closes between two requests; the next one opens a new connection and succeeds."""
    whole = [head(CHUNKED), chunk(token("a") + STOP + DONE), LAST_CHUNK]
    scripted.plays_in_turn([*whole, CLOSE], whole)
    client, heard = client_for(scripted.url), Heard()
    client.complete(ASK, request_id="1", listener=heard)
    gevent.sleep(0.1)
    second = client.complete(ASK, request_id="2", listener=heard)
    third = client.complete(ASK, request_id="3", listener=heard)
    assert [one.outcome for one in heard.completions] == ["ok", "ok", "ok"]
    assert (second.reused, third.reused) == (False, True)
    assert (third.connect_s, third.dns_s, third.tls_s) == (None, None, None)


def test_no_hidden_retry(scripted):
    """RTL-02: a 503 is one failed request; nobody asks twice."""
    scripted.plays(body("{}", status="503 Unavailable"))
    complete(scripted.url)
    assert len(scripted.requests) == 1


def test_compressed_stream_is_read_and_marked(scripted):
    """HTTP-08: gzip that nobody asked for is decoded, and said."""
    import gzip

    scripted.plays(head("Content-Encoding: gzip"), gzip.compress(token("a") + STOP + DONE), CLOSE)
    completion = complete(scripted.url)
    assert (completion.outcome, completion.text, completion.compressed) == ("ok", "a", True)


def test_broken_compression_is_a_kind(scripted):
    """ERR: what calls itself gzip and is none fails as a violation of HTTP."""
    scripted.plays(head("Content-Encoding: gzip"), token("a"), CLOSE)
    assert outcome(complete(scripted.url)) == ("failed", "protocol", 200)


def test_garbage_on_one_endless_line_is_bounded(scripted):
    """Memory is bounded: a line that never ends fails as bad_stream."""
    scripted.plays(head(), *[b"x" * 1_000_000] * 12, CLOSE)
    assert complete(scripted.url).kind == "bad_stream"


def test_stepped_clock_moves_nothing(scripted, monkeypatch):
    """CLK-01: durations come from the monotonic clock; a wall clock that jumps back leaves them alone."""
    import time

    scripted.plays(head(), token("a"), 0.1, token("b"), STOP, CLOSE)
    client = client_for(scripted.url)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    completion = client.complete(ASK, request_id="1", listener=Heard())
    assert 0 < completion.ttft_s <= completion.e2e_s
    assert completion.e2e_s - completion.ttft_s >= 0.05


def test_setup_of_the_connection_is_part_of_ttft_and_shown_beside_it(scripted):
    """TOK-15: connect time is known by itself and counts into TTFT; a pool wait does not."""
    scripted.plays(head(CHUNKED), chunk(token("a") + STOP + DONE), LAST_CHUNK)
    completion = complete(scripted.url)
    assert completion.connect_s > 0
    assert completion.ttft_s > completion.connect_s
    assert completion.send_delay_s >= 0


def test_a_client_does_not_load_certificates(monkeypatch):
    """HTTP-04: one TLS context a process; the hundredth client costs no look at the certificate store."""
    loads = []
    shared_context()
    monkeypatch.setattr(certifi, "where", lambda: loads.append(1))
    for _ in range(100):
        client_for("https://127.0.0.1:1")
    assert loads == []


def test_no_pool_limits_the_load():
    """HTTP-05: 150 users are 150 requests in flight at once, and what each waited for its own pool is recorded."""
    heard, ask = Heard(), replace(ASK, model="mock")
    with MockProcess("--ttft-ms", "1500", "--itl-ms", "1", "--tokens", "3") as mock:
        users = [
            gevent.spawn(client_for(mock.url).complete, ask, request_id=str(n), listener=heard) for n in range(150)
        ]
        gevent.joinall(users, timeout=60)
        assert mock.stats()["peak_in_flight"] == 150
    assert [one.outcome for one in heard.completions] == ["ok"] * 150
    assert all(one.pool_wait_s is not None and one.send_delay_s >= one.pool_wait_s for one in heard.completions)


def test_chunks_of_one_read_share_an_arrival(scripted):
    """Events in HTTP chunks of their own that came in one segment have one arrival: it belongs to the read."""
    one = b"".join(chunk(token(text)) for text in "abcd")
    scripted.plays(head(CHUNKED), 0.05, one, 0.1, one, 0.1, one + chunk(STOP + DONE) + LAST_CHUNK)
    completion = complete(scripted.url)
    assert (completion.token_events, completion.coalesced_events) == (12, 9)
    assert completion.events_per_read == (4, 4, 4)
    assert completion.ttft_is_bound
    assert len(completion.gaps_us) == 2
    assert min(completion.gaps_us) > 50_000


@pytest.mark.parametrize("end", [RESET, HOLD])
def test_an_error_event_is_the_end_whatever_comes_after(scripted, end):
    """ERR-01: the provider said why; a reset or silence after it does not change the kind."""
    scripted.plays(head(CHUNKED), chunk(b'data: {"error":{"message":"queue full","code":504}}\n\n'), 0.05, end)
    completion = complete(scripted.url)
    assert (completion.kind, completion.message) == ("provider_error", "queue full (504)")


def test_a_whole_answer_stays_ok_when_the_total_deadline_meets_its_drain(scripted):
    """What was measured is whole; only the end of the response is missing."""
    scripted.plays(head(), token("a"), 0.1, STOP, DONE, HOLD)
    assert complete(scripted.url, deadlines=Deadlines(5, 5, 5, 0.5)).outcome == "ok"


def test_empty_deltas_do_not_put_the_idle_deadline_off(scripted):
    """TMO-02: an event without text is no content."""
    empty = b'data: {"choices":[{"index":0,"delta":{"content":""}}]}\n\n'
    scripted.plays(head(), token("a"), *[empty, 0.05] * 60, HOLD)
    assert complete(scripted.url, deadlines=Deadlines(5, 5, 0.4, 5)).kind == "timeout_idle"


def test_a_listener_that_stops_the_user_cancels_its_request(scripted):
    """What a hook raises on purpose reaches the user, and the request has its one outcome."""

    class Stops(Heard):
        def first_token(self, request, ttft_s):
            raise RuntimeError("stop here")

    scripted.plays(head(), token("a"), STOP, DONE, CLOSE)
    heard = Stops()
    with pytest.raises(RuntimeError, match="stop here"):
        complete(scripted.url, heard=heard)
    assert [one.outcome for one in heard.completions] == ["cancelled"]


def test_closing_the_client_cancels_what_is_under_way(scripted):
    """A user that ends cuts off the requests of its own greenlets: that is no failure of the server."""
    scripted.plays(head(), token("a"), HOLD)
    client, heard = client_for(scripted.url), Heard()
    asking = gevent.spawn(client.complete, ASK, request_id="1", listener=heard)
    gevent.sleep(0.2)
    client.close()
    asking.join(5)
    assert [one.outcome for one in heard.completions] == ["cancelled"]


def test_a_header_of_the_user_replaces_ours(scripted):
    """Whatever its case, a header is sent once."""
    scripted.plays(head(), token("x"), STOP, CLOSE)
    complete(scripted.url, api_key="sk-123456", headers={"authorization": "Custom abc"})
    top = scripted.requests[0][0].decode().lower()
    assert top.count("authorization:") == 1
    assert "authorization: custom abc" in top

"""HTTP/1.1 as servers really speak it, over the fast wire: framing, early answers, closed connections, TLS, bounds."""

import contextlib
import gc
import json
import os
import ssl
from dataclasses import replace
from time import monotonic_ns

import gevent
import httpx
import pytest
from gevent.server import StreamServer

from llmload.stamps import Stamps
from llmload.wire import answer as answer_module
from llmload.wire.exchange import WireError, chunks
from llmload.wire.fast import FastWire
from llmload.wire.response import MAX_HEAD_BYTES
from llmload.wire.transport import FastTransport
from tests import certificates
from tests.clients import ASK, Heard, client_for, complete
from tests.scripted import CHUNKED, CLOSE, HOLD, LAST_CHUNK, RESET, ScriptedServer, body, chunk, head
from tests.test_client import DONE, STOP, token

WHOLE = [head(CHUNKED), chunk(token("a") + STOP + DONE), LAST_CHUNK]


@pytest.fixture
def wire():
    """A fast wire of its own."""
    wire = FastWire()
    yield wire
    wire.close()


def ask(wire, url, *, body=b"{}"):
    """Open an exchange; return it and its stamps."""
    stamps = Stamps(asked_ns=monotonic_ns())
    return wire.open("POST", url + "/v1/x", headers={}, body=body, stamps=stamps), stamps


def read(wire, url, **options):
    """Return (status, body, stamps) of one request."""
    exchange, stamps = ask(wire, url, **options)
    try:
        return exchange.status, b"".join(data for data, _ in chunks(exchange)), stamps
    finally:
        exchange.close()


def open_files():
    """Return how many files and sockets this process has open."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([b"HTTP/1.1 100 Continue\r\n\r\n", 0.02, *WHOLE], token("a") + STOP + DONE),
        ([b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\n\r\n", *WHOLE], token("a") + STOP + DONE),
        ([head(CHUNKED), b'5;name="a;b";x\r\nhello\r\n0;last\r\nTrailer: 1\r\nContent-Length: 7\r\n\r\n'], b"hello"),
        ([head(CHUNKED, "Content-Length: 3"), chunk(b"hello"), LAST_CHUNK], b"hello"),
        ([b"HTTP/1.0 200 OK\r\n\r\nhello", 0.02, b" you", CLOSE], b"hello you"),
        ([b"HTTP/1.1 200\r\nX-Empty:\r\nContent-Length: 5\r\n\r\nhello"], b"hello"),
        ([b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"], b"hello"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
        ([head(CHUNKED), *[chunk(b"x")] * 10_000, LAST_CHUNK], b"x" * 10_000),
        ([body(b"y" * 3_000_000)], b"y" * 3_000_000),
    ],
)
def test_framing(scripted, wire, script, expected):
    """Interim responses, extensions, trailers, old servers, tiny chunks and big ones: the body is the body."""
    scripted.plays(*script)
    assert read(wire, scripted.url)[:2] == (204 if not expected else 200, expected)


@pytest.mark.parametrize("cut", ["whole", "byte by byte"])
def test_a_clean_connection_is_kept(scripted, wire, cut):
    """The second request goes over the same connection, and no set-up is made up for it."""
    data = b"".join(WHOLE)
    scripted.plays(*([data] if cut == "whole" else [data[at : at + 1] for at in range(len(data))]))
    first, second = read(wire, scripted.url)[2], read(wire, scripted.url)[2]
    assert scripted.connections == 1
    assert (first.reused, second.reused) == (False, True)
    assert first.connect_ns > 0
    assert (second.dns_ns, second.connect_ns, second.tls_ns) == (None, None, None)


@pytest.mark.parametrize(
    "script",
    [
        [head("Connection: close", "Content-Length: 2"), b"hi"],
        [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"],
        [head("Content-Length: 2"), b"hi, and more"],
        [head("Content-Length: 2") + b"hi" + body("another answer")],
        [head(CHUNKED) + chunk(b"hi") + LAST_CHUNK + b"garbage"],
        [head("Content-Length: 2"), b"hi", 0.05, b"late garbage"],
    ],
)
def test_a_connection_that_cannot_be_trusted_is_not_kept(scripted, wire, script):
    """`Connection: close`, and bytes that nobody asked for: the answer counts, the connection goes."""
    scripted.plays(*script)
    for _ in range(2):
        assert read(wire, scripted.url)[:2] == (200, b"hi")
        gevent.sleep(0.1)
    assert scripted.connections == 2


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], "protocol"),
        ([b"\0" * 100], "protocol"),
        ([b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\n", *[b"X-Y: " + b"z" * 1000 + b"\r\n"] * 200, HOLD], "protocol"),
        ([b"HTTP/1.1 200 OK\r\nX: ", *[b"z" * 1000] * 200, HOLD], "protocol"),
        ([*[b"HTTP/1.1 100 Continue\r\n\r\n" * 40] * 200, HOLD], "protocol"),
        ([head(CHUNKED), b"zz\r\nhello\r\n", HOLD], "protocol"),
        ([head(CHUNKED), b"fffffffffffffffff\r\nhello\r\n", HOLD], "protocol"),
        ([head(CHUNKED), chunk(b"a"), b"0\r\n", *[b"T: " + b"t" * 1000 + b"\r\n"] * 200, HOLD], "protocol"),
        ([head(CHUNKED), b"5;", *[b"e" * 1000] * 200, HOLD], "protocol"),
        ([head("Content-Length: 5", "Content-Length: 6"), b"hello"], "protocol"),
        ([CLOSE], "truncated"),
        ([RESET], "truncated"),
        ([b"HTTP/1.1 200 OK\r\nContent-", CLOSE], "truncated"),
        ([head("Content-Length: 5"), b"hell", CLOSE], "truncated"),
        ([head(CHUNKED), b"5\r\nhell", CLOSE], "truncated"),
        ([head(CHUNKED), chunk(b"hello"), 0.05, RESET], "truncated"),
        ([head(CHUNKED), chunk(b"hello"), CLOSE], "truncated"),
    ],
)
def test_what_breaks_is_closed_and_named(scripted, wire, script, kind):
    """Each accident is one kind, leaves nothing open, and the next request works."""
    files = open_files()
    scripted.plays_in_turn(script, [body("fine")])
    with pytest.raises(WireError) as broken:
        read(wire, scripted.url)
    assert (broken.value.kind, bool(broken.value.message)) == (kind, True)
    gevent.sleep(0.01)
    assert open_files() <= files
    assert read(wire, scripted.url)[:2] == (200, b"fine")


def test_a_head_of_ordinary_size_is_read(scripted, wire):
    """The bound lies far above what gateways send."""
    scripted.plays(body("fine", *[f"X-{n}: {'y' * 1000}" for n in range(MAX_HEAD_BYTES // 1100)]))
    assert read(wire, scripted.url)[1] == b"fine"


def unread_server(answer, *, then):
    """Return a server that answers after the head of a request and never reads its body."""

    def serve(sock, _):
        while b"\r\n\r\n" not in sock.recv(1024):
            pass
        sock.sendall(answer)
        gevent.sleep(then)
        sock.close()

    return StreamServer(("127.0.0.1", 0), serve)


@pytest.mark.parametrize("then", [0, 5])
def test_an_answer_before_the_request_was_sent_is_an_answer(wire, then):
    """HTTP: a 413 in the middle of a big request, with a reset or without one behind it, is a 413."""
    server = unread_server(body("too big", status="413 Too Large"), then=then)
    server.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        with gevent.Timeout(4):
            status, data, stamps = read(wire, url, body=b"x" * 30_000_000)
        assert (status, data, stamps.written_ns) == (413, b"too big", None)
    finally:
        server.stop(timeout=0.1)


def test_a_request_cut_off_while_it_is_sent_leaves_nothing(wire):
    """TMO-06: a kill in the middle of a write closes the connection."""
    server = unread_server(b"", then=5)
    server.start()
    try:
        files = open_files()
        greenlet = gevent.spawn(read, wire, f"http://127.0.0.1:{server.server_port}", body=b"x" * 30_000_000)
        gevent.sleep(0.2)
        greenlet.kill()
        assert open_files() <= files + 1  # the server's own end
    finally:
        server.stop(timeout=0.1)


def test_a_connection_closed_while_idle_is_replaced_once_and_counted(scripted):
    """HTTP-14: the server closes a kept connection as the next request is written: it is sent again, and said."""
    scripted.plays_in_turn(WHOLE, [CLOSE], WHOLE)
    client, heard = client_for(scripted.url), Heard()
    first, second = (client.complete(ASK, request_id=str(n), listener=heard) for n in range(2))
    assert [(one.outcome, one.reconnects, one.reused) for one in (first, second)] == [
        ("ok", 0, False),
        ("ok", 1, False),
    ]
    assert second.connect_s > 0
    assert len(scripted.requests) == 3


@pytest.mark.parametrize(
    ("scripts", "sent", "reconnects"),
    [
        ([WHOLE, [CLOSE], [CLOSE]], 3, 1),
        ([WHOLE, [b"H", 0.02, CLOSE], WHOLE], 2, 0),
        ([WHOLE, [1.1, CLOSE], WHOLE], 2, 0),
    ],
    ids=["closed again", "closed after a byte", "closed after it was alive"],
)
def test_a_request_is_sent_again_only_where_that_is_harmless(scripted, scripts, sent, reconnects):
    """RTL-02: once; not when a byte was answered, and not when the server may have worked on it."""
    scripted.plays_in_turn(*scripts)
    client, heard = client_for(scripted.url), Heard()
    client.complete(ASK, request_id="1", listener=heard)
    second = client.complete(ASK, request_id="2", listener=heard)
    assert (second.outcome, second.kind, second.reconnects) == ("failed", "truncated", reconnects)
    assert len(scripted.requests) == sent


def test_phases_are_stamped_where_they_happened(scripted, wire):
    """TOK-15: each phase in its order; no look-up where the address needs none."""
    scripted.plays(0.02, *WHOLE)
    numeric = read(wire, scripted.url)[2]
    named = read(wire, scripted.url.replace("127.0.0.1", "localhost"))[2]
    for stamps in (numeric, named):
        assert stamps.asked_ns <= stamps.sent_ns - stamps.setup_ns <= stamps.sent_ns <= stamps.written_ns
        assert stamps.written_ns <= stamps.headers_ns <= stamps.first_byte_ns <= stamps.closed_ns
        assert stamps.headers_ns - stamps.sent_ns >= 20_000_000
        assert stamps.pool_wait_ns >= 0
        assert stamps.source == "kernel"
    assert numeric.dns_ns is None
    assert named.dns_ns > 0


def test_a_line_break_in_a_header_is_not_sent(scripted, wire):
    """A header cannot smuggle another one in."""
    with pytest.raises(WireError) as refused:
        wire.open("GET", scripted.url, headers={"X": "a\r\nY: b"}, body=None, stamps=Stamps(asked_ns=0))
    assert refused.value.kind == "protocol"
    assert scripted.requests == []


def test_own_headers_replace_the_defaults(scripted, wire):
    """What a run sets is sent once, whatever its case."""
    scripted.plays(body("fine"))
    headers = {"user-agent": "me", "HOST": "other", "accept-encoding": "gzip"}
    wire.open("POST", scripted.url, headers=headers, body=b"", stamps=Stamps(asked_ns=0)).close()
    lines = sorted(scripted.requests[0][0].decode().lower().split("\r\n")[1:])
    assert lines == ["accept-encoding: gzip", "accept: */*", "content-length: 0", "host: other", "user-agent: me"]


# reads that are held back


def test_reads_come_one_by_one_until_they_may_come_in_batches(scripted, wire):
    """Eager, each read wakes the reader; then only `hand_over` and the end do."""
    scripted.plays(head(CHUNKED), 0.02, chunk(b"1"), *[step for n in b"234" for step in (0.05, chunk(b"%c" % n))], HOLD)
    exchange, _ = ask(wire, scripted.url)
    body, seen = chunks(exchange), []
    assert next(body)[0] == b"1"
    exchange.eager = False
    reader = gevent.spawn(lambda: seen.extend(data for data, _ in body))
    gevent.sleep(0.3)
    assert seen == []
    assert exchange.oldest_ns < monotonic_ns() - 100_000_000
    gevent.get_hub().loop.run_callback(exchange.hand_over)
    gevent.sleep(0.01)
    assert (seen, exchange.oldest_ns) == ([b"2", b"3", b"4"], None)
    reader.kill()
    exchange.close()


def test_what_is_held_back_is_bounded(scripted, wire):
    """Memory: a reader who does not come back stops the server, and gets everything later."""
    scripted.plays(head("Content-Length: 20000000"), *[b"z" * 1_000_000] * 20)
    exchange, _ = ask(wire, scripted.url)
    exchange.eager = False
    gevent.sleep(0.3)
    held = exchange._answer._waiting_bytes
    assert answer_module.PENDING_BYTES < held < answer_module.PENDING_BYTES + 100_000
    assert sum(len(data) for data, _ in chunks(exchange)) == 20_000_000
    exchange.close()


def test_a_late_deadline_sees_what_has_come(scripted):
    """TMO-02: tokens that wait to be parsed have put the idle deadline off."""
    from llmload.config import Deadlines

    scripted.plays(head(), *[step for _ in range(20) for step in (token("a"), 0.05)], STOP, CLOSE)
    completion = complete(scripted.url, deadlines=Deadlines(5, 5, 0.2, 5))
    assert (completion.outcome, completion.token_events) == ("ok", 20)


def test_closing_the_wire_ends_what_is_under_way(scripted, wire):
    """`Wire.close`: a request that waits ends with a failure, from its own greenlet's view."""
    scripted.plays(head(), b"x", HOLD)
    seen = []

    def user():
        try:
            read(wire, scripted.url)
        except WireError as error:
            seen.append(error.kind)

    greenlet = gevent.spawn(user)
    gevent.sleep(0.1)
    wire.close()
    greenlet.join(1)
    assert seen == ["truncated"]


# TLS


@pytest.fixture
def secure():
    """A scripted server behind TLS."""
    with ScriptedServer(ssl_context=certificates.server_context()) as server:
        yield server


def test_an_encrypted_stream_has_kernel_stamps(secure):
    """TLS through memory: same answer, same stamps, and the handshake is a phase of its own."""
    wire = FastWire(ssl_context=certificates.trusting_context())
    secure.plays(*WHOLE)
    client, heard = client_for(secure.url, wire=wire), Heard()
    first, second = (client.complete(ASK, request_id=str(n), listener=heard) for n in range(2))
    assert [(one.outcome, one.text, one.stamps) for one in (first, second)] == [("ok", "a", "kernel")] * 2
    assert first.tls_s > 0
    assert (second.tls_s, second.reused, secure.connections) == (None, True, 1)


@pytest.mark.parametrize("size", [1, 16_384, 3_000_000])
def test_encrypted_bodies_of_every_size(secure, size):
    """A body longer than a record and than a read, and a request as long."""
    wire = FastWire(ssl_context=certificates.trusting_context())
    data = os.urandom(size)
    secure.plays(body(data))
    assert read(wire, secure.url, body=data)[1] == data
    assert secure.requests[0][1] == data
    wire.close()


def test_encrypted_end_of_the_connection(secure):
    """A body that ends with the connection ends with it, and a cut one is cut."""
    wire = FastWire(ssl_context=certificates.trusting_context())
    secure.plays_in_turn([head(), b"hello", CLOSE], [head("Content-Length: 9"), b"hello", CLOSE])
    assert read(wire, secure.url)[1] == b"hello"
    with pytest.raises(WireError) as broken:
        read(wire, secure.url)
    assert broken.value.kind == "truncated"
    wire.close()


def test_a_goodbye_without_a_close_is_an_end():
    """TLS: asyncio's servers say goodbye and wait up to 30 s before they close; the body has ended all the same."""
    context = certificates.server_context()

    def serve(sock, _):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        steps = [tls.do_handshake, lambda: tls.read(65536)]
        while steps:
            try:
                steps[0]()
                steps.pop(0)
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(65536))
        tls.write(head() + b"hello")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        sock.sendall(outgoing.read())
        gevent.sleep(5)

    server = StreamServer(("127.0.0.1", 0), serve)
    server.start()
    wire = FastWire(ssl_context=certificates.trusting_context())
    try:
        with gevent.Timeout(3):
            assert read(wire, f"https://127.0.0.1:{server.server_port}")[1] == b"hello"
    finally:
        wire.close()
        server.stop(timeout=0.1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_certificate_that_nobody_signed_is_refused(secure, wire):
    """TLS: the failure is named, and no request is sent."""
    with pytest.raises(WireError) as refused:
        read(wire, secure.url)
    assert refused.value.kind == "tls"
    assert "self-signed certificate" in refused.value.message
    assert secure.requests == []
    gc.collect()  # gevent's server leaves the socket of a failed handshake to the garbage collector


def test_a_handshake_that_never_ends_meets_the_connect_deadline():
    """TMO-01: a server that accepts and says nothing."""
    from llmload.config import Deadlines

    server = StreamServer(("127.0.0.1", 0), lambda *_: gevent.sleep(5))
    server.start()
    try:
        url = f"https://127.0.0.1:{server.server_port}"
        assert complete(url, deadlines=Deadlines(0.2, 5, 5, 5)).kind == "timeout_connect"
    finally:
        server.stop(timeout=0.1)


# an ordinary httpx client


def test_an_ordinary_httpx_client_gets_ordinary_responses(scripted):
    """GET, HEAD, streamed uploads and downloads, errors by their httpx names, and httpx's timeouts."""
    with httpx.Client(transport=FastTransport(), timeout=0.3) as client:
        scripted.plays(body('{"a": 1}', "X-B: c"))
        response = client.get(scripted.url)
        assert (response.json(), response.headers["x-b"], response.http_version) == ({"a": 1}, "c", "HTTP/1.1")
        scripted.plays(head("Content-Length: 10"))
        assert client.head(scripted.url).headers["content-length"] == "10"
        scripted.plays(head(CHUNKED), chunk(b"a\n"), 0.05, chunk(b"b\n"), LAST_CHUNK)
        with client.stream("POST", scripted.url, json={}) as streamed:
            assert list(streamed.iter_lines()) == ["a", "b"]
        scripted.plays(head("Content-Length: 10"), CLOSE)
        with pytest.raises(httpx.ReadError):
            client.get(scripted.url)
        scripted.plays(b"garbage")
        with pytest.raises(httpx.RemoteProtocolError):
            client.get(scripted.url)
        scripted.plays(HOLD)
        with pytest.raises(httpx.ReadTimeout):
            client.get(scripted.url)
        with pytest.raises(httpx.ConnectError):
            client.get("http://127.0.0.1:9")


def test_a_request_may_be_chunked():
    """A body of unknown length is framed, so that the server finds its end."""
    seen = []

    def serve(sock, _):
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            data += sock.recv(1024)
        seen.append(data.partition(b"\r\n\r\n")[2])
        sock.sendall(body("fine"))
        sock.close()

    server = StreamServer(("127.0.0.1", 0), serve)
    server.start()
    with httpx.Client(transport=FastTransport()) as client:
        assert client.post(f"http://127.0.0.1:{server.server_port}", content=iter([b"ab", b"c"])).text == "fine"
    server.stop(timeout=0.1)
    assert seen == [b"3\r\nabc\r\n0\r\n\r\n"]


def test_an_answer_that_is_not_streamed_ends_with_its_last_byte(scripted):
    """TOK-16: latency of a plain answer is that of its last byte."""
    answer = json.dumps({"choices": [{"message": {"content": "x" * 100_000}, "finish_reason": "stop"}]})
    whole = body(answer)
    scripted.plays(whole[:1000], 0.1, whole[1000:])
    completion = complete(scripted.url, replace(ASK, stream=False))
    assert (completion.outcome, len(completion.text)) == ("ok", 100_000)
    assert completion.e2e_s >= 0.1 > completion.first_byte_s

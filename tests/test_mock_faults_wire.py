"""Mock server: what each fault puts on the wire, byte for byte where it matters."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import pytest

from llmload.mock.process import MockProcess
from tests.rawclient import Answer, ask, connect, read, send, truth_of

USAGE = {"include_usage": True}


@pytest.fixture(scope="module")
def mock() -> Iterator[MockProcess]:
    """A server that answers with six tokens at once."""
    with MockProcess("--ttft-ms", "0", "--itl-ms", "0", "--tokens", "6", "--seed", "5") as process:
        yield process


def faulty(mock: MockProcess, fault: str, **fields: object) -> Answer:
    """One request that meets `fault`."""
    return ask(mock, {"X-Mock-Fault": fault, "X-Request-Id": fault}, **fields)


def writes(answer: Answer) -> int:
    """How many HTTP chunks with bytes the body came in; each is one write of the server."""
    rest, count = answer.raw.partition(b"\r\n\r\n")[2], 0
    while rest and (size := int(rest.partition(b"\r\n")[0], 16)):
        rest, count = rest.partition(b"\r\n")[2][size + 2 :], count + 1
    return count


@pytest.mark.parametrize(
    ("fault", "status", "retry_after"),
    [("http_429", 429, "1"), ("http_429:retry_after=7", 429, "7"), ("http_503", 503, "1"), ("http_500", 500, None)],
)
def test_status_codes(mock: MockProcess, fault: str, status: int, retry_after: str | None) -> None:
    """The status, Retry-After where it belongs, and an error object; no slot is taken."""
    answer = faulty(mock, fault)
    assert (answer.status, answer.headers.get("retry-after"), answer.end) == (status, retry_after, "proper")
    assert json.loads(answer.body)["error"]["message"]
    record = truth_of(mock, fault)
    assert (record["outcome"], record["slot_ns"]) == (f"fault:http_{status}", None)


def test_an_error_inside_the_stream(mock: MockProcess) -> None:
    """After two tokens an error object comes as data, as event: error or with finish reason error."""
    data = faulty(mock, "error:after=2")
    assert (data.status, len(data.texts), data.end) == (200, 2, "proper")
    assert sorted(data.chunks[-1]) == ["error"]
    assert faulty(mock, "error:style=event").events[-1].startswith('event: error\ndata: {"error":{')
    finish = faulty(mock, "error:style=finish:done=1")
    assert finish.chunks[-1]["choices"][0]["finish_reason"] == "error"
    assert finish.events[-1] == "data: [DONE]"
    assert truth_of(mock, "error:after=2")["outcome"] == "fault:error"


@pytest.mark.parametrize(("how", "end"), [("close", "eof"), ("clean", "proper"), ("reset", "reset")])
def test_a_cut_stream(mock: MockProcess, how: str, end: str) -> None:
    """Two tokens, then the end of the connection or of the body; no finish reason, no [DONE]."""
    fault = f"cut:after=2:how={how}"
    answer = faulty(mock, fault)
    assert answer.end == end
    if how != "reset":  # a reset may overtake what was sent before it
        assert len(answer.texts) == 2
    assert b"[DONE]" not in answer.raw
    record = truth_of(mock, fault)
    assert (record["outcome"], record["tokens"]) == ("fault:cut", 2)


def test_a_cut_inside_an_event(mock: MockProcess) -> None:
    """With mid=1 half of the third event is sent."""
    answer = faulty(mock, "cut:after=2:mid=1")
    assert answer.end == "eof"
    assert answer.body.count(b"data: ") == 4  # role, two tokens, half of one
    assert not answer.body.endswith(b"\n\n")


def test_a_stall(mock: MockProcess) -> None:
    """Three tokens and silence until the client leaves; with seconds the rest follows."""
    with connect(mock.url) as sock:
        send(sock, {"X-Mock-Fault": "stall:after=3", "X-Request-Id": "stalled"})
        answer = read(sock, until=b'"content":" ')
        sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            read(sock, begun=answer)
    record = truth_of(mock, "stalled")
    assert (record["outcome"], record["tokens"], record["faults"]) == ("disconnected", 3, ["stall"])
    assert len(faulty(mock, "stall:after=3:seconds=0.1").texts) == 6
    stamps = truth_of(mock, "stall:after=3:seconds=0.1")["token_ns"]
    assert stamps[3] - stamps[2] >= 100_000_000


def test_endless_comments(mock: MockProcess) -> None:
    """Comments and no event; with seconds the answer follows."""
    with connect(mock.url) as sock:
        send(sock, {"X-Mock-Fault": "keepalive:every_ms=5"})
        comment = b": keep-alive\n\n"
        raw = b""
        while raw.count(comment) < 5:
            raw += sock.recv(1000)
    assert b"data:" not in raw
    answer = faulty(mock, "keepalive:every_ms=10:seconds=0.05")
    assert answer.events[0] == ": keep-alive"
    assert len(answer.texts) == 6


def test_an_early_role(mock: MockProcess) -> None:
    """The role chunk comes although the first token is a minute away."""
    with connect(mock.url) as sock:
        send(sock, {"X-Mock-Fault": "role_early", "X-Mock-TTFT-Ms": "60000"})
        assert b'"role":"assistant"' in read(sock, until=b'"role"').raw
    assert len(faulty(mock, "role_early").texts) == 6


def test_several_tokens_in_one_event(mock: MockProcess) -> None:
    """Six tokens in events of four make two texts; usage still counts tokens, and so does the truth."""
    answer = faulty(mock, "batch:size=4", stream_options=USAGE)
    assert [len(text.split()) for text in answer.texts] == [4, 2]
    assert answer.chunks[-1]["usage"]["completion_tokens"] == 6
    stamps = truth_of(mock, "batch:size=4")["token_ns"]
    assert (len(stamps), len(set(stamps))) == (6, 2)


def test_several_events_in_one_write(mock: MockProcess) -> None:
    """Six tokens in writes of three: two writes, and one for the end."""
    answer = faulty(mock, "coalesce:size=3")
    assert (writes(answer), len(answer.texts)) == (3, 6)


def test_a_buffered_stream(mock: MockProcess) -> None:
    """The whole body is one write; usage and truth have all tokens, at one moment."""
    answer = faulty(mock, "buffer", stream_options=USAGE)
    assert (writes(answer), len(answer.texts)) == (1, 6)
    assert answer.chunks[-1]["usage"]["completion_tokens"] == 6
    stamps = truth_of(mock, "buffer")["token_ns"]
    assert (len(stamps), len(set(stamps))) == (6, 1)


def test_a_compressed_stream(mock: MockProcess) -> None:
    """The body is gzip, one write an event, and every prefix of writes can be read."""
    answer = faulty(mock, "gzip")
    assert answer.headers["content-encoding"] == "gzip"
    text = zlib.decompress(answer.body, wbits=31)
    assert text.count(b'"content":" ') == 6
    assert text.endswith(b"data: [DONE]\n\n")
    assert writes(answer) == 8  # six tokens, the end, gzip's own trailer
    first_size = int(answer.raw.partition(b"\r\n\r\n")[2].partition(b"\r\n")[0], 16)
    assert zlib.decompressobj(wbits=31).decompress(answer.body[:first_size]).endswith(b"\n\n")
    plain = faulty(mock, "gzip", stream=False)
    assert json.loads(zlib.decompress(plain.body, wbits=31))["object"] == "chat.completion"


def test_late_headers(mock: MockProcess) -> None:
    """Not even the status line comes before the first token; without the fault it does."""
    with connect(mock.url) as sock:
        send(sock, {"X-Mock-TTFT-Ms": "60000"})
        assert read(sock, until=b"\r\n\r\n").raw.startswith(b"HTTP/1.1 200 OK\r\n")
    with connect(mock.url) as sock:
        send(sock, {"X-Mock-Fault": "late_headers", "X-Mock-TTFT-Ms": "60000"})
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
    assert len(faulty(mock, "late_headers").texts) == 6


@pytest.mark.parametrize(("fault", "end"), [("silent_close", "eof"), ("silent_close:reset=1", "reset")])
def test_a_silent_close(mock: MockProcess, fault: str, end: str) -> None:
    """The connection ends without a byte."""
    answer = faulty(mock, fault)
    assert (answer.raw, answer.end) == (b"", end)
    assert truth_of(mock, fault)["outcome"] == "fault:silent_close"


def test_never_answering(mock: MockProcess) -> None:
    """No byte comes, and the record is closed when the client leaves."""
    with connect(mock.url) as sock:
        send(sock, {"X-Mock-Fault": "never", "X-Request-Id": "never"})
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
    assert truth_of(mock, "never")["outcome"] == "disconnected"


def test_done_and_held_open(mock: MockProcess) -> None:
    """[DONE] comes, the end of the response does not; the record says ok at once; seconds end it."""
    with connect(mock.url) as sock:
        send(sock, {"X-Mock-Fault": "hold_open", "X-Request-Id": "held"})
        assert read(sock, until=b"data: [DONE]\n\n\r\n").end == "open"
        assert truth_of(mock, "held")["outcome"] == "ok"
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
    assert faulty(mock, "hold_open:seconds=0.05").end == "proper"
    assert mock.stats()["slots_used"] == 0


def test_usage_variants(mock: MockProcess) -> None:
    """No usage although asked for; or a usage chunk and after it one whose usage is null."""
    assert all("usage" not in chunk for chunk in faulty(mock, "no_usage", stream_options=USAGE).chunks)
    assert "usage" not in json.loads(faulty(mock, "no_usage", stream=False).body)
    twice = faulty(mock, "usage_null_after", stream_options=USAGE).chunks
    assert (twice[-2]["usage"]["completion_tokens"], twice[-1]["usage"]) == (6, None)


def test_an_empty_answer(mock: MockProcess) -> None:
    """Role, finish, zero tokens in usage, a proper end."""
    answer = faulty(mock, "empty", stream_options=USAGE)
    assert (answer.texts, answer.end, answer.events[-1]) == ([], "proper", "data: [DONE]")
    assert answer.chunks[1]["choices"][0]["finish_reason"] == "stop"
    assert answer.chunks[-1]["usage"]["completion_tokens"] == 0
    assert truth_of(mock, "empty")["first_token_ns"] is None


def test_answers_that_are_no_stream(mock: MockProcess) -> None:
    """A page in HTML, or one JSON object, with status 200."""
    page, whole = faulty(mock, "html"), faulty(mock, "json")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.body.startswith(b"<!doctype html>")
    assert (whole.status, whole.headers["content-type"]) == (200, "application/json")
    assert json.loads(whole.body)["object"] == "chat.completion"


def test_a_redirect(mock: MockProcess) -> None:
    """307 to a place where the same request is answered."""
    answer = faulty(mock, "redirect")
    assert (answer.status, answer.headers["location"]) == (307, "/redirected/v1/chat/completions")
    assert faulty(mock, "redirect:status=302:to=/x").status == 302
    with connect(mock.url) as sock:
        body = b'{"model":"mock","messages":[{}],"stream":true}'
        head = b"POST /redirected/v1/chat/completions HTTP/1.1\r\nHost: m\r\nX-Mock-Fault: redirect\r\n"
        sock.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert len(read(sock).texts) == 6


def test_stream_options_are_rejected(mock: MockProcess) -> None:
    """400 with the message that such servers send, and only if the request has stream_options."""
    answer = faulty(mock, "reject_stream_options", stream_options=USAGE)
    assert answer.status == 400
    assert answer.body == b'{"error":{"message":"stream_options: extra inputs are not permitted"}}'
    assert faulty(mock, "reject_stream_options").status == 200


def test_content_filter_and_missing_done(mock: MockProcess) -> None:
    """Finish reason content_filter after two tokens; a proper end without [DONE]."""
    filtered = faulty(mock, "content_filter:after=2", stream_options=USAGE)
    assert (len(filtered.texts), filtered.chunks[-1]["usage"]["completion_tokens"]) == (2, 2)
    assert filtered.chunks[-2]["choices"][0]["finish_reason"] == "content_filter"
    assert truth_of(mock, "content_filter:after=2")["outcome"] == "fault:content_filter"
    undone = faulty(mock, "no_done")
    assert (undone.end, b"[DONE]" in undone.body) == ("proper", False)
    assert undone.chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_broken_plain_answers(mock: MockProcess) -> None:
    """A plain answer is cut in half, or is an error object under 200."""
    cut = faulty(mock, "cut", stream=False)
    assert (cut.end, len(cut.body)) == ("eof", int(cut.headers["content-length"]) // 2)
    error = faulty(mock, "error", stream=False)
    assert (error.status, sorted(json.loads(error.body))) == (200, ["error"])


def test_faults_combine(mock: MockProcess) -> None:
    """An early role, compressed, two tokens an event, cut after four tokens."""
    answer = faulty(mock, "role_early, gzip, batch:size=2, cut:after=4")
    text = zlib.decompressobj(wbits=31).decompress(answer.body)
    assert (answer.end, text.count(b'"content":" ')) == ("eof", 2)
    assert truth_of(mock, "role_early, gzip, batch:size=2, cut:after=4")["faults"] == [
        "role_early",
        "gzip",
        "batch",
        "cut",
    ]

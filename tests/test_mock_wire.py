"""Mock server: the bytes of good answers, the truth about them, slots, lockstep, control endpoints."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from itertools import pairwise

import pytest

from llmload.mock.process import MockProcess
from tests.rawclient import ask, connect, read, send, truth_of


@pytest.fixture(scope="module")
def mock() -> Iterator[MockProcess]:
    """A server that answers with six tokens at once."""
    with MockProcess("--ttft-ms", "0", "--itl-ms", "0", "--tokens", "6", "--seed", "5") as process:
        yield process


def test_a_stream_has_the_shape_of_the_api(mock: MockProcess) -> None:
    """Role, six texts, finish, [DONE]: one id, one model, no usage field, and a proper end."""
    answer = ask(mock)
    chunks = answer.chunks
    assert (answer.status, answer.end) == (200, "proper")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * 7 + ["stop"]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [sorted(c["choices"][0]["delta"]) for c in chunks[1:7]] == [["content"]] * 6
    assert chunks[7]["choices"][0]["delta"] == {}
    assert {(c["id"], c["object"], c["model"], c["created"]) for c in chunks} == {
        (chunks[0]["id"], "chat.completion.chunk", "mock", chunks[0]["created"])
    }
    assert all("usage" not in c for c in chunks)
    assert answer.events[-1] == "data: [DONE]"
    assert len(set(answer.texts)) == 6


def test_usage_comes_when_asked_for(mock: MockProcess) -> None:
    """With include_usage, a chunk without choices has the counts and all others say null."""
    chunks = ask(mock, stream_options={"include_usage": True}, max_tokens=4).chunks
    assert [c["usage"] for c in chunks[:-1]] == [None] * 6
    assert chunks[-1]["choices"] == []
    usage = chunks[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (3, 4, 7)
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"


def test_the_role_leaves_with_the_first_token(mock: MockProcess) -> None:
    """Role chunk and first token are two events in one HTTP chunk, that is in one write."""
    raw = ask(mock).raw.partition(b"\r\n\r\n")[2]
    size = int(raw.partition(b"\r\n")[0], 16)
    first = raw.partition(b"\r\n")[2][:size]
    assert first.count(b"data: ") == 2
    assert b'"role"' in first


def test_a_plain_answer_is_one_object(mock: MockProcess) -> None:
    """Without stream, the answer is one JSON object with text, finish reason and usage."""
    answer = ask(mock, stream=False)
    body = json.loads(answer.body)
    assert (answer.status, body["object"]) == (200, "chat.completion")
    assert len(body["choices"][0]["message"]["content"].split()) == 6
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 6


def test_the_truth_has_every_token(mock: MockProcess) -> None:
    """The record has six ordered token stamps between arrival and end, and the ids of both sides."""
    answer = ask(mock, {"X-Request-Id": "t-1"})
    record = truth_of(mock, "t-1")
    assert record["id"] == answer.chunks[0]["id"]
    assert (record["outcome"], record["tokens"], record["faults"]) == ("ok", 6, [])
    stamps = [record["arrived_ns"], record["slot_ns"], *record["token_ns"], record["ended_ns"]]
    assert stamps == sorted(stamps)
    assert len(record["token_ns"]) == 6
    assert record["first_token_ns"] == record["token_ns"][0]


def test_ids_differ_and_connections_are_kept(mock: MockProcess) -> None:
    """Two requests on one connection get two ids."""
    with connect(mock.url) as sock:
        ids = set()
        for _ in range(2):
            send(sock)
            ids.add(read(sock).chunks[0]["id"])
    assert len(ids) == 2


def test_no_token_comes_before_its_time(mock: MockProcess) -> None:
    """With TTFT 40 ms and ITL 10 ms from headers, token i is at least 40 + 10 i ms after the arrival."""
    ask(mock, {"X-Mock-TTFT-Ms": "40", "X-Mock-ITL-Ms": "10", "X-Request-Id": "t-2"})
    record = truth_of(mock, "t-2")
    for i, stamp in enumerate(record["token_ns"]):
        assert stamp - record["arrived_ns"] >= (40 + 10 * i) * 1_000_000


def test_errors_have_the_shape_of_the_api(mock: MockProcess) -> None:
    """Malformed JSON is 400, an unknown model 404, an unknown path 404, a wrong header value 400."""
    with connect(mock.url) as sock:
        send(sock, body=b"{nonsense")
        answers = [read(sock)]
    answers += [ask(mock, model="other"), ask(mock, {"X-Mock-Fault": "boom"}), ask(mock, {"X-Mock-Tokens": "x"})]
    assert [a.status for a in answers] == [400, 404, 400, 400]
    assert [json.loads(a.body)["error"]["type"] for a in answers] == ["invalid_request_error"] * 4
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(mock.url + "/nothing")
    with caught.value as error:
        assert (error.code, "error" in json.loads(error.read())) == (404, True)


def test_models_health_and_key() -> None:
    """Models are listed; with a key, the API answers 401 without it, and health needs none."""
    with MockProcess("--model", "a", "--model", "b", "--api-key", "sk-x", "--ttft-ms", "0", "--tokens", "1") as mock:
        root = mock.url.removesuffix("/v1")
        with urllib.request.urlopen(root + "/health") as response:
            assert json.loads(response.read()) == {"status": "ok"}
        assert ask(mock, model="a").status == 401
        assert ask(mock, {"Authorization": "Bearer sk-x"}, model="b").status == 200
        request = urllib.request.Request(mock.url + "/models", headers={"Authorization": "Bearer sk-x"})
        with urllib.request.urlopen(request) as response:
            assert [row["id"] for row in json.loads(response.read())["data"]] == ["a", "b"]


def test_one_slot_queues_in_order_of_arrival() -> None:
    """With one slot, each request gets its slot after the one before has ended, and TTFT counts from the slot."""
    with MockProcess("--slots", "1", "--ttft-ms", "20", "--itl-ms", "2", "--tokens", "5") as mock:
        clients = [threading.Thread(target=ask, args=(mock,)) for _ in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        records = mock.truth()
        stats = mock.stats()
    assert [r["arrived_ns"] for r in records] == sorted(r["arrived_ns"] for r in records)
    for before, after in pairwise(records):
        assert after["slot_ns"] >= before["ended_ns"]
        assert after["first_token_ns"] - after["slot_ns"] >= 20_000_000
    assert (stats["peak_slots_used"], stats["slots_used"], stats["queued"]) == (1, 0, 0)
    assert (stats["started"], stats["finished"], stats["tokens_sent"]) == (4, 4, 20)


def test_lockstep_puts_all_streams_on_one_grid() -> None:
    """Streams that start at odd moments send each token after a common tick, never before, one a tick."""
    step = 40_000_000
    with MockProcess("--lockstep", "--ttft-ms", "13", "--itl-ms", "40", "--tokens", "4") as mock:
        clients = [threading.Thread(target=ask, args=(mock,)) for _ in range(5)]
        for client in clients:
            client.start()
            time.sleep(0.007)
        for client in clients:
            client.join()
        for record in mock.truth():
            first_tick = -(-(record["arrived_ns"] + 13_000_000) // step)
            for i, stamp in enumerate(record["token_ns"]):
                assert stamp >= (first_tick + i) * step


def test_a_client_that_leaves_frees_its_slot() -> None:
    """The next request in the queue is served although the first answer would never have ended."""
    with MockProcess("--slots", "1", "--ttft-ms", "0", "--itl-ms", "60000", "--tokens", "3") as mock:
        with connect(mock.url) as first:
            send(first, {"X-Request-Id": "gone"})
            read(first, until=b'"content":" ')
            waiting = connect(mock.url)
            send(waiting, {"X-Request-Id": "queued"})
        record = truth_of(mock, "gone")
        assert (record["outcome"], record["tokens"]) == ("disconnected", 1)
        read(waiting, until=b'"content":" ')
        waiting.close()
        assert truth_of(mock, "queued")["slot_ns"] >= record["ended_ns"]


def test_reasoning_comes_first() -> None:
    """With --reasoning 2 the first two tokens are reasoning_content and usage says so."""
    with MockProcess("--reasoning", "2", "--ttft-ms", "0", "--itl-ms", "0", "--tokens", "5") as mock:
        answer = ask(mock, stream_options={"include_usage": True})
        plain = json.loads(ask(mock, stream=False).body)["choices"][0]["message"]
    keys = [list(c["choices"][0]["delta"]) for c in answer.chunks[1:6]]
    assert keys == [["reasoning_content"]] * 2 + [["content"]] * 3
    assert answer.chunks[-1]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert (len(plain["reasoning_content"].split()), len(plain["content"].split())) == (2, 3)


def test_unicode_text_is_sent_unescaped() -> None:
    """Multibyte words, among them U+2028 inside a JSON string, are sent as UTF-8."""
    with MockProcess("--text", "unicode", "--ttft-ms", "0", "--itl-ms", "0", "--tokens", "40") as mock:
        answer = ask(mock)
    assert "\u2028".encode() in answer.body
    assert " 東京" in answer.texts
    assert len(answer.texts) == 40


def test_control_endpoints(mock: MockProcess) -> None:
    """Faults can be set and ended while the server runs, and the truth can be cleared."""
    mock.set_faults("http_418")
    assert ask(mock).status == 418
    mock.set_faults()
    assert ask(mock).status == 200
    with pytest.raises(urllib.error.HTTPError) as caught:
        mock.set_faults("boom")
    caught.value.close()
    assert mock.truth(clear=True) != []
    assert mock.truth() == []


def test_a_freeze_stops_every_token() -> None:
    """No token leaves while the server is frozen, and the rest of the stream keeps its gaps."""
    with MockProcess("--ttft-ms", "0", "--itl-ms", "20", "--tokens", "6") as mock, connect(mock.url) as sock:
        send(sock)
        answer = read(sock, until=b'"content":" ')
        mock.freeze(0.3)
        frozen_ns = time.monotonic_ns()
        assert read(sock, begun=answer).end == "proper"
        (record,) = mock.truth()
    after = [stamp for stamp in record["token_ns"] if stamp > frozen_ns]
    assert after
    assert after[0] - frozen_ns >= 250_000_000
    assert after[-1] - after[0] >= (len(after) - 1) * 20_000_000 - 2_000_000

"""Recorded responses over both wires, cut in every way: the completions are the same but for their times."""

import base64
import json
from dataclasses import fields

import gevent
import pytest
from gevent.server import StreamServer

from llmload.wire.fast import FastWire
from llmload.wire.plain import PlainWire
from llmload.wire.response import Response
from tests.clients import ASK, Heard, client_for
from tests.playback import STREAMS

NAMES = sorted(path.stem for path in STREAMS.glob("*.jsonl") if path.stem != "expected")
TIMES = {
    "id",
    "started_unix_ns",
    "gaps_us",
    "events_per_read",
    "coalesced_events",
    "burst_share",
    "output_tps",
    "ttft_is_bound",
    "stamps",
}


def raw(name):
    """Return the bytes of a recording, HTTP and all."""
    lines = [json.loads(line) for line in (STREAMS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return b"".join(base64.b64decode(line["b64"]) if "b64" in line else line["s"].encode() for line in lines[1:-1])


def facts(completion):
    """Return a completion without its times, and without the words each parser has for a cut answer."""
    names = [one.name for one in fields(completion) if one.name not in TIMES and not one.name.endswith("_s")]
    known = {name: getattr(completion, name) for name in names}
    if completion.kind == "truncated":
        del known["message"]
    return known


class Player:
    """A server that sends one recording a connection, in pieces, then closes."""

    def __init__(self):
        self.pieces = []
        self._server = StreamServer(("127.0.0.1", 0), self._serve)

    def __enter__(self):
        self._server.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_):
        self._server.stop(timeout=0.1)

    def _serve(self, sock, _):
        sock.recv(65536)
        for piece in self.pieces:
            sock.sendall(piece)
            gevent.sleep(0)
        sock.close()


def pieces(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("name", NAMES)
def test_both_wires_read_a_recording_alike(name):
    """Whole, in pieces, byte by byte and cut in two: the same completion from both."""
    data = raw(name)
    ways = [[data], pieces(data, 7), pieces(data, 1)]
    ways += [[data[:cut], data[cut:]] for cut in range(1, len(data), max(1, len(data) // 8))]
    with Player() as player:
        clients = [client_for(player.url, wire=PlainWire()), client_for(player.url, wire=FastWire())]
        seen = []
        for player.pieces in ways:
            seen += [facts(client.complete(ASK, request_id="1", listener=Heard())) for client in clients]
    assert [one for one in seen if one != seen[0]] == []


@pytest.mark.parametrize("name", NAMES)
def test_cuts_change_nothing_in_a_response(name):
    """Byte by byte and cut in two everywhere, llhttp reads the same head and the same body."""
    data = raw(name)

    def response(reads):
        one = Response()
        for number, read in enumerate(reads):
            one.feed([(read, number)])
        body = b"".join(part for part, _ in one.pairs)
        return one.status, one.headers, body, one.complete, one.reusable

    whole = response([data])
    assert response(pieces(data, 1)) == whole
    for cut in range(1, len(data)):
        assert response([data[:cut], data[cut:]]) == whole

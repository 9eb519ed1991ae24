"""A chat client of one socket and a few lines, so that nothing of llmload's own reading can hide a mistake."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from llmload.mock.process import MockProcess

PATIENCE_S = 20.0


@dataclass
class Answer:
    """What a raw client saw: `end` is proper, eof, reset or open (we stopped reading)."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    end: str = "open"
    raw: bytes = b""

    @property
    def events(self) -> list[str]:
        """The blocks between blank lines."""
        return [block for block in self.body.decode().split("\n\n") if block]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The JSON of all data events but [DONE]."""
        return [json.loads(e[6:]) for e in self.events if e.startswith("data: {")]

    @property
    def texts(self) -> list[str]:
        """The non-empty content deltas."""
        deltas = [choice["delta"] for chunk in self.chunks for choice in chunk.get("choices", ())]
        return [delta["content"] for delta in deltas if delta.get("content")]


def connect(url: str) -> socket.socket:
    """An open connection to the server."""
    host, port = url.split("/")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def send(sock: socket.socket, headers: dict[str, str] | None = None, body: bytes | None = None, **fields: Any) -> None:
    """Write a chat request for a stream, changed by `fields`, or with this `body`."""
    chat = {"model": "mock", "messages": [{"role": "user", "content": "one two three"}], "stream": True} | fields
    data = json.dumps(chat).encode() if body is None else body
    lines = [f"{name}: {value}\r\n" for name, value in (headers or {}).items()]
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nContent-Length: {len(data)}\r\n{''.join(lines)}\r\n"
    sock.sendall(head.encode() + data)


def read(sock: socket.socket, until: bytes | None = None, *, begun: Answer | None = None) -> Answer:
    """Read one response (the rest of `begun`) to its end, or up to and including the bytes `until`."""
    answer = begun or Answer()
    while True:
        if until is not None and until in answer.raw:
            return answer
        try:
            data = sock.recv(65536)
        except ConnectionResetError:
            answer.end = "reset"
            return answer
        if not data:
            answer.end = "eof"
            return answer
        answer.raw += data
        if parse(answer):
            answer.end = "proper"
            return answer


def parse(answer: Answer) -> bool:
    """Take head and body apart; True when the body is complete."""
    head, blank, rest = answer.raw.partition(b"\r\n\r\n")
    if not blank:
        return False
    status, *lines = head.decode().split("\r\n")
    answer.status = int(status.split()[1])
    answer.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if "content-length" in answer.headers:
        answer.body = rest
        return len(rest) == int(answer.headers["content-length"])
    answer.body = b""
    while True:
        size, found, rest = rest.partition(b"\r\n")
        if not found or len(rest) < int(size, 16) + 2:
            answer.body += rest if found else b""
            return False
        if int(size, 16) == 0:
            return True
        answer.body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]


def ask(mock: MockProcess, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
    """One request on a connection of its own."""
    with connect(mock.url) as sock:
        send(sock, headers, **fields)
        return read(sock)


def truth_of(mock: MockProcess, request_id: str) -> dict[str, Any]:
    """The record of one request, as soon as it has ended."""
    give_up_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_s:
        for record in mock.truth():
            if record["request_id"] == request_id:
                return record
        time.sleep(0.01)
    raise AssertionError(f"no record of {request_id}")

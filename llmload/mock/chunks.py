"""The bytes of one answer in OpenAI's shape, encoded as far as possible before the first token is due.

No I/O, no clock.
Shapes: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import json
from typing import Any

DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keep-alive\n\n"

_ASCII = (
    " the load of a server grows until each answer waits for another one and then tokens come late while"
    " users ask why so we measure first what it sends with known times before any number is believed by"
    " people who must decide how many machines they need"
)
# U+2028 and U+0085 end a line in Python but not in SSE; the rest takes two to four bytes a character.
_UNICODE = " naïve größer Ωmega привет 東京 こんにちは 안녕 🙂 👩‍🚀 e\u0301 a\u2028b c\u0085d שלום €uro ½ 中文"

WORDS = {
    "ascii": tuple(" " + word for word in _ASCII.split()),
    "unicode": tuple(" " + word for word in _UNICODE.split(" ") if word),
}
_ENCODED = {
    name: tuple(json.dumps(word, ensure_ascii=False)[1:-1].encode() for word in words) for name, words in WORDS.items()
}


def answer_text(text: str, *, first: int, start: int, stop: int) -> str:
    """The words of tokens `start` to `stop` of an answer that begins with word `first`."""
    words = WORDS[text]
    return "".join(words[(first + i) % len(words)] for i in range(start, stop))


def usage_of(*, prompt_tokens: int, tokens: int, reasoning: int) -> dict[str, Any]:
    """The usage object; `tokens` includes the reasoning."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": prompt_tokens + tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


class Chunks:
    """The events of one streamed answer.

    Args:
        completion_id: the same on all events of the answer.
        created: Unix time in whole seconds.
        text: which words, a key of `WORDS`; `first` is the word that the answer begins with.
        include_usage: all other chunks then say `"usage":null`, as the API does.
    """

    def __init__(
        self, completion_id: str, created: int, *, model: str, text: str, first: int, include_usage: bool
    ) -> None:
        head = {"id": completion_id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._head = b"data: " + _compact(head)[:-1] + b',"choices":['
        self._tail = (b'],"usage":null' if include_usage else b"]") + b"}\n\n"
        self._content = self._head + b'{"index":0,"delta":{"content":"'
        self._thought = self._head + b'{"index":0,"delta":{"reasoning_content":"'
        self._close = b'"},"finish_reason":null}' + self._tail
        self._words = _ENCODED[text]
        self._first = first

    def role(self) -> bytes:
        """The first chunk: a role and no text."""
        return self._choice({"role": "assistant", "content": ""}, None)

    def tokens(self, start: int, stop: int, *, reasoning: bool) -> bytes:
        """One event with the tokens from `start` to `stop`."""
        words, first = self._words, self._first
        if stop == start + 1:
            text = words[(first + start) % len(words)]
        else:
            text = b"".join(words[(first + i) % len(words)] for i in range(start, stop))
        return (self._thought if reasoning else self._content) + text + self._close

    def finish(self, reason: str) -> bytes:
        """The chunk that says why the answer ended."""
        return self._choice({}, reason)

    def usage(self, usage: dict[str, Any] | None) -> bytes:
        """The chunk without choices that carries the usage."""
        return self._head + b'],"usage":' + _compact(usage) + b"}\n\n"

    def error(self, style: str) -> bytes:
        """An error inside the stream: plain data, `event: error`, or a chunk with finish reason `error`."""
        error = {"message": "The mock server failed on request.", "type": "server_error", "code": 500}
        if style == "finish":
            choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
            return self._head + _compact(choice) + b'],"error":' + _compact(error) + b"}\n\n"
        prefix = b"event: error\n" if style == "event" else b""
        return prefix + b"data: " + _compact({"error": error}) + b"\n\n"

    def _choice(self, delta: dict[str, Any], reason: str | None) -> bytes:
        return self._head + _compact({"index": 0, "delta": delta, "finish_reason": reason}) + self._tail


def plain_body(
    completion_id: str,
    created: int,
    *,
    model: str,
    content: str,
    thought: str,
    finish_reason: str,
    usage: dict[str, Any] | None,
) -> bytes:
    """The whole answer to a request that did not ask for a stream; no usage field if `usage` is None."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if thought:
        message["reasoning_content"] = thought
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    answer: dict[str, Any] = {"id": completion_id, "object": "chat.completion", "created": created}
    answer |= {"model": model, "choices": [choice]}
    return _compact(answer | ({"usage": usage} if usage is not None else {}))


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

"""The OpenAI chat completions dialect, as OpenAI and the many servers that copy it speak it.

No network, no clock. Source: OpenAI API reference, "Create chat completion" and "Streaming"; what other servers
do differently is said where it is read. Values of unexpected types are passed over, never an error.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from llmload.protocols.error_text import read_error, stream_error
from llmload.protocols.openai_usage import read_usage
from llmload.records import ChatRequest
from llmload.timeline import Delta

_DONE = Delta(done=True)
_NOTHING = Delta()
_MALFORMED = Delta(malformed=True)
_PLAIN_KEYS = {"content", "role"}


class OpenAIChat:
    """Chat completions in the OpenAI dialect.

    Args:
        ask_usage: ask for token counts at the end of a stream (`stream_options`). Some servers reject that.
        max_tokens_field: the name under which the token limit is sent; OpenAI's newer models want
            `max_completion_tokens`.
    """

    name = "openai_chat"
    path = "/chat/completions"
    models_path = "/models"

    def __init__(self, *, ask_usage: bool = True, max_tokens_field: str = "max_tokens") -> None:
        self._ask_usage = ask_usage
        self._max_tokens_field = max_tokens_field

    def headers(self, api_key: str | None) -> dict[str, str]:
        """Return the request's headers; without a key no `Authorization` is sent."""
        # "application/json" also for streams: it is what OpenAI's own clients send and gateways are tested with.
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        return headers | ({"Authorization": f"Bearer {api_key}"} if api_key else {})

    def encode(self, request: ChatRequest) -> bytes:
        """Return the request's body as JSON; `extra_body` is merged last and replaces whole keys."""
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [dict(message) for message in request.messages],
            "stream": request.stream,
        }
        if request.stream and self._ask_usage:
            body["stream_options"] = {"include_usage": True}
        if request.max_tokens is not None:
            body[self._max_tokens_field] = request.max_tokens
        if request.temperature is not None:
            body["temperature"] = request.temperature
        body.update(request.extra_body)
        try:
            return orjson.dumps(body)
        except TypeError:
            # "replace": half a character in an earlier answer must not stop the conversation that quotes it.
            return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def read_event(self, data: str, name: str = "message") -> Delta | str:
        """Return what one event adds to the answer. An event is one delta, however many choices it is about."""
        if data.strip() == "[DONE]":
            return _DONE
        try:
            payload = orjson.loads(data)
        except (ValueError, RecursionError):
            payload = _decoded_by_json(data)
        if not isinstance(payload, dict):
            return Delta(error=stream_error(data)) if name == "error" else _MALFORMED
        if name == "error":
            return Delta(error=stream_error(payload))
        return _plain_text(payload) or _read(payload)

    def read_answer(self, body: bytes) -> Delta:
        """Return what the whole body of an answer that was not streamed holds; its end is an end marker."""
        payload = _decoded(body.decode("utf-8-sig", "replace"))
        return _MALFORMED if payload is None else _read(payload)._replace(done=True)

    def read_error(self, body: bytes) -> str:
        """Return what an error response's body says, on one line; empty when it says nothing."""
        return read_error(body)

    def read_models(self, body: bytes) -> list[str]:
        """Return the ids in a model list's body; empty when it is no model list."""
        payload = _decoded(body.decode("utf-8-sig", "replace")) or {}
        models = [item.get("id") for item in _list(payload.get("data")) if isinstance(item, dict)]
        return [model for model in models if isinstance(model, str)]


def _decoded(data: str) -> dict[str, Any] | None:
    """Return a JSON object; None where it is none. A whole number beyond 64 bits may come out as a float."""
    try:
        payload = orjson.loads(data)
    except (ValueError, RecursionError):
        payload = _decoded_by_json(data)
    return payload if isinstance(payload, dict) else None


def _decoded_by_json(data: str) -> Any:
    """Return what orjson refuses and Python takes: halves of a character (`"\\ud83d"`), NaN, 1e999; None at worst."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _plain_text(payload: dict[str, Any]) -> str | None:
    """Return the text where the event is one choice's next text and nothing else, as nearly all are; else None."""
    get = payload.get
    choices = get("choices")
    # `type(…) is`: JSON makes no subclasses, and this runs once a token
    if type(choices) is not list or len(choices) != 1 or get("usage") or get("error") or get("object") == "error":
        return None
    choice = choices[0]
    if type(choice) is not dict or choice.get("finish_reason") or choice.get("usage"):
        return None
    part = choice.get("delta")
    if type(part) is not dict or not (len(part) == 1 or part.keys() <= _PLAIN_KEYS):
        return None
    content = part.get("content")
    return content if type(content) is str and content else None


def _read(payload: dict[str, Any]) -> Delta:
    answer = reasoning = tool = ""
    finish_reasons: tuple[tuple[int, str], ...] = ()
    choices = _list(payload.get("choices"))
    usage, error = payload.get("usage"), payload.get("error")
    for position, choice in enumerate(choices):
        if not isinstance(choice, dict):
            continue
        part = choice.get("delta")
        if not isinstance(part, dict):
            # `message` is the answer that was not streamed. Perplexity sends it in streams too, beside `delta`, as
            # a copy of all so far. `text` is the older completions API.
            part = choice.get("message")
        if isinstance(part, dict):
            answer += _text(part.get("content"))
            if not part.keys() <= _PLAIN_KEYS or isinstance(part.get("content"), list):
                answer += _text(part.get("refusal"))
                reasoning += _reasoning(part)
                tool += _tool(part)
        else:
            answer += _text(choice.get("text"))
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str):
            finish_reasons += ((_index(choice, position), reason),)
            error = error or choice.get("error")
        usage = usage or choice.get("usage")  # Moonshot's place for it
    generated = answer or reasoning or tool
    counts = read_usage(usage) if usage else None
    about = None
    # Servers whose usage chunk has no empty `choices` (LiteLLM) put an empty choice 0 there: the counts are about
    # a choice only if the event adds something to it.
    if counts and len(choices) == 1 and (generated or finish_reasons):
        about = _index(choices[0], 0)
    message = stream_error({"error": error}) if error else _odd_error(payload)
    if not (generated or finish_reasons or counts or message):
        return _NOTHING
    return Delta(answer, reasoning, tool, finish_reasons, counts, about, message)


def _odd_error(payload: dict[str, Any]) -> str | None:
    # vLLM up to 0.10 and FastChat; then gateways that answer with `choices` null.
    odd = payload.get("object") == "error" or (payload.get("choices") is None and payload.get("error_message"))
    return stream_error(payload) if odd else None


def _index(choice: dict[str, Any], position: int) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else position


def _text(value: object) -> str:
    """Return a content: a text, or the texts of a list of parts (`{"type": "text", "text": …}`)."""
    if isinstance(value, str):
        return value
    parts = [part.get("text") for part in _list(value) if isinstance(part, dict)]
    return "".join(part for part in parts if isinstance(part, str))


def _reasoning(part: dict[str, Any]) -> str:
    # DeepSeek, Qwen, llama.cpp, older vLLM: `reasoning_content`. Newer vLLM, Groq, OpenRouter: `reasoning`.
    # OpenRouter sends the same text in `reasoning_details` again, so the first that says something is taken.
    for key in ("reasoning_content", "reasoning"):
        text = part.get(key)
        if text and isinstance(text, str):
            return text
    details = part.get("reasoning_details")
    if details:
        return _text(details)  # `reasoning.encrypted` has `data` and no text: nothing that was generated is seen
    content = part.get("content")
    if isinstance(content, list):  # Mistral: parts of the type `thinking`
        return "".join(_text(item.get("thinking")) for item in content if isinstance(item, dict))
    return ""


def _tool(part: dict[str, Any]) -> str:
    """Return the names and arguments of the functions that are called: the model generated both."""
    calls = [call.get("function") for call in _list(part.get("tool_calls")) if isinstance(call, dict)]
    called = [call for call in (*calls, part.get("function_call")) if isinstance(call, dict)]
    pieces = [call.get(key) for call in called for key in ("name", "arguments")]
    return "".join(piece for piece in pieces if isinstance(piece, str))

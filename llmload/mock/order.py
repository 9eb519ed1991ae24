"""What one request asks for: its body and control headers, checked.

No I/O, no clock; the random source is passed in.
Shapes: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from llmload.errors import SetupError
from llmload.mock.distribution import Distribution, parse_distribution
from llmload.mock.faults import Fault, parse_faults
from llmload.mock.schedule import offsets_ns
from llmload.mock.settings import Settings

MAX_TOKENS = 131_072
"""The longest answer: drawn due times are computed before it begins."""


class Refused(Exception):
    """A request that is answered with an HTTP error in OpenAI's shape."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(status, message, code=code, param=param)


def error_body(status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """An error as OpenAI writes it; the type follows from the status."""
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json.dumps({"error": error}).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One valid request. `offsets_ns` holds the due time of each token after the start."""

    model: str
    stream: bool
    include_usage: bool
    has_stream_options: bool
    prompt_tokens: int
    tokens: int
    finish_reason: str
    offsets_ns: Sequence[int]


def check_key(headers: Mapping[str, str], key: str | None) -> None:
    """Refuse a request without the right key; no key set means that every request passes."""
    given = headers.get("authorization", "")
    if key is not None and not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
        raise Refused(401, "Incorrect API key provided.", code="invalid_api_key")


def header_faults(headers: Mapping[str, str]) -> tuple[Fault, ...]:
    """The faults that this request asks for."""
    try:
        return parse_faults(headers.get("x-mock-fault", ""), "X-Mock-Fault")
    except SetupError as error:
        raise Refused(400, str(error), param="X-Mock-Fault") from error


def read_order(body: bytes, headers: Mapping[str, str], *, settings: Settings, rng: Random) -> Order:
    """Check a chat request and draw the times and the length of its answer.

    Raises:
        Refused: malformed JSON or a wrong field (400), an unknown model (404).
    """
    chat = _read_json(body)
    model = chat.get("model")
    if not isinstance(model, str):
        raise Refused(400, "you must provide a model parameter", param="model")
    if model not in settings.models:
        raise Refused(404, f"The model {model!r} does not exist.", code="model_not_found", param="model")
    messages = chat.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise Refused(400, "'messages' must be a list of one message or more", param="messages")
    if chat.get("n") not in (None, 1):
        raise Refused(400, "this server answers with one choice", param="n")
    ttft = _control(headers, "X-Mock-TTFT-Ms", settings.ttft_ms)
    itl = _control(headers, "X-Mock-ITL-Ms", settings.itl_ms)
    ttft_ns = round(ttft.draw(rng) * 1e6)
    natural = min(MAX_TOKENS, round(_control(headers, "X-Mock-Tokens", settings.tokens).draw(rng)))
    tokens, finish_reason = _length(chat, natural)
    options = chat.get("stream_options")
    return Order(
        model=model,
        stream=chat.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        has_stream_options=options is not None,
        prompt_tokens=sum(_words(message.get("content")) for message in messages),
        tokens=tokens,
        finish_reason=finish_reason,
        offsets_ns=offsets_ns(max(tokens, 1), ttft_ns=ttft_ns, itl_ms=itl, rng=rng),
    )


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        chat = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "We could not parse the JSON body of your request.") from error
    if not isinstance(chat, dict):
        raise Refused(400, "The JSON body must be an object.")
    return chat


def _control(headers: Mapping[str, str], name: str, default: Distribution) -> Distribution:
    text = headers.get(name.lower())
    if text is None:
        return default
    try:
        return parse_distribution(text, name)
    except SetupError as error:
        raise Refused(400, str(error), param=name) from error


def _length(chat: Mapping[str, Any], natural: int) -> tuple[int, str]:
    """Tokens and finish reason: the natural length, or less if the request allows less.

    `ignore_eos` (vLLM, SGLang) makes the answer exactly as long as the request allows.
    """
    for field in ("max_completion_tokens", "max_tokens"):
        limit = chat.get(field)
        if limit is None:
            continue
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_TOKENS:
            raise Refused(400, f"'{field}' must be an integer from 1 to {MAX_TOKENS}", param=field)
        if limit < natural or chat.get("ignore_eos") is True:
            return limit, "length"
        break
    return natural, "stop"


def _words(content: object) -> int:
    if isinstance(content, str):
        return len(content.split())
    if isinstance(content, list):
        return sum(_words(part.get("text")) for part in content if isinstance(part, dict))
    return 0

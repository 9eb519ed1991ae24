"""What an error body says to a person, whichever gateway wrote it. No network, no clock.

Every server, gateway and proxy has a shape of its own: `{"error": {"message": …}}` (OpenAI and most),
`{"error": "…"}`, `{"object": "error", "message": …}`, `{"message": …}`, `{"detail": …}` (FastAPI: a text, or a
list of what is wrong where), `{"error_message": …}`, plain text, an HTML page.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

MAX_CHARACTERS = 300
"""Length of a message in records and reports."""

_KEYS = ("message", "detail", "error_message", "msg", "error", "type")
_MAX_DEPTH = 4
_MAX_BYTES = 1024 * 1024
# Records end up in XML, line protocol and terminals; none of them takes control characters or lone surrogates.
_UNPRINTABLE = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TITLE = re.compile("<title[^<>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile("<[^<>]*>")


def read_error(body: bytes) -> str:
    """Return what an error response's body says, on one line of at most `MAX_CHARACTERS`; "" when nothing."""
    text = body[:_MAX_BYTES].decode("utf-8-sig", "replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return one_line(_page_text(text) if text.startswith("<") else text)
    return one_line(find_message(value) or text)


def find_message(value: Any) -> str | None:
    """Return the message inside a decoded error body; None where there is none.

    A list's items are joined by "; "; an item that says where it applies (`loc`, FastAPI) begins with that.
    """
    return _find(value, _MAX_DEPTH)


def _find(value: Any, depth: int) -> str | None:
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list) and depth:
        return "; ".join(filter(None, (_find(item, depth - 1) for item in value[:3]))) or None
    if isinstance(value, dict) and depth:
        inner = value.get("error")
        # Beside `message`, an `error` that is a text is only a word like "Unauthorized".
        candidates = ([inner] if isinstance(inner, dict) else []) + [value.get(key) for key in _KEYS]
        message = next((found for item in candidates if (found := _find(item, depth - 1))), None)
        place = value.get("loc")
        if message and isinstance(place, list):
            return f"{'.'.join(str(step) for step in place[:8])}: {message}"
        return message
    return None


def stream_error(value: Any) -> str:
    """Return what an error inside a stream says, with its code: no HTTP status stands beside it."""
    message = one_line(find_message(value) or "") or "error without a message"
    owners = (value.get("error"), value) if isinstance(value, dict) else ()
    code = next((code for owner in owners if (code := _code(owner))), None)
    return message if code is None else one_line(f"{message} ({code})")


def _code(owner: Any) -> str | int | None:
    code = owner.get("code") if isinstance(owner, dict) else None
    return code if isinstance(code, str | int) and not isinstance(code, bool) else None


def one_line(text: str) -> str:
    """Return the text on one line, printable, at most `MAX_CHARACTERS` long (the last one then is "…")."""
    line = " ".join(_UNPRINTABLE.sub(" ", text[: 20 * MAX_CHARACTERS]).split())
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1] + "…"


def _page_text(page: str) -> str:
    title = _TITLE.search(page)
    return html.unescape(title[1] if title else _TAG.sub(" ", page[:65536]))

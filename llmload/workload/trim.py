"""Prompts cut to a number of words, for an arm that asks how much a shorter prompt saves. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def trimmed(messages: Sequence[Mapping[str, Any]], words: int) -> list[Mapping[str, Any]]:
    """Return the messages, of each text from a user the first `words` words, one space between them.

    >>> trimmed([{"role": "user", "content": "a b  c d"}], 3)
    [{'role': 'user', 'content': 'a b c'}]
    """
    return [
        {**message, "content": " ".join(message["content"].split()[:words])}
        if message.get("role") == "user" and isinstance(message.get("content"), str)
        else message
        for message in messages
    ]

"""Token counts in the OpenAI shape. No network, no clock.

Source: OpenAI API reference, "CompletionUsage"; DeepSeek API reference for `prompt_cache_hit_tokens`.
"""

from __future__ import annotations

from typing import Any

from llmload.timeline import Usage

MAX_COUNT = 1_000_000_000
"""Counts above this are taken for nonsense: no context window is near it."""


def read_usage(value: Any) -> Usage | None:
    """Return the counts of a `usage` object, None when it holds none.

    A count that is no whole number from 0 to `MAX_COUNT` is passed over as if it were not there.
    """
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens_details"), value.get("completion_tokens_details")
    usage = Usage(
        input_tokens=_count(value, "prompt_tokens"),
        output_tokens=_count(value, "completion_tokens"),
        cached_tokens=_first(_count(prompt, "cached_tokens"), _count(value, "prompt_cache_hit_tokens")),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
    )
    return None if usage == _EMPTY else usage


_EMPTY = Usage()


def _count(owner: object, key: str) -> int | None:
    count = owner.get(key) if isinstance(owner, dict) else None
    # A bool is an int to Python.
    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_COUNT:
        return count
    return None


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)

"""Prompts of a wanted length for a sweep over prompt lengths, each unlike every other from its first token on.

Pure: no I/O, no clock.
"""

from __future__ import annotations

from llmload.workload.prompts import Prompt
from llmload.workload.synthetic import synthetic_text


class PromptLengths:
    """An endless source of prompts whose length follows the sweep.

    Args:
        tokens: the length until `tokens` is set anew.
        key: different for every process and run, e.g. seed, run id and worker: a server's prefix cache must not know
            a prompt from an earlier run.
    """

    def __init__(self, tokens: int, *, key: str) -> None:
        self.tokens = tokens
        self._key = key
        self.served = 0

    def next(self) -> Prompt:
        """Return the next prompt; its id names its planned length."""
        self.served += 1
        text = synthetic_text(self.tokens, key=f"{self._key}/{self.tokens}/{self.served}")
        return Prompt(f"synthetic:{self.tokens}", ({"role": "user", "content": text},))

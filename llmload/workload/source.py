"""Prompt source: which prompt a worker sends next.

Pure: no I/O, no clock; the same arguments give the same sequence.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Literal

from llmload.errors import SetupError
from llmload.workload.prompts import Messages, Prompt

Unique = Literal["always", "repeats", "never"]


class PromptSource:
    """An endless sequence of prompts, disjoint from that of the other workers.

    A lap is one pass over all prompts in an order drawn from the seed. Of each lap worker i of n takes the
    positions i, i + n, i + 2n, ..., so together the workers send every prompt once; then the next lap
    begins under a new order. Laps are not synchronised: a fast worker may be one ahead.

    With fewer prompts than workers, worker i takes position i modulo the number of prompts: workers share,
    and each still has something to send. So does a worker whose index is beyond the count. A negative index
    (Locust's "not known yet") counts as 0. Where the count is unknown or may change, pass 1.

    With `unique` set to `always`, and from the second lap on to `repeats`, the text of each prompt's first user
    message begins with a nonce such as `k3f9m2x7-0-17: `, so that no two requests of a run share a prefix and a
    server's prefix cache has nothing to reuse. It opens with the hash, not with a bracket, because a bracket would
    be a shared first token. A system message before it stays as it is, and stays shared. The nonce comes from the
    seed, the salt, the worker's index and a counter: give each run its own `salt` (its run id), or a second run
    with the same seed would find the first run's prompts in the cache.

    `next` never blocks, save that each new lap shuffles all prompts: about 0.5 s for a million, 0.1 ms
    for the shipped set. One source serves all users of a process; it is not for several threads.

    Args:
        prompts: at least one.

    Raises:
        SetupError: there are no prompts.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        *,
        seed: int,
        worker_index: int = 0,
        worker_count: int = 1,
        unique: Unique = "never",
        salt: str = "",
    ) -> None:
        if not prompts:
            raise SetupError("there are no prompts to send", "give a file with at least one prompt")
        self._prompts = prompts
        self._seed = seed
        self._worker = max(worker_index, 0)
        self._count = max(worker_count, 1)
        self._unique = unique
        self._salt = salt
        self._shares = self._worker >= min(self._count, len(prompts))
        self.laps = 0
        """Laps finished: above 0 prompts have been repeated."""
        self.served = 0
        """Prompts given out."""
        self._orders: dict[int, list[int]] = {}
        """Of the laps that positions were asked of last."""
        self._slice = self._slice_of(0)
        self._at = 0

    @property
    def repeats(self) -> int:
        """Prompts given out beyond this worker's share of the first lap.

        The sum over all workers, divided by the sum of `served`, is the share of a run's requests whose
        prompt had been sent before. Two workers and three prompts (shares of 2 and 1), each serving 2:
        repeats 0 and 1. A prompt with a nonce is no repetition.
        """
        if self._unique != "never":
            return 0
        share = 0 if self._shares else len(range(self._worker, len(self._prompts), self._count))
        return max(0, self.served - share)

    def next(self, position: int | None = None) -> Prompt:
        """Return the next prompt; its messages are shared with other requests and must not be changed.

        Args:
            position: the prompt at a place of the whole sequence, counted over all laps, instead of this worker's
                next: the same for every worker. Who deals by position sees to it that none is asked for twice.
        """
        return self.copies(1)[0] if position is None else self._at_position(position)

    def copies(self, count: int) -> list[Prompt]:
        """Return the next prompt `count` times, for requests that are compared: each with a nonce of its own.

        With `unique` set to `never` all are the same, and each counts as served.
        """
        if self._at == len(self._slice):
            self.laps += 1
            self._slice = self._slice_of(self.laps)
            self._at = 0
        prompt = self._prompts[self._slice[self._at]]
        self._at += 1
        return [self._served(prompt, again=copy > 0) for copy in range(count)]

    def _served(self, prompt: Prompt, *, again: bool) -> Prompt:
        self.served += 1
        wants_nonce = self._wants_nonce(again=again or self.laps > 0 or self._shares)
        return self._with_nonce(prompt, f"{self._worker}-{self.served}") if wants_nonce else prompt

    def _at_position(self, position: int) -> Prompt:
        lap, place = divmod(position, len(self._prompts))
        if lap not in self._orders:
            self._orders = {lap: self._order(lap)} | {kept: self._orders[kept] for kept in list(self._orders)[:1]}
        prompt = self._prompts[self._orders[lap][place]]
        self.served += 1
        return self._with_nonce(prompt, f"p{position}") if self._wants_nonce(again=lap > 0) else prompt

    def _wants_nonce(self, *, again: bool) -> bool:
        return again if self._unique == "repeats" else self._unique == "always"

    def _order(self, lap: int) -> list[int]:
        order = list(range(len(self._prompts)))
        # A string seed is hashed with SHA-512, so neighbouring seeds and laps have unrelated orders.
        Random(f"{self._seed}/{lap}").shuffle(order)
        return order

    def _slice_of(self, lap: int) -> list[int]:
        order = self._order(lap)
        first = self._worker % min(self._count, len(order))
        return order[first :: self._count]

    def _with_nonce(self, prompt: Prompt, name: str) -> Prompt:
        digest = hashlib.blake2b(f"{self._seed}/{self._salt}/{name}".encode(), digest_size=5).digest()
        head = base64.b32encode(digest).decode("ascii").lower()
        return Prompt(prompt.id, _prefixed(prompt.messages, f"{head}-{name}: "))


def _prefixed(messages: Messages, nonce: str) -> Messages:
    """Return the messages with the nonce before the first user message's text (without one: the first's)."""
    target = next((i for i, message in enumerate(messages) if message["role"] == "user"), 0)
    message = messages[target]
    changed = {**message, "content": _prefixed_content(message.get("content"), nonce)}
    return (*messages[:target], changed, *messages[target + 1 :])


def _prefixed_content(content: str | Sequence[Mapping[str, Any]] | None, nonce: str) -> str | list[Mapping[str, Any]]:
    if content is None or isinstance(content, str):
        return nonce + (content or "")
    first = content[0]
    if first["type"] == "text" and isinstance(first.get("text"), str):
        return [{**first, "text": nonce + first["text"]}, *content[1:]]
    # An image in front would be a shared prefix of thousands of tokens.
    return [{"type": "text", "text": nonce}, *content]

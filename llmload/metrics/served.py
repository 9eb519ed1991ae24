"""What `vllm bench serve` says of a run and a summary does not: tokens of what was measured, and the busiest second.

No I/O, no clock. Memory: 16 bytes a completion.
"""

from __future__ import annotations

from array import array

import numpy as np

from llmload.metrics.steps import is_measured
from llmload.records import Completion


class Served:
    """Takes completions one by one; those that are not measured or not ok count for nothing, as in vLLM."""

    def __init__(self) -> None:
        self.input_tokens = 0
        self.output_tokens = 0
        self._started_ns = array("q")
        self._ended_ns = array("q")

    def add(self, completion: Completion) -> None:
        """Take one finished completion."""
        if completion.outcome != "ok" or not is_measured(completion.step):
            return
        self.input_tokens += completion.input_tokens or 0
        self.output_tokens += completion.output_tokens or 0
        self._started_ns.append(completion.started_unix_ns)
        self._ended_ns.append(completion.started_unix_ns + round((completion.e2e_s or 0) * 1e9))

    @property
    def busiest(self) -> int | None:
        """Requests under way at any time in the busiest second, counted from the first start; None without any.

        Two that follow each other within a second count as two: starts at 0.0 and 0.5 s, each 0.4 s long, make 2.
        """
        if not self._started_ns:
            return None
        started, ended = np.array(self._started_ns), np.array(self._ended_ns)
        first, after = (started - started.min()) // 10**9, (ended - started.min()) // 10**9 + 1
        _, places = np.unique(np.concatenate([first, after]), return_inverse=True)
        changes = np.bincount(places[: len(first)], minlength=places.max() + 1) - np.bincount(places[len(first) :])
        return int(np.cumsum(changes).max())

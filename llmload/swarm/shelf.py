"""The files of prompts and traces of one process, each read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gevent import get_hub

from llmload.arrival_config import ArrivalSettings
from llmload.errors import SetupError
from llmload.workload.prompts import Prompt, fingerprint, load_prompts
from llmload.workload.trace import Trace, load_trace


class PromptShelf:
    """Prompt files of this process, each read once, with a hash of its content."""

    def __init__(self) -> None:
        self._read: dict[str | None, tuple[Sequence[Prompt], str]] = {}
        self._traces: dict[tuple[Any, ...], Trace] = {}

    def get(self, path: str | None) -> tuple[Sequence[Prompt], str]:
        """Return the prompts of a file, of the shipped set for None, and their fingerprint.

        Read in a thread: a file of hundreds of megabytes takes seconds, in which a worker must send its heartbeats.

        Raises:
            SetupError: the file is missing, empty or broken.
        """
        if path not in self._read:
            read = get_hub().threadpool.apply(_read_prompts, (path,))
            if isinstance(read, SetupError):
                raise read
            self._read[path] = read
        return self._read[path]

    def trace(self, settings: ArrivalSettings, *, seed: int) -> Trace | None:
        """Return the trace that the settings name, read in a thread; None where they name none.

        Raises:
            SetupError: it cannot be replayed.
        """
        if settings.trace is None:
            return None
        key = (settings.trace, settings.trace_scale, settings.trace_limit, seed)
        if key not in self._traces:
            read = get_hub().threadpool.apply(_read_trace, key)
            if isinstance(read, SetupError):
                raise read
            self._traces[key] = read
        return self._traces[key]


def _read_trace(path: str, scale: float, limit: int | None, seed: int) -> Trace | SetupError:
    try:
        return load_trace(path, scale=scale, limit=limit, seed=seed)
    except SetupError as error:
        return error


def _read_prompts(path: str | None) -> tuple[Sequence[Prompt], str] | SetupError:
    """Return what is wrong as a value: gevent prints what a thread of its pool raises."""
    try:
        prompts = load_prompts(path)
    except SetupError as error:
        return error
    return prompts, fingerprint(prompts)

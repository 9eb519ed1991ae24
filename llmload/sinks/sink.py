"""What a place where the numbers of a run go to must do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from llmload.sinks.points import Point


class Sink(Protocol):
    """One output of a run. Called by the process that collects the run, from one greenlet at a time.

    Nothing here raises once a run goes on: what could not be delivered is counted.
    """

    @property
    def name(self) -> str:
        """Its name in the summary, e.g. `influxdb`."""

    def describe(self) -> str:
        """Return in one line where the numbers go, without secrets."""

    def start(self, run_id: str) -> None:
        """A run begins."""

    def write(self, completions: Sequence[Mapping[str, Any]], points: Sequence[Point]) -> None:
        """Take completions, as `Completion.to_dict` returns them, and points. Never blocks on a network."""

    def stop(self, bound_s: float) -> None:
        """The run has ended: deliver what is left, and return within `bound_s` seconds whatever happens."""

    def counts(self) -> dict[str, Any]:
        """Return what became of what was given: `written`, `dropped`, `queued`, which add up to it at every moment, and
        more; `error` says why some was dropped, where none was the last trouble, and is None where all went well."""

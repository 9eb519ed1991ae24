"""Completions column by column: what a comparison needs of a record, a few thousand completions at a time.

No I/O, no clock. Plain arrays of the standard library, so that whoever reads a record needs nothing else.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

from llmload.metrics.definitions import REQUEST_METRICS
from llmload.metrics.steps import is_measured
from llmload.records import BUFFERED_SHARE

OUTCOMES = ("ok", "failed", "cancelled")
FIELDS = tuple(row.name for row in REQUEST_METRICS if row.name != "itl_s")
MISSING = float("nan")


class Columns:
    """Some completions. Every array has one number a completion, but `gaps_us`, which has `gap_counts` of them."""

    def __init__(self) -> None:
        self.started_ns = array("q")
        self.ended_ns = array("q")
        self.outcomes = array("b")
        """Places in `OUTCOMES`."""
        self.measured = array("b")
        """0 for what started in the warm-up, while a step settled, or in a step that is not asked for."""
        self.good = array("b")
        """1 for what met every limit of --goodput."""
        self.values = {name: array("d") for name in FIELDS}
        """Not a number where the metric is missing."""
        self.gap_counts = array("q")
        """How many samples of ITL: none for what is not ok or buffered."""
        self.gaps_us = array("q")

    def __len__(self) -> int:
        return len(self.started_ns)

    def add(self, row: Mapping[str, Any], measured: Callable[[str | None], bool] = is_measured) -> None:
        """Append a completion as `Completion.to_dict` wrote it.

        Args:
            row: the completion.
            measured: whether what started in a step counts.

        Raises:
            KeyError, TypeError, ValueError, OverflowError: it holds what no completion can.
        """
        started_ns: int = row["started_unix_ns"]
        last_s = row.get("closed_s", row.get("e2e_s")) or 0
        outcome = OUTCOMES.index(row["outcome"])
        gaps = row.get("gaps_us", ()) if outcome == 0 and (row.get("burst_share") or 0) <= BUFFERED_SHARE else ()
        self.gaps_us.extend(gaps)
        self.gap_counts.append(len(gaps))
        self.started_ns.append(started_ns)
        self.ended_ns.append(started_ns + round(last_s * 1e9))
        self.outcomes.append(outcome)
        self.measured.append(measured(row.get("step")))
        self.good.append(bool(row.get("good")))
        for name, column in self.values.items():
            column.append(row.get(name, MISSING))

"""Failures by kind, and where they happened. Pure maths, no I/O, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from llmload.metrics.steps import whole_step
from llmload.metrics.tally import Key, Tally

PLACES = 5
"""Places that are named of each kind, those with the most failures."""


def summarise_failures(tally: Tally, parts: Mapping[Key, Tally]) -> list[dict[str, Any]]:
    """Return failures by kind, the most frequent first; `status` only of `http_status`.

    `where` has the `scenario`, the `step` (in all its rounds, settling included; None: no step) and the `count` of the
    places with the most of them, at most `PLACES`; it is empty where there is one place only, which says nothing.

    Args:
        tally: of everything.
        parts: its parts by scenario, model and step.
    """
    several = len({(scenario, whole_step(step)) for scenario, _, step in parts}) > 1
    rows = []
    for label, count in tally.failures.most_common():
        kind, _, status = label.partition(" ")
        rows.append(
            {
                "kind": kind,
                "status": int(status) if status.isdecimal() else None,
                "count": count,
                "example": tally.examples.get(label),
                "where": _where(label, parts) if several else [],
            }
        )
    return sorted(rows, key=lambda row: (-row["count"], row["kind"], row["status"] or 0))


def _where(label: str, parts: Mapping[Key, Tally]) -> list[dict[str, Any]]:
    counts: Counter[tuple[str, str | None]] = Counter()
    for (scenario, _, step), part in parts.items():
        if part.failures[label]:
            counts[scenario, whole_step(step)] += part.failures[label]
    most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0][0], entry[0][1] or ""))
    return [{"scenario": scenario, "step": step, "count": count} for (scenario, step), count in most[:PLACES]]

"""A comparison as one HTML file: tables with the intervals drawn beside the numbers, without scripts.

No I/O but for the package's own files (see `page`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmload.reports import page
from llmload.reports.comparison import (
    change_texts,
    headline,
    name_of,
    notes,
    reasons,
    rule_text,
    shown_rows,
    side_text,
    value_text,
)

LIMIT, LEAST = 1.0, 0.02
"""The relative change at the edge of the drawings, at most and at least."""
TONES = {"worse": "bad", "better": "good", "failed": "bad", "passed": "good", "not judged": "doubt"}
"""Verdict → how it is coloured."""


def render_page(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of one or more comparisons."""
    return page.render_page("compare.html", sections=[_section(one) for one in comparisons])


def _section(comparison: Mapping[str, Any]) -> dict[str, Any]:
    everything = shown_rows(comparison, everything=True)
    edge = edge_of(everything)
    return {
        "headline": headline(comparison),
        "rules": [
            {"verdict": one["verdict"], "tone": TONES[one["verdict"]], "text": rule_text(one)}
            for one in comparison.get("rules") or []
        ],
        "base": side_text(comparison["base"]),
        "new": side_text(comparison["new"]),
        "warnings": comparison["warnings"],
        "shown": table_of(shown_rows(comparison), edge),
        "rows": table_of(everything, edge),
        "notes": list(notes(comparison)),
    }


def edge_of(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the relative change at the edge of the drawings: what all but the widest intervals need."""
    ends = sorted(max(abs(row["relative"]["low"]), abs(row["relative"]["high"])) for row in rows if row["relative"])
    return min(max(ends[int(len(ends) * 0.9)] if ends else 0.1, LEAST), LIMIT)


def table_of(rows: Sequence[Mapping[str, Any]], edge: float) -> dict[str, Any]:
    """Return what the templates' macro `changes` shows: rows, the edge of drawings, and why some say nothing."""
    return {"edge": edge, "rows": [_row(row, edge) for row in rows], "reasons": list(reasons(rows))}


def _row(row: Mapping[str, Any], edge: float) -> dict[str, Any]:
    change, interval = change_texts(row)
    sides = [row["base"], row["new"]]
    return {
        "name": name_of(row),
        "verdict": row["verdict"],
        "tone": TONES.get(row["verdict"], ""),
        "change": change,
        "interval": interval,
        "values": ["-" if side is None else value_text(side["value"], row["unit"]) for side in sides],
        "counts": [row["n"]] if "n" in row else [side and side["n"] for side in sides],
        "drawn": row["relative"] and {name: _place(share, edge) for name, share in row["relative"].items()},
    }


def _place(change: float, edge: float) -> float:
    """Return where a change is drawn, from -100 to 100; what lies beyond the edge stands at it."""
    return round(max(-1.0, min(1.0, change / edge)) * 97, 1)

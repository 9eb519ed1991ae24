"""A comparison as one HTML file: a table with the intervals drawn beside it. No scripts, nothing from elsewhere.

No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from llmload.reports.comparison import HEAD, cells, headline, notes, rule_text, shown_rows, side_text

WIDE, HIGH, LIMIT = 260, 22, 1.0
"""Pixels of a drawn interval, and the relative change at its edge when everything is smaller than that."""

STYLE = """
:root { color-scheme: light dark; --line: #8884; --worse: #c0392b; --better: #1e8449; --none: #7f8c8d; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child, td:last-child, th:last-child { text-align: left }
.worse, .failed { color: var(--worse); font-weight: 600 } .better, .passed { color: var(--better); font-weight: 600 }
.warn::before { content: "! " } ul { padding-left: 1.2rem } svg { display: block }
@media print { body { margin: 0 } }
"""


def render_page(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of one or more comparisons."""
    body = "".join(_section(one) for one in comparisons)
    return page("llmload compare", f"<h1>llmload compare</h1>{body}")


def page(title: str, body: str) -> str:
    """Return a whole page; `body` is HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def _section(comparison: Mapping[str, Any]) -> str:
    rows = shown_rows(comparison, everything=True)
    edge = _edge(rows)
    rules = "".join(
        f'<li class="{"failed" if one["verdict"] == "failed" else "passed" if one["verdict"] == "passed" else ""}">'
        f"{escape(one['verdict'])}: {escape(rule_text(one))}</li>"
        for one in comparison.get("rules") or []
    )
    warnings = "".join(f'<li class="warn">{escape(text)}</li>' for text in comparison["warnings"])
    head = "".join(f"<th>{escape(name)}</th>" for name in (*HEAD[:-1], f"± {edge:.0%}", HEAD[-1]))
    return (
        f"<h2>{escape(headline(comparison))}</h2><ul>{rules}"
        f"<li>base: {escape(side_text(comparison['base']))}</li><li>new: {escape(side_text(comparison['new']))}</li>"
        f'{warnings}</ul><div class="wide"><table><thead><tr>{head}</tr></thead><tbody>'
        + "".join(_row(row, edge) for row in rows)
        + f"</tbody></table></div><p>{' '.join(escape(text) for text in notes(comparison))}</p>"
    )


def _edge(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the relative change at the edge of the drawings: what all but the widest intervals need."""
    ends = sorted(max(abs(row["relative"]["low"]), abs(row["relative"]["high"])) for row in rows if row["relative"])
    return min(max(ends[int(len(ends) * 0.9)] if ends else 0.1, 0.02), LIMIT)


def _row(row: Mapping[str, Any], edge: float) -> str:
    *texts, verdict = cells(row)
    kind = row["verdict"] if row["verdict"] in ("worse", "better") else ""
    drawn = "" if row["relative"] is None else _drawn(row["relative"], edge, kind or "none")
    plain = "".join(f"<td>{escape(text)}</td>" for text in texts)
    return f'<tr>{plain}<td>{drawn}</td><td class="{kind}">{escape(verdict)}</td></tr>'


def _drawn(relative: Mapping[str, float], edge: float, kind: str) -> str:
    value, low, high = (_place(relative[name], edge) for name in ("value", "low", "high"))
    middle, half = WIDE / 2, HIGH / 2
    return (
        f'<svg width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}" role="img">'
        f'<path d="M{middle} 0V{HIGH}" stroke="var(--line)"/>'
        f'<path d="M{low:.1f} {half}H{high:.1f}" stroke="var(--{kind})" stroke-width="5"/>'
        f'<circle cx="{value:.1f}" cy="{half}" r="4" fill="var(--{kind})"/></svg>'
    )


def _place(change: float, edge: float) -> float:
    return WIDE / 2 * (1 + max(-1.0, min(1.0, change / edge)) * 0.97)

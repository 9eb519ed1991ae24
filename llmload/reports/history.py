"""The runs of an archive as text and as a page: a row a run, and a line a metric with its trend.

No I/O. The page's charts are drawings in the file itself: no scripts, nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from llmload.metrics.definitions import BY_NAME
from llmload.metrics.goodput import limits_text
from llmload.metrics.trend import MIN_RUNS, trend
from llmload.reports.comparison import value_text
from llmload.reports.comparison_page import page

BARS = "▁▂▃▄▅▆▇█"
WIDE, HIGH, PAD = 640, 140, 24
LAST = 40
"""So many runs a sparkline shows; the page shows all."""


def render(history: Mapping[str, Any]) -> str:
    """Return the history as text, lines joined by line ends.

    Args:
        history: `runs`, each with `id`, `started_at`, `ok`, `failed`, `valid`, and `metrics`, each with `metric`,
            `statistic` and `values` (one a run, None where there is none), and `goodput`, the limits that those of
            goodput are by.
    """
    lines = [f"{'run':<24} {'started (UTC)':<20} {'ok':>9} {'failed':>8}  valid"]
    for run in history["runs"]:
        valid = {True: "yes", False: "NO", None: "-"}[run["valid"]]
        started = (run["started_at"] or "-")[:19].replace("T", " ")
        lines.append(f"{_plain(run['id'])[:24]:<24} {started:<20} {run['ok']:>9,} {run['failed']:>8,}  {valid}")
    lines += ["", f"{'':<18} {'first':>13} {'last':>13}  {'trend':<18} oldest to newest, valid runs"]
    lines += [_line(row) for row in history["metrics"] if _known(row)]
    lines += ["", *notes(history)]
    return "\n".join(lines)


def notes(history: Mapping[str, Any]) -> list[str]:
    """Return what has to be said of the lines."""
    said = [f"trend: Mann-Kendall, 95 %; {MIN_RUNS} runs or more are needed to show one"]
    if history["goodput"]:
        limits = limits_text(history["goodput"])
        said.append(f"goodput: by the limits of the newest run that has any, {limits}; runs with others leave a gap")
    return said


def _known(row: Mapping[str, Any]) -> list[float]:
    return [value for value in row["values"] if value is not None]


def name_of(row: Mapping[str, Any]) -> str:
    return BY_NAME[row["metric"]].label + (f" {row['statistic']}" if row["statistic"] else "")


def _line(row: Mapping[str, Any]) -> str:
    known, unit = _known(row), BY_NAME[row["metric"]].unit
    first, last = value_text(known[0], unit), value_text(known[-1], unit)
    return f"{name_of(row):<18} {first:>13} {last:>13}  {judged(row):<18} {sparkline(row['values'][-LAST:])}".rstrip()


def judged(row: Mapping[str, Any]) -> str:
    """Return the trend of a metric, and whether that is good or bad."""
    metric, found = BY_NAME[row["metric"]], trend(_known(row))
    if found == "no trend shown":
        return found
    return f"{found}, {'better' if (found == 'rising') == metric.higher_is_better else 'worse'}"


def sparkline(values: Sequence[float | None]) -> str:
    """Return a bar a value, the lowest to the highest of them; a space where there is none.

    >>> sparkline([1, None, 2, 3])
    '▁ ▅█'
    """
    known = [value for value in values if value is not None]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    return "".join(
        " " if value is None else BARS[round((value - low) / span * (len(BARS) - 1)) if span else 3] for value in values
    )


def render_page(history: Mapping[str, Any]) -> str:
    """Return the history as a page."""
    charts = "".join(_chart(row, history["runs"]) for row in history["metrics"] if _known(row))
    rows = "".join(
        f"<tr><td>{escape(run['id'])}</td><td>{escape((run['started_at'] or '-')[:19])}</td><td>{run['ok']:,}</td>"
        f"<td>{run['failed']:,}</td><td>{ {True: 'yes', False: 'NO', None: '-'}[run['valid']] }</td></tr>"
        for run in history["runs"]
    )
    return page(
        "llmload history",
        f"<h1>llmload history</h1>{charts}<h2>Runs</h2><div class='wide'><table><tr><th>run</th><th>started</th>"
        f"<th>ok</th><th>failed</th><th>valid</th></tr>{rows}</table></div>"
        f"<p>Lines are of valid runs. Trend: Mann-Kendall, 95 %, {MIN_RUNS} runs or more.</p>",
    )


def _chart(row: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    unit, known = BY_NAME[row["metric"]].unit, _known(row)
    top = max(known) or 1.0
    step = (WIDE - 2 * PAD) / max(len(row["values"]) - 1, 1)
    points = [
        (PAD + step * at, HIGH - PAD - (HIGH - 2 * PAD) * value / top, value, run["id"])
        for at, (value, run) in enumerate(zip(row["values"], runs, strict=True))
        if value is not None
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="currentColor"><title>{escape(name)}: '
        f"{escape(value_text(value, unit))}</title></circle>"
        for x, y, value, name in points
    )
    return (
        f"<h2>{escape(name_of(row))}: {escape(value_text(known[-1], unit))}, {escape(judged(row))}</h2>"
        f'<svg viewBox="0 0 {WIDE} {HIGH}" style="max-width:100%;width:{WIDE}px" role="img">'
        f'<path d="M{PAD} {PAD}V{HIGH - PAD}H{WIDE - PAD}" fill="none" stroke="var(--line)"/>'
        f'<text x="{PAD}" y="{PAD - 8}" font-size="12" fill="currentColor">{escape(value_text(top, unit))}</text>'
        f'<text x="{PAD}" y="{HIGH - 6}" font-size="12" fill="currentColor">0</text>'
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="2"/>{dots}</svg>'
    )


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in str(text))

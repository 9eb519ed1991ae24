"""The runs of an archive as text and as a page: a row a run, and a line a metric with its trend.

No I/O but for the package's own files. The page's charts are drawings in the file itself: no scripts, nothing from
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmload.metrics.definitions import BY_NAME
from llmload.metrics.goodput import limits_text
from llmload.metrics.trend import MIN_RUNS, trend
from llmload.reports import page
from llmload.reports.comparison import value_text

BARS = "▁▂▃▄▅▆▇█"
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
    return page.render_page(
        "history.html",
        runs=history["runs"],
        metrics=[_figure(row, history["runs"]) for row in history["metrics"] if _known(row)],
        notes=notes(history),
    )


def _figure(row: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a metric with its drawing: 1000 wide, 100 high, from 0 up; a run without a value is a gap in the line."""
    unit, known, found = BY_NAME[row["metric"]].unit, _known(row), judged(row)
    top, step = max(known) or 1.0, 1000 / max(len(row["values"]) - 1, 1)
    places = [
        None if value is None else f"{step * at:.1f} {100 * (1 - value / top):.1f}"
        for at, value in enumerate(row["values"])
    ]
    before = [None, *places[:-1]]
    return {
        "name": name_of(row),
        "trend": found,
        "tone": {"better": "good", "worse": "bad"}.get(found.rpartition(", ")[2], ""),
        "first": value_text(known[0], unit),
        "last": value_text(known[-1], unit),
        "top": value_text(top, unit),
        "line": "".join(f"{'L' if was else 'M'}{at}" for was, at in zip(before, places, strict=True) if at),
        "dots": [
            (at, value_text(value, unit), run["id"])
            for at, value, run in zip(places, row["values"], runs, strict=True)
            if at
        ],
    }


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in str(text))

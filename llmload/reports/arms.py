"""The arms of an A/B run as text, Markdown and HTML.

No I/O. First what each arm did by itself, then each arm against the first, in pairs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from llmload.reports import page
from llmload.reports.comparison import cells, escape_markdown, text_line, text_rows
from llmload.reports.comparison_page import edge_of, table_of
from llmload.reports.text import WIDTH

HOW = (
    "Pairs answered the same prompt, one after the other in random order; the change is the median of the pairs' own "
    "ratios, its interval allows for pairs that resemble their neighbours. requests = ok / seconds in which the arm "
    "had a request under way. first text = TTFT, of an answer that is not streamed E2E."
)


def render(result: Mapping[str, Any]) -> str:
    """Return the result as text, lines joined by line ends."""
    lines = [f"arm {arm['name']}: {_arm(arm)}" for arm in result["arms"]]
    for one in result["comparisons"]:
        lines += ["", f"{_pairs(one)}, {result['confidence']:.0%} intervals", text_line(_head(one))]
        lines += text_rows(one["rows"])
    return "\n".join([*lines, "", *textwrap.wrap(HOW, WIDTH)])


def render_markdown(result: Mapping[str, Any]) -> str:
    """Return the result as Markdown."""
    lines = [f"- arm {escape_markdown(arm['name'])}: {escape_markdown(_arm(arm))}" for arm in result["arms"]]
    for one in result["comparisons"]:
        lines += ["", f"{escape_markdown(_pairs(one))}, {result['confidence']:.0%} intervals", ""]
        lines += [f"| {' | '.join(map(escape_markdown, _head(one)))} |", "|---|---:|---:|---:|---:|---|"]
        lines += [f"| {' | '.join(map(escape_markdown, cells(row)))} |" for row in one["rows"]]
    return "\n".join([*lines, "", HOW])


def render_page(result: Mapping[str, Any]) -> str:
    """Return the result as a page of HTML."""
    sections = []
    for one in result["comparisons"]:
        table = table_of(one["rows"], edge_of(one["rows"]))
        sections.append({"title": _pairs(one), "sides": _head(one)[1:3], "table": table})
    return page.render_page(
        "arms.html", arms=result["arms"], sections=sections, confidence=f"{result['confidence']:.0%}", how=HOW
    )


def _arm(arm: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in arm["settings"].items())
    rate = "-" if arm["request_throughput"] is None else f"{arm['request_throughput']:,.2f} requests/s"
    counts = ", ".join(f"{arm[name]:,} {name}" for name in ("ok", "failed", "cancelled"))
    return f"{counts}; {rate}" + (f" ({settings})" if settings else "")


def _pairs(one: Mapping[str, Any]) -> str:
    left_out = f", {one['left_out']:,} left out because one of them did not end ok" if one["left_out"] else ""
    return f"{one['new']} against {one['base']}: {one['pairs']:,} pairs{left_out}"


def _head(one: Mapping[str, Any]) -> tuple[str, ...]:
    return ("", one["base"], one["new"], "change", "interval", "verdict")

"""Numbers as a person reads them. What is missing is a dash, never 0."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from llmload.metrics.definitions import BY_NAME

MISSING = "-"


def milliseconds(value_s: float | None) -> str:
    """Return seconds as milliseconds, with as many digits as make sense."""
    if value_s is None:
        return MISSING
    return f"{value_s * 1e3:,.{2 if value_s < 0.1 else 1 if value_s < 100 else 0}f}"


def number(value: float | None) -> str:
    """Return a rate or a count of tokens."""
    if value is None:
        return MISSING
    return f"{value:,.{1 if value >= 100 else 2}f}" if value < 1e7 else f"{value:.3e}"


def count(value: int | None) -> str:
    """Return a whole number."""
    return MISSING if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    """Return a share of 1 as percent."""
    return MISSING if share is None else f"{share:.1%}".replace("%", " %")


def clock(unix_s: float | None) -> str:
    """Return the time of the day, UTC."""
    return MISSING if unix_s is None else f"{datetime.fromtimestamp(unix_s, UTC):%H:%M:%S}"


def shown_in(metric: str) -> Callable[[float | None], str]:
    """Return how values of a metric are shown: times in milliseconds, shares in percent, others as they are."""
    return {"ms": milliseconds, "%": percent}.get(BY_NAME[metric].display, number)


def unit_of(metric: str) -> str:
    """Return the unit that `shown_in` shows a metric in."""
    display = BY_NAME[metric].display
    return "" if display == "count" else display


def plain(text: object) -> str:
    """Return a text without control characters: what a server sent can hold anything."""
    return "".join(char if char.isprintable() else " " for char in str(text))

"""A sweep as text: one row a step, the knee, and the highest level that met the objectives.

No I/O. The same columns are printed while the sweep goes on and in the report at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from llmload.metrics.sweep import row

AXES = {"users": "users", "rate": "rate, /s", "prompt_tokens": "prompt"}
MISSING = "-"


def _number(value: float) -> str:
    return f"{value:,.{0 if value >= 1000 else 1 if value >= 100 else 2}f}"


def _milliseconds(value_s: float) -> str:
    return f"{value_s * 1e3:,.{0 if value_s >= 1 else 1}f}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f}" if share < 1 else "100"


_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "request_throughput": ("req/s", _number),
    "output_throughput": ("out tok/s", _number),
    "user_tps": ("per user", _number),
    "e2e_mean_s": ("E2E mean", _milliseconds),
    "e2e_p99_s": ("E2E p99", _milliseconds),
    "ttft_p50_s": ("TTFT p50", _milliseconds),
    "ttft_p99_s": ("TTFT p99", _milliseconds),
    "success_rate": ("ok %", _percent),
}
"""Value of `metrics.sweep.ROW` → its head and how it is written; times in ms, `per user` is tokens/s of one reader."""

_ACTUAL = {"input_tokens": ("tokens", _number)}
"""Beside a planned prompt length: the mean that the server counted."""


def head(axis: str) -> str:
    """Return the line above the rows of a sweep."""
    return _line(AXES[axis], [title for title, _ in _columns(axis).values()], "client")


def step_row(axis: str, label: str, section: Mapping[str, Any]) -> str:
    """Return the row of one step; `section` is built like a summary."""
    values = row(section)
    cells = [_cell(values[name], show) for name, (_, show) in _columns(axis).items()]
    return _line(label, cells, section["client"]["verdict"])


def render_sweep(sweep: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the lines of a sweep; none of None."""
    if sweep is None:
        return
    axis, columns = sweep["axis"], _columns(sweep["axis"])
    rounds = max(len(level["rounds"]) for level in sweep["steps"])
    intended = " from the intended start" if axis == "rate" else ""
    spread = f", medians of {rounds} rounds, ± half of what they span" if rounds > 1 else ""
    yield f"sweep, times in ms{intended}{spread}"
    yield head(axis)
    for level in sweep["steps"]:
        middle = level["median"]
        cells = [_cell(middle[name]["median"], show) for name, (_, show) in columns.items()]
        yield _line(f"{level['level']:g}", cells, level["client"]["verdict"])
        if len(level["rounds"]) > 1:
            yield _line("", [_spread(middle[name]) for name in columns], "")
    if axis == "prompt_tokens":
        yield "  (prompt: as planned; tokens: the mean that the server counted, its chat template included)"
    yield from conclusions(sweep)


def conclusions(sweep: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a sweep comes to: the knee with its method, and the level that is recommended."""
    if sweep["axis"] != "prompt_tokens":
        yield from _knee(sweep["knee"])
    yield from _recommended(sweep["recommended"], AXES[sweep["axis"]])


def render_capacity(capacity: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the lines of a search for the capacity; none of None."""
    if capacity is None:
        return
    axis = capacity["axis"]
    yield f"search for the capacity, times in ms: {'; '.join(capacity['objectives'])}"
    yield head(axis)
    for one in capacity["measurements"]:
        cells = [_cell(one[name], show) for name, (_, show) in _columns(axis).items()]
        held = {True: "holds", False: "misses " + "; ".join(one["misses"]), None: "not judged"}[one["held"]]
        yield f"{_line(one['step'], cells, one['client']['verdict'])}, {held}"
    yield f"capacity: {_found(capacity, AXES[axis])}"
    yield f"  (the search ended because {capacity['why']})"


def _found(capacity: Mapping[str, Any], axis: str) -> str:
    low, high = capacity["between"]
    votes = capacity["votes"]
    parts = [
        f"none, {high} already misses" if low is None else f"{low:,} {axis}",
        "" if low is None or high is None else f"between {low:,} and {high:,}",
        "" if low is None else f"{low:,} held in {votes[str(low)][0]} of {votes[str(low)][1]} measurements",
        "" if high is None else f"{high:,} in {votes[str(high)][0]} of {votes[str(high)][1]}",
        "THE CLIENT WAS THE LIMIT, not the server" if capacity["limited_by"] == "client" else "",
    ]
    return ", ".join(part for part in parts if part)


def _columns(axis: str) -> dict[str, tuple[str, Callable[[float], str]]]:
    return {**_ACTUAL, **_COLUMNS} if axis == "prompt_tokens" else _COLUMNS


def _knee(knee: Mapping[str, Any]) -> Iterator[str]:
    if knee["level"] is None:
        yield f"knee: none, {knee['reason']}"
        return
    low, high = knee["between"]
    votes = [one for one in knee["rounds"] if one is not None]
    agree = f"; {votes.count(knee['level'])} of {len(votes)} rounds say so" if len(votes) > 1 else ""
    yield f"knee: {knee['level']:g}, between {low:g} and {high:g}{agree}"
    yield f"  ({knee['method']})"


def _recommended(found: Mapping[str, Any] | None, axis: str) -> Iterator[str]:
    if found is None:
        return
    if found["level"] is None:
        yield f"recommended: none, {found['missed_at']:g} already misses {'; '.join(found['missed'])}"
    elif found["missed_at"] is None:
        yield f"recommended: {found['level']:g} {axis} or more, every level met {'; '.join(found['objectives'])}"
    else:
        missed = f"{found['missed_at']:g} misses {'; '.join(found['missed'])}"
        yield f"recommended: {found['level']:g} {axis}, {missed}"


def _cell(value: float | None, show: Callable[[float], str]) -> str:
    return MISSING if value is None else show(value)


def _spread(values: Mapping[str, Any]) -> str:
    if values["n"] < 2 or not values["median"]:
        return MISSING
    return f"±{(values['max'] - values['min']) / 2 / values['median']:.1%}"


def _line(label: str, cells: list[str], verdict: str) -> str:
    return (f"{label[:9]:<9}" + "".join(f" {cell:>9}" for cell in cells) + f"  {verdict}").rstrip()

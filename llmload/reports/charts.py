"""The charts of a run as plotly figures: plain dicts, no plotly needed to make them.

No I/O. Colours come from Okabe and Ito's palette, which people with any colour vision can tell apart; lines also differ
by dash. Texts and grid lines take their colours from the page's style sheet, so that one figure serves light, dark and
print.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmload.metrics.definitions import metric
from llmload.metrics.details import Details
from llmload.metrics.grid import BINS, Slot, value_s

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#2b83ba", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"
_STYLES = ((BLUE, "solid"), (ORANGE, "dash"), (PURPLE, "dot"), (GREEN, "dashdot"), (RED, "solid"), (SKY, "dash"))
MARKED_POINTS = 60
"""Up to so many points each one gets a mark: a line alone would not show a point between two gaps."""
MAX_STEPS = 40
MAX_LINES = len(_STYLES)
"""Lines that can be told apart."""
_COARSE = 4
"""Buckets of 2 % that make one bar of a distribution."""

Points = Sequence[tuple[int, float | None]]
"""(First unix second of a slot, value); None breaks the line."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure. `summary` says in a sentence what it shows, for those who cannot see it."""

    id: str
    title: str
    summary: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The axis that all charts over time share, so that what happened together stands one above the other."""

    first_ms: int
    last_ms: int
    marks: tuple[tuple[int, str], ...]
    """The begin of each step, unix milliseconds, with its label."""


def time_axis(evidence: Details) -> TimeAxis | None:
    """Return the axis from the first to the last thing that was seen; None where nothing was."""
    seconds = [*evidence.grid.slots, *evidence.processes.seconds()]
    if not seconds:
        return None
    return TimeAxis(min(seconds) * 1000, max(seconds) * 1000, tuple(_steps(evidence.steps)))


def over_time(evidence: Details, axis: TimeAxis | None) -> list[Chart]:
    """Return what happened when; an empty list for a run without completions."""
    rows = list(evidence.grid.rows())
    if not rows or axis is None:
        return []
    width = evidence.grid.width
    times = [second for second, _, _ in rows]
    slots = [slot for _, slot, _ in rows]

    def chart(name: str, title: str, unit: str, summary: str, lines: Mapping[str, Sequence[Any]]) -> Chart:
        points = {line: list(zip(times, values, strict=True)) for line, values in lines.items()}
        return line_chart(axis, points, name=name, title=title, unit=unit, summary=f"{summary}, {per(width)}.")

    def rate(column: str) -> list[float]:
        return [slot[column] / width for slot in slots]

    rates = {name: rate(name) for name in ("ok", "failed", "cancelled") if name == "ok" or any(rate(name))}
    return [
        chart("rates", "Requests", "req/s", "Requests by outcome, at their end", rates),
        chart("tokens", "Output tokens", "tok/s", "Tokens of every outcome, at their arrival", {"": rate("tokens")}),
        _load_chart(axis, evidence, [(second, in_flight) for second, _, in_flight in rows]),
        *(
            chart(name, metric(name).label, "ms", f"{metric(name).label} of ok completions", lines)
            for name in ("ttft_s", "itl_s", "e2e_s")
            if (lines := _percentiles(slots, name))
        ),
        chart(
            "lag",
            "Client lag",
            "ms",
            "Worst event-loop lag of a worker during requests that ended then",
            {"": [_ms(slot.lag_max_s) for slot in slots]},
        ),
    ]


def distributions(evidence: Details) -> list[Chart]:
    """Return one chart per latency that has samples."""
    charts = []
    for name, counts in evidence.distributions.items():
        total = int(counts.sum())
        if not total:
            continue
        bars = counts.reshape(BINS // _COARSE, _COARSE).sum(axis=1)
        used = [index for index, count in enumerate(bars) if count]
        first, last = max(0, used[0] - 1), min(len(bars) - 1, used[-1] + 1)
        x = [_ms(value_s(index * _COARSE + 1)) for index in range(first, last + 1)]
        y = [round(100 * float(bars[index]) / total, 3) for index in range(first, last + 1)]
        label = metric(name).label
        figure: dict[str, Any] = {"type": "scatter", "x": x, "y": y, "mode": "lines", "fill": "tozeroy", "name": label}
        figure["line"] = {"color": BLUE, "shape": "hvh", "width": 1.5}
        layout = _base("% of samples")
        layout["xaxis"] = {"type": "log", "title": {"text": "ms"}, "dtick": "D1" if len(x) < 90 else 1}
        unit = "gaps" if name == "itl_s" else "requests"
        charts.append(Chart(f"distribution-{name}", label, f"{label} of {total:,} {unit}.", [figure], layout))
    return charts


def sweep(section: Mapping[str, Any]) -> list[Chart]:
    """Return throughput against latency, and both against the load, of a sweep."""
    steps = section.get("steps") or []
    if len(steps) < 2:
        return []
    axis = str(section["axis"]).replace("_", " ")
    levels = [step["level"] for step in steps]
    output = [step["throughput"]["output_throughput"] for step in steps]
    knee = (section.get("knee") or {}).get("level")

    def latency(name: str, statistic: str) -> list[float | None]:
        return [_ms(step["metrics"][name][statistic]) for step in steps]

    ttft = {"TTFT p50": latency("ttft_s", "p50"), "TTFT p95": latency("ttft_s", "p95")}
    itl = {"ITL p50": latency("itl_s", "p50"), "ITL p95": latency("itl_s", "p95")}
    return [
        _against("sweep-tradeoff", "Throughput against TTFT", output, "output tok/s", ttft, "ms", levels, None),
        _against("sweep-output", "Output throughput", levels, axis, {"output tok/s": output}, "tok/s", None, knee),
        _against("sweep-ttft", "TTFT", levels, axis, ttft, "ms", None, knee),
        _against("sweep-itl", "ITL", levels, axis, itl, "ms", None, knee),
    ]


def _against(
    name: str,
    title: str,
    x: Sequence[float | None],
    x_title: str,
    lines: Mapping[str, Sequence[float | None]],
    unit: str,
    labels: Sequence[float] | None,
    knee: float | None,
) -> Chart:
    data: list[dict[str, Any]] = []
    for (line, y), (color, dash) in zip(lines.items(), _STYLES, strict=False):
        trace: dict[str, Any] = {"type": "scatter", "x": list(x), "y": list(y), "name": line, "mode": "lines+markers"}
        trace["line"] = {"color": color, "dash": dash}
        if labels is not None and not data:
            trace.update(mode="lines+markers+text", text=[f"{label:g}" for label in labels], textposition="top center")
        data.append(trace)
    layout = _base(unit)
    layout["xaxis"] = {"title": {"text": x_title}, "rangemode": "tozero"}
    layout["yaxis"]["rangemode"] = "tozero"
    if knee is not None:
        layout.update(_mark(knee, f"knee {knee:g}"))
    beside = " Each point is a level of the load." if labels is not None else ""
    return Chart(name, title, f"{', '.join(lines)} against {x_title}.{beside}", data, layout)


def _percentiles(slots: Sequence[Slot], name: str) -> dict[str, list[float | None]]:
    lines = {f"p{p}": [_ms(slot.percentile_s(name, p)) for slot in slots] for p in (50, 95, 99)}
    return lines if any(value is not None for value in lines["p50"]) else {}


def _load_chart(axis: TimeAxis, evidence: Details, in_flight: Points) -> Chart:
    """Requests in flight as the completions have them, and users as the processes were seen to have."""
    slots = per(evidence.grid.width)
    users = list(evidence.processes.load("users"))
    if not users:
        summary = f"Started and not yet ended, at the end of each slot, {slots}."
        return line_chart(axis, {"": in_flight}, name="in-flight", title="In flight", unit="requests", summary=summary)
    title, summary = "Users and requests in flight", f"Users, and requests started and not yet ended, {slots}."
    lines = {"in flight": in_flight, "users": users}
    return line_chart(axis, lines, name="in-flight", title=title, unit="", summary=summary)


def line_chart(axis: TimeAxis, lines: Mapping[str, Points], *, name: str, title: str, unit: str, summary: str) -> Chart:
    """Return a chart of lines over time, at most `MAX_LINES` of them; an empty one keeps its colour to itself."""
    styled = zip(lines.items(), _STYLES, strict=False)
    data = [_line(label, points, style) for (label, points), style in styled if points]
    return Chart(name, title, summary, data, _layout(unit, axis))


def _line(name: str, points: Points, style: tuple[str, str]) -> dict[str, Any]:
    color, dash = style
    return {
        "type": "scatter",
        "x": [second * 1000 for second, _ in points],
        "y": [None if value is None else round(value, 3) for _, value in points],
        "name": escaped(name),
        "mode": "lines+markers" if len(points) <= MARKED_POINTS else "lines",
        "line": {"color": color, "dash": dash, "width": 2},
        "marker": {"size": 4},
    }


def _layout(unit: str, axis: TimeAxis) -> dict[str, Any]:
    layout = _base(unit)
    beside_ms = max(500, (axis.last_ms - axis.first_ms) // 50)
    layout["xaxis"] = {"type": "date", "tickformat": "%H:%M:%S", "hoverformat": "%H:%M:%S", "nticks": 8}
    layout["xaxis"]["range"] = [axis.first_ms - beside_ms, axis.last_ms + beside_ms]
    layout["yaxis"]["rangemode"] = "tozero"
    shown = [_mark(at_ms, label) for at_ms, label in axis.marks]
    layout["shapes"] = [shape for one in shown for shape in one["shapes"]]
    layout["annotations"] = [note for one in shown for note in one["annotations"]]
    return layout


def per(width: int) -> str:
    """Say how wide the slots of a chart are."""
    return "per second" if width == 1 else f"per {width} seconds"


def _base(unit: str) -> dict[str, Any]:
    return {"yaxis": {"title": {"text": unit}}}


def _mark(x: float, label: str) -> dict[str, Any]:
    """A vertical line with a label at its top."""
    line = {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": RED, "dash": "dot"}}
    note = {"x": x, "y": 1, "yref": "paper", "text": escaped(label), "showarrow": False, "xanchor": "left"}
    return {"shapes": [{**line, "opacity": 0.6}], "annotations": [{**note, "yanchor": "top", "textangle": -90}]}


def _steps(steps: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    known = sorted(steps.items(), key=lambda entry: entry[1])
    yield from ((at_ns // 10**6, label) for label, at_ns in known[:MAX_STEPS] if not label.endswith("~settle"))


def escaped(text: str) -> str:
    """Return a text for plotly, which reads a little HTML (links, too) in its labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _ms(value: float | None) -> float | None:
    return None if value is None else round(value * 1e3, 3)

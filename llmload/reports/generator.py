"""The load generator itself over time: CPU, loop lag and memory of each of its processes. No I/O.

It answers "is it us?": a curve of the server that bends where one of these does may be the client's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmload.metrics.processes import Process, Processes
from llmload.metrics.verdict import CLIENT_CPU_PERCENT, MIXED_CPU_PERCENT
from llmload.reports.charts import MAX_LINES, Chart, Points, TimeAxis, line_chart, per

MIB = 1 << 20
_CHARTS = (
    ("cpu_percent", "CPU", "% of a core", 1.0, "Highest CPU"),
    ("lag_max_s", "Event-loop lag", "ms", 1e3, "Worst lateness of the event loop"),
    ("rss_bytes", "Memory", "MiB", 1 / MIB, "Highest resident memory"),
)
"""Column, title, unit, factor to that unit, and what it is."""
_LIMITS = {
    "cpu_percent": f" From {MIXED_CPU_PERCENT:g} % on the client is in doubt, from {CLIENT_CPU_PERCENT:g} % on it is "
    "the limit."
}


def generator(processes: Processes, axis: TimeAxis | None) -> list[Chart]:
    """Return a chart for each quantity that was seen, with a line a process; of many processes the busiest."""
    if axis is None:
        return []
    names = _drawn(processes)
    left_out = len(processes.by_name) - len(names)
    which = f"; the {len(names)} busiest processes of {len(processes.by_name)}" if left_out else ""
    charts = []
    for column, title, unit, factor, what in _CHARTS:
        lines = {name: _scaled(processes.line(name, column), factor) for name in names}
        if any(lines.values()):
            summary = f"{what}, {per(processes.width)}{which}.{_LIMITS.get(column, '')}"
            charts.append(line_chart(axis, lines, name=f"generator-{column}", title=title, unit=unit, summary=summary))
    return charts


def table(processes: Processes) -> list[dict[str, Any]]:
    """Return a row for each process, by name: exact, of all its looks. What was never seen is None."""
    return [_row(name, process) for name, process in sorted(processes.by_name.items())]


def _row(name: str, process: Process) -> dict[str, Any]:
    highest = process.highest
    memory = highest.get("rss_bytes")
    return {
        "name": name,
        "looks": process.looks,
        "users": highest.get("users"),
        "in_flight": highest.get("in_flight"),
        "cpu_mean": process.cpu_mean,
        "cpu_max": highest.get("cpu_percent"),
        "lag_max_s": highest.get("lag_max_s"),
        "memory_mib": None if memory is None else memory / MIB,
    }


def _drawn(processes: Processes) -> list[str]:
    """Names in the order of the table; where there are too many those with the highest CPU."""
    busiest = sorted(processes.by_name, key=lambda name: -processes.by_name[name].highest.get("cpu_percent", 0))
    return sorted(busiest[:MAX_LINES])


def _scaled(points: Iterator[tuple[int, float | None]], factor: float) -> Points:
    return [(second, None if value is None else value * factor) for second, value in points]

"""InfluxQL: what the boards ask InfluxDB for. Text only.

One dialect for InfluxDB 1.8, 2.x and 3 Core: no SLIMIT, SHOW SERIES, INTEGRAL, SAMPLE; no HISTOGRAM, no ROUND.

Two sources, and which one a panel takes is a matter of honesty:

* `llm_request` holds every completion, so a percentile over any stretch of time, scenario or step is the exact one.
* `llm_interval` holds what the master worked out each second. Its rates are per second whatever the zoom (a wider bucket
  shows their mean). Its percentiles belong to one second and one row: they are never averaged. A wider bucket shows the
  middle second's p50 and the worst second's p95 and p99.

Tables are grouped by one tag at most: Grafana puts the tags of a table's rows into columns in no fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmload.metrics.definitions import metric

EVERYTHING = ".*"
"""What a variable's "All" stands for; written as it is into a regular expression, where it matches an absent tag too."""


def matches(tag: str, variable: str | None = None) -> str:
    """Return the condition that a tag has one of the values of the dashboard variable of that name.

    The format `regex` is the only one in which every value survives: `singlequote` leaves backslashes alone,
    `sqlstring` doubles quotes, which is no InfluxQL, and `raw` ends the text at the first quote of a name.
    https://grafana.com/docs/grafana/latest/dashboards/variables/variable-syntax/
    """
    return f'"{tag}" =~ /^${{{variable or tag}:regex}}$/'


def is_chosen(variable: str) -> str:
    """Return the condition that a dashboard variable has a value of its own instead of "All".

    A run is never called as a scenario, model or step is, but "All" matches it.
    """
    return f'"run" !~ /^${{{variable}:regex}}$/'


STEP = f"({matches('step')} OR {matches('scenario', 'step')})"
"""The second half holds with "All" only, and lets pass what has no step, also where an absent tag matches nothing."""

REQUESTS = f"{matches('run')} AND {matches('scenario')} AND {matches('model')} AND {STEP}"
"""Completions of the chosen run, scenario, model and step."""

OK = "\"outcome\" = 'ok'"
FAILED = "\"outcome\" = 'failed'"

_ALL_ROW = f"\"scenario\" = 'all' AND {matches('scenario')} AND {matches('scenario', 'model')} AND {matches('scenario', 'step')}"
_PART_ROWS = (
    f"\"scenario\" != 'all' AND {matches('scenario')} AND {matches('model')} AND {STEP}"
    f" AND ({is_chosen('scenario')} OR {is_chosen('model')} OR {is_chosen('step')})"
)
INTERVALS = f"{matches('run')} AND (({_ALL_ROW}) OR ({_PART_ROWS}))"
"""Rows of `llm_interval`: with "All" everywhere the one row over all, whose percentiles are merged; else the rows of
what was chosen, one a scenario, model and step, and not the row over all."""

TOTALS = f"{matches('run')} AND \"scenario\" = 'all'"
"""The row over all, for what is only known of the whole run: users, verdict."""

MEASURED = '"step" =~ /./ AND "step" !~ /^warmup$|~settle$/'
"""Steps of a sweep, without the warm-up and the settling part of each step."""


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel. `alias` names its series ($col, $tag_x); `table` asks for rows instead of series."""

    text: str
    alias: str = "$col"
    form: Literal["time_series", "table"] = "time_series"


def over_time(columns: str, measurement: str, where: str, *tags: str, alias: str = "$col") -> Target:
    """Return a query for series: one point per bucket of the zoom, none where nothing was written."""
    groups = "".join(f', "{tag}"' for tag in tags)
    text = (
        f'SELECT {columns} FROM "{measurement}" WHERE {where} AND $timeFilter'
        f" GROUP BY time($__interval){groups} fill(none)"
    )
    return Target(text, alias)


def rows(columns: str, measurement: str, where: str, tag: str | None = None, *, end: str = "") -> Target:
    """Return a query for a table, one row for each value of a tag, or one in all."""
    group = f' GROUP BY "{tag}"' if tag else ""
    return Target(f'SELECT {columns} FROM "{measurement}" WHERE {where} AND $timeFilter{group}{end}', form="table")


def percentiles(name: str, *percents: int) -> str:
    """Return columns p50, p95 … of a metric of each request: nearest rank, exact."""
    return ", ".join(f'PERCENTILE("{metric(name).name}", {percent}) AS "p{percent}"' for percent in percents)


def percentile(name: str, percent: int, suffix: str = "") -> str:
    """Return one column, named as `column` names it."""
    return f'PERCENTILE("{metric(name).name}", {percent}) AS "{column(name, percent)}{suffix}"'


def column(name: str, percent: int) -> str:
    """Return the heading of a percentile of a metric."""
    return f"{metric(name).label} p{percent}"


def second_percentiles(name: str) -> str:
    """Return columns of the per-second percentiles of a metric: the middle second's p50, the worst one's p95 and p99."""
    short = metric(name).name.removesuffix("_s")
    return (
        f'MEDIAN("{short}_p50_s") AS "p50, middle second", MAX("{short}_p95_s") AS "p95, worst second", '
        f'MAX("{short}_p99_s") AS "p99, worst second"'
    )


def count(name: str) -> str:
    """Return a column with the number of completions; every one has `token_events`."""
    return f'COUNT("token_events") AS "{name}"'


PER_SECOND = 'COUNT("token_events") / ($__interval_ms / 1000)'
"""Completions per second: the count of a bucket over its length, so that zooming changes nothing."""


def values_of(tag: str, measurement: str, where: str = "") -> str:
    """Return the query for the values of a tag, for a variable."""
    return f'SHOW TAG VALUES FROM "{measurement}" WITH KEY = "{tag}"' + (f" WHERE {where}" if where else "")

"""The boards as data, and what all of them have: variables, annotations, links to each other, one time cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana import capacity, compare, generator, live
from grafana.panels import SOURCE, Panel, Query
from grafana.queries import EVERYTHING, MEASURED, Target, matches, values_of

COLUMNS = 24
TAG = "llmload"


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. Sections are rows of panels under a heading; `variables` are made for this board."""

    uid: str
    title: str
    about: str
    sections: Sequence[tuple[str, Sequence[Panel]]]
    variables: Sequence[dashboard.QueryVariable]
    start: str
    refresh: str


def chosen(
    name: str,
    query: str,
    about: str,
    *,
    all_of_them: bool = False,
    multi: bool = False,
    newest_first: bool = False,
) -> dashboard.QueryVariable:
    """Return a variable whose values InfluxDB tells, anew whenever the time range moves."""
    builder = dashboard.QueryVariable(name).label(name).description(about).datasource(SOURCE).query(query)
    builder = builder.definition(query).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).multi(multi)
    builder = builder.sort(VariableSort.ALPHABETICAL_DESC if newest_first else VariableSort.NATURAL_ASC)
    if all_of_them:
        builder = builder.include_all(True).all_value(EVERYTHING)
        builder = builder.current(VariableOption(selected=True, text="All", value="$__all"))
    return builder


RUN = chosen(
    "run",
    values_of("run", "llm_interval"),
    "All: whatever ran in the time range, so that a run shows the moment it starts",
    all_of_them=True,
    newest_first=True,
)
SCENARIO = chosen("scenario", values_of("scenario", "llm_request", matches("run")), "User class", all_of_them=True)
MODEL = chosen("model", values_of("model", "llm_request", matches("run")), "Model asked for", all_of_them=True)
STEP = chosen("step", values_of("step", "llm_request", matches("run")), "Level of a sweep", all_of_them=True)
SWEEP = chosen("run", values_of("run", "llm_request", MEASURED), "Runs with steps, the newest first", newest_first=True)
RUNS = chosen("run", values_of("run", "llm_interval"), "Runs to compare", multi=True, newest_first=True)
BASELINE = chosen(
    "baseline",
    values_of("run", "llm_interval", '"run" !~ /^${run:regex}$/'),
    "The run that the others are held against",
    newest_first=True,
)

BOARDS = (
    Board("llmload-live", "Live run", live.ABOUT, live.SECTIONS, (RUN, SCENARIO, MODEL, STEP), "now-15m", "5s"),
    Board("llmload-capacity", "Capacity", capacity.ABOUT, capacity.SECTIONS, (SWEEP, SCENARIO, MODEL), "now-7d", ""),
    Board("llmload-compare", "Compare runs", compare.ABOUT, compare.SECTIONS, (RUNS, BASELINE), "now-30d", ""),
    Board("llmload-generator", "Load generator", generator.ABOUT, generator.SECTIONS, (RUN,), "now-15m", "5s"),
)


def built(board: Board) -> dict[str, Any]:
    """Return a board as Grafana's classic JSON, as Python values."""
    builder = dashboard.Dashboard(board.title).uid(board.uid).description(board.about).tags([TAG]).editable()
    builder = builder.time(board.start, "now").refresh(board.refresh).timezone("browser")
    builder = builder.timepicker(dashboard.TimePicker().refresh_intervals(["1s", "5s", "10s", "30s", "1m", "5m"]))
    builder = builder.tooltip(DashboardCursorSync.CROSSHAIR).annotation(_events())
    for variable in board.variables:
        builder = builder.with_variable(variable)
    for other in BOARDS:
        if other is not board:
            builder = builder.link(_link(other))
    for panel in placed(board.sections):
        builder = builder.with_panel(panel)
    return builder.build()


def placed(sections: Sequence[tuple[str, Sequence[Panel]]]) -> list[Any]:
    """Return the panels of all sections with ids and places: left to right, a new line where the width is used up."""
    result, number, top = [], 1, 0
    for heading, panels in sections:
        result.append(_Heading(heading, number, top))
        number, top, left, deepest = number + 1, top + 1, 0, 0
        for panel in panels:
            if left + panel.width > COLUMNS:
                left, top, deepest = 0, top + deepest, 0
            place = GridPos(x=left, y=top, w=panel.width, h=panel.height)
            result.append(panel.builder.id(number).grid_pos(place))
            number, left, deepest = number + 1, left + panel.width, max(deepest, panel.height)
        top += deepest
    return result


class _Heading:
    """The heading of a section: a row that stays open. The SDK would move the panels into it."""

    def __init__(self, title: str, number: int, top: int) -> None:
        self._panel = dashboard.Panel().type("row").title(title).id(number)
        self._panel.grid_pos(GridPos(x=0, y=top, w=COLUMNS, h=1))

    def build(self) -> Any:
        return self._panel.build()


def _events() -> dashboard.AnnotationQuery:
    text = f'SELECT "title", "text", "kind" FROM "llm_event" WHERE {matches("run")} AND $timeFilter'
    return (
        dashboard.AnnotationQuery()
        .name("Events of the run")
        .datasource(SOURCE)
        .enable(True)
        .icon_color("light-purple")
        .target(_Annotation(Target(text), "Anno"))
    )


class _Annotation(Query):
    """The annotation's query, with the columns that Grafana shows as title, text and tags."""

    def __init__(self, target: Target, letter: str) -> None:
        super().__init__(target, letter)
        columns = {"titleColumn": "title", "textColumn": "text", "tagsColumn": "kind"}
        self._data.update(columns, fromAnnotations=True, textEditor=True)


def _link(other: Board) -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink(other.title)
        .type(DashboardLinkType.LINK)
        .url(f"/d/{other.uid}")
        .icon("dashboard")
        .keep_time(True)
        .include_vars(True)
    )

"""Panels: one function a kind of chart, each returning a `Panel` that a board places. No queries, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import barchart, common, dashboard, heatmap, stat, table, timeseries, xychart
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import heatmap as heat
from grafana_foundation_sdk.models import xychart as xy
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    MatcherConfig,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)

from grafana.queries import Target
from llmload.metrics.definitions import Unit, metric

SOURCE = DataSourceRef(type_val="influxdb", uid="llmload-influxdb")
MIN_INTERVAL = "1s"
"""llmload writes once a second; a shorter bucket would be empty."""

UNITS: dict[Unit, str] = {"s": "s", "tok/s": "tok/s", "tokens": "short", "req/s": "reqps", "share": "percentunit"}
"""Unit of a metric → Grafana's. `s` is scaled to ms and µs by itself; Grafana writes an unknown one behind the number."""

GREEN, ORANGE, RED, BLUE = "green", "orange", "red", "blue"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel before it is placed: what it asks, how it is drawn, how large it is (of 24 columns)."""

    title: str
    question: str
    """The question that it answers, for the guide and the panel's own description."""
    notes: str
    """Formula, source and limits."""
    builder: Any
    width: int
    height: int


class Query(Builder[UnknownDataquery]):
    """An InfluxQL target; the SDK has no class for this data source."""

    def __init__(self, target: Target, letter: str) -> None:
        self._data = {
            "refId": letter,
            "datasource": {"type": SOURCE.type_val, "uid": SOURCE.uid},
            "query": target.text,
            "rawQuery": True,
            "resultFormat": target.form,
            **({"alias": target.alias} if target.form == "time_series" else {}),
        }

    def build(self) -> UnknownDataquery:
        return UnknownDataquery(self._data)


def formula(*names: str) -> str:
    """Return the lines that say what metrics are, from the table of definitions."""
    lines = []
    for name in names:
        row = metric(name)
        lines.append(f"{row.label}: {row.what}. {row.label} = {row.formula}. Missing when: {row.missing_when}.")
    return "\n".join(lines)


def grafana_unit(name: str) -> str:
    """Return Grafana's unit of a metric."""
    return UNITS[metric(name).unit]


def steps(*levels: tuple[float, str], base: str = GREEN) -> dashboard.ThresholdsConfig:
    """Return thresholds: a base colour, and another from each value on."""
    first = Threshold(value=None, color=base)
    return (
        dashboard.ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps([first, *(Threshold(value=value, color=colour) for value, colour in levels)])
    )


def series(
    title: str,
    question: str,
    notes: str,
    targets: Sequence[Target],
    *,
    unit: str,
    size: tuple[int, int] = (12, 8),
    bars: bool = False,
    thresholds: dashboard.ThresholdsConfig | None = None,
    right: Mapping[str, str] | None = None,
    renames: bool = False,
    colours: Mapping[str, str] | None = None,
    least: float | None = 0,
) -> Panel:
    """Return lines over time, or stacked bars.

    Args:
        unit: of the left axis.
        thresholds: drawn as dashed lines.
        right: pattern of series names → unit of those on the right axis.
        renames: drop the "all/all" that the row over all brings into its series' names.
        colours: series name → colour.
        least: bottom of the left axis, None where values may be below 0.
    """
    builder = timeseries.Panel().unit(unit).span_nulls(False)
    builder = builder.show_points(kinds.VisibilityMode.AUTO).point_size(4).line_width(1 if bars else 2)
    builder = builder.legend(_legend(["mean", "max", "lastNotNull"])).tooltip(_tooltip())
    if bars:
        stacked = common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A")
        builder = builder.draw_style(kinds.GraphDrawStyle.BARS).fill_opacity(70).stacking(stacked)
    else:
        builder = builder.draw_style(kinds.GraphDrawStyle.LINE).fill_opacity(8)
    if least is not None:
        builder = builder.min(least)
    if thresholds is not None:
        dashed = common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED)
        builder = builder.thresholds(thresholds).thresholds_style(dashed)
    for pattern, other in (right or {}).items():
        builder = builder.override_by_regexp(
            pattern, _properties({"unit": other, "custom.axisPlacement": "right", "custom.fillOpacity": 0})
        )
    for name, colour in (colours or {}).items():
        builder = builder.override_by_name(name, _properties({"color": {"mode": "fixed", "fixedColor": colour}}))
    if renames:
        builder = builder.with_transformation(
            transformation("renameByRegex", regex="(.*) all/all/?$", renamePattern="$1")
        )
    return _panel(title, question, notes, builder, targets, size)


def stats(
    title: str,
    question: str,
    notes: str,
    target: Target,
    *,
    unit: str,
    size: tuple[int, int],
    fields: str = "",
    thresholds: dashboard.ThresholdsConfig | None = None,
    words: Mapping[str, tuple[str, str]] | None = None,
    colours: Mapping[str, str] | None = None,
    decimals: int | None = None,
) -> Panel:
    """Return large numbers or words, the last value of each field.

    Args:
        fields: pattern of the fields to show; all numbers when empty.
        words: value → (what to show, colour).
        colours: field → colour.
    """
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).fields(fields).values(False)
    builder = stat.Panel().unit(unit).reduce_options(reduce).graph_mode(kinds.BigValueGraphMode.NONE)
    builder = builder.color_mode(kinds.BigValueColorMode.VALUE).text_mode(kinds.BigValueTextMode.AUTO)
    builder = builder.color_scheme(dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS)).no_value("–")
    if decimals is not None:
        builder = builder.decimals(decimals)
    builder = builder.thresholds(thresholds or steps(base="text"))
    if words:
        builder = builder.color_mode(kinds.BigValueColorMode.BACKGROUND).mappings([_words(words)])
    for name, colour in (colours or {}).items():
        builder = builder.override_by_name(name, _properties({"color": {"mode": "fixed", "fixedColor": colour}}))
    return _panel(title, question, notes, builder, [target], size)


def grid(
    title: str,
    question: str,
    notes: str,
    targets: Sequence[Target],
    *,
    columns: Mapping[str, str],
    size: tuple[int, int],
    transformations: Iterable[DataTransformerConfig] = (),
    sort: tuple[str, bool] | None = None,
    bars: Iterable[str] = (),
    coloured: Mapping[str, dashboard.ThresholdsConfig] | None = None,
    links: Mapping[str, str] | None = None,
    repeat: str | None = None,
) -> Panel:
    """Return a table.

    Args:
        columns: field → Grafana's unit, in the order in which they are shown; others are left out.
        sort: column, and whether the largest comes first.
        bars: columns whose cells are bars, so that the largest is seen.
        coloured: column → thresholds of its text's colour.
        links: column → address that a click on its cell leads to.
        repeat: variable for each of whose values there is one such table.
    """
    builder = table.Panel().unit("short").no_value("–").cell_height(kinds.TableCellHeight.SM)
    builder = builder.cell_options(kinds.TableAutoCellOptions())
    for one in (*transformations, *only(columns)):
        builder = builder.with_transformation(one)
    if repeat is not None:
        builder = builder.repeat(repeat).repeat_direction("v")
    if sort is not None:
        builder = builder.sort_by([common.TableSortByFieldState().display_name(sort[0]).desc(sort[1])])
    for name, unit in columns.items():
        wanted: dict[str, Any] = {"unit": unit}
        if name in tuple(bars):
            wanted["custom.cellOptions"] = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
            wanted["color"] = {"mode": "continuous-BlPu"}
        if name in (coloured or {}):
            wanted["custom.cellOptions"] = {"type": "color-text"}
            wanted["thresholds"] = coloured[name].build()
        if name in (links or {}):
            wanted["links"] = [{"title": "Open this run on the Live run board", "url": links[name]}]
        builder = builder.override_by_name(name, _properties(wanted))
    return _panel(title, question, notes, builder, targets, size)


def points(
    title: str,
    question: str,
    notes: str,
    targets: Sequence[Target],
    *,
    x: tuple[str, str],
    y: tuple[str, str],
    size: tuple[int, int] = (12, 9),
    transformations: Iterable[DataTransformerConfig] = (),
    one_series: bool = False,
) -> Panel:
    """Return one number over another, joined by lines in the order of the rows.

    Args:
        x, y: field and Grafana's unit.
        one_series: take the two fields by name from one frame; else each frame is a series, its first number the x.
    """
    builder = xychart.Panel().show(xy.XYShowMode.POINTS_AND_LINES).unit(y[1]).axis_label(y[0])
    builder = builder.point_size(xychart.XychartFieldConfigPointSize().fixed(5 if one_series else 2)).line_width(1)
    builder = builder.legend(_legend([])).tooltip(common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.SINGLE))
    for one in (*transformations, *only((*x[:1], *y[:1]))) if one_series else transformations:
        builder = builder.with_transformation(one)
    builder = builder.override_by_name(x[0], _properties({"unit": x[1], "custom.axisLabel": x[0]}))
    if one_series:
        pair = xychart.XYSeriesConfig().x(_by_name(xychart.XychartXYSeriesConfigX(), x[0]))
        pair = pair.y(_by_name(xychart.XychartXYSeriesConfigY(), y[0]))
        builder = builder.mapping(xy.SeriesMapping.MANUAL).series([pair])
    else:
        builder = builder.mapping(xy.SeriesMapping.AUTO).series([])
    return _panel(title, question, notes, builder, targets, size)


def columns_by(
    title: str,
    question: str,
    notes: str,
    targets: Sequence[Target],
    *,
    x: str,
    fields: Mapping[str, str],
    transformations: Iterable[DataTransformerConfig] = (),
    size: tuple[int, int] = (12, 9),
) -> Panel:
    """Return upright bars: one group for each value of the text field `x`, one bar for each of `fields` (→ unit)."""
    builder = barchart.Panel().x_field(x).orientation(kinds.VizOrientation.VERTICAL).min(0)
    builder = builder.unit(next(iter(fields.values()))).show_value(kinds.VisibilityMode.AUTO).legend(_legend([]))
    builder = builder.tooltip(_tooltip()).x_tick_label_rotation(0).fill_opacity(70)
    for one in (*transformations, *only((x, *fields))):
        builder = builder.with_transformation(one)
    return _panel(title, question, notes, builder, targets, size)


def heat_over_time(title: str, question: str, notes: str, target: Target, *, unit: str, size: tuple[int, int]) -> Panel:
    """Return a heatmap whose cells Grafana counts from single values, on a logarithmic axis."""
    buckets = common.HeatmapCalculationBucketConfig().mode(kinds.HeatmapCalculationMode.COUNT).value("2")
    log = common.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG).log(2)
    builder = (
        heatmap.Panel().calculate(True).calculation(common.HeatmapCalculationOptions().y_buckets(buckets.scale(log)))
    )
    builder = builder.unit(unit).y_axis(heatmap.YAxisConfig().unit(unit).axis_placement(kinds.AxisPlacement.LEFT))
    colour = heatmap.HeatmapColorOptions().mode(heat.HeatmapColorMode.SCHEME).scheme("Turbo").steps(64)
    builder = builder.color(
        colour.scale(heat.HeatmapColorScale.EXPONENTIAL).exponent(0.5).fill("dark-blue").reverse(False)
    )
    builder = builder.cell_gap(1).show_legend().show_value(kinds.VisibilityMode.NEVER)
    builder = builder.with_transformation(transformation("sortBy", fields={}, sort=[{"field": "Time"}]))
    return _panel(title, question, notes, builder, [target], size)


def transformation(kind: str, *, query: str | None = None, **options: Any) -> DataTransformerConfig:
    """Return a transformation with its options; `query` limits it to the frames of one query."""
    only_query = None if query is None else MatcherConfig(id_val="byRefId", options=query)
    return DataTransformerConfig(id_val=kind, filter_val=only_query, options=options)


def joined(field: str, mode: str = "outer") -> DataTransformerConfig:
    """Return the transformation that makes one table of several, by a field that all have."""
    return transformation("joinByField", byField=field, mode=mode)


def ratio(left: str, operator: str, right: str, name: str) -> DataTransformerConfig:
    """Return the transformation that adds a field, worked out of two."""
    sides = [{"matcher": {"id": "byName", "options": side}} for side in (left, right)]
    binary = {"left": sides[0], "operator": operator, "right": sides[1]}
    return transformation("calculateField", mode="binary", binary=binary, alias=name, replaceFields=False)


def ascending(field: str) -> DataTransformerConfig:
    """Return the transformation that sorts rows."""
    return transformation("sortBy", fields={}, sort=[{"field": field, "desc": False}])


def only(names: Iterable[str]) -> list[DataTransformerConfig]:
    """Return the transformations that keep the named fields, in this order."""
    names = list(names)
    return [
        transformation("filterFieldsByName", include={"names": names}),
        transformation(
            "organize", indexByName={name: place for place, name in enumerate(names)}, excludeByName={}, renameByName={}
        ),
    ]


def _by_name(builder: Any, name: str) -> Any:
    return builder.matcher(xychart.MatcherConfig().id("byName").options(name))


def _panel(
    title: str, question: str, notes: str, builder: Any, targets: Sequence[Target], size: tuple[int, int]
) -> Panel:
    queries = [Query(target, chr(ord("A") + place)) for place, target in enumerate(targets)]
    built = builder.title(title).description(f"{question}\n\n{notes}").datasource(SOURCE).interval(MIN_INTERVAL)
    return Panel(title, question, notes, built.targets(queries), *size)


def _properties(values: Mapping[str, Any]) -> list[DynamicConfigValue]:
    return [DynamicConfigValue(id_val=name, value=value) for name, value in values.items()]


def _legend(calcs: list[str]) -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(True).placement(kinds.LegendPlacement.BOTTOM).calcs(calcs)
    return legend.display_mode(kinds.LegendDisplayMode.TABLE if calcs else kinds.LegendDisplayMode.LIST)


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING)


def _words(words: Mapping[str, tuple[str, str]]) -> ValueMap:
    return ValueMap(
        options={
            value: ValueMappingResult(text=text, color=colour, index=place)
            for place, (value, (text, colour)) in enumerate(words.items())
        }
    )

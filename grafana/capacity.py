"""The Capacity board: a sweep's steps side by side."""

from __future__ import annotations

from grafana.panels import (
    Panel,
    ascending,
    columns_by,
    formula,
    grafana_unit,
    grid,
    joined,
    points,
    ratio,
    series,
)
from grafana.queries import FAILED, MEASURED, OK, TOTALS, Target, column, count, matches, over_time, percentile, rows
from llmload.metrics.definitions import metric

ABOUT = (
    "A run in steps (a sweep, stages, find-capacity): how much the server delivers at which load, at what latency, and "
    "where more load stops to pay. Warm-up and the settling part of each step are left out."
)

OUTPUT = f"{metric('output_throughput').label} tok/s, all"
ONE_READER = column("output_tps", 50)
E2E, TTFT = column("e2e_s", 95), column("ttft_s", 95)
POWER = "power"

CHOSEN = f"{matches('run')} AND {matches('scenario')} AND {matches('model')} AND {MEASURED}"
PARTS = f'{CHOSEN} AND "scenario" != \'all\' AND "output_tps" > 0'


def _percentiles(*wanted: tuple[str, int]) -> Target:
    columns = ", ".join(percentile(name, percent) for name, percent in wanted)
    return rows(f"{count('ok')}, {columns}", "llm_request", f"{CHOSEN} AND {OK}", "step")


SPEED = rows(
    'MIN("elapsed_s") AS "from", MAX("elapsed_s") - MIN("elapsed_s") + 1 AS "seconds", '
    f'SUM("output_tps") / (MAX("elapsed_s") - MIN("elapsed_s") + 1) AS "{OUTPUT}"',
    "llm_interval",
    PARTS,
    "step",
)
"""Tokens that arrived over the seconds from the first to the last with tokens of the step's requests."""

SPEED_NOTES = (
    f"{OUTPUT}: output tokens of the step's requests / seconds from the first to the last second in which any arrived "
    "(the report counts by the step's own bounds, see docs/load-models.md)."
)
KNEE_NOTES = (
    f"power = {OUTPUT} / {E2E} (Kleinrock): it grows while more load brings more tokens than it costs in latency, and "
    "falls where it does not. Its largest value marks the knee."
)


def _against(title: str, question: str, notes: str, name: str, percent: int, *, x: str = OUTPUT) -> Panel:
    return points(
        title,
        question,
        f"One point a step, joined in the order of the steps. {SPEED_NOTES}\n{notes}",
        [_percentiles((name, percent)), SPEED],
        x=(x, grafana_unit("output_throughput")),
        y=(column(name, percent), grafana_unit(name)),
        transformations=[joined("step"), ascending("from")],
        one_series=True,
    )


STEPS = (
    grid(
        "Steps",
        "What did each level of load bring, and where is the knee?",
        f"{SPEED_NOTES}\n{KNEE_NOTES}\nok and failed count completions; percentiles are exact, over the ok ones.\n"
        f"{formula('ttft_s', 'tpot_s', 'e2e_s', 'output_tps')}",
        [
            _percentiles(("ttft_s", 50), ("ttft_s", 95), ("tpot_s", 50), ("e2e_s", 95), ("output_tps", 50)),
            rows(count("failed"), "llm_request", f"{CHOSEN} AND {FAILED}", "step"),
            SPEED,
        ],
        columns={
            "step": "string",
            "from": "s",
            "seconds": "s",
            "ok": "locale",
            "failed": "locale",
            "ok req/s": grafana_unit("request_throughput"),
            OUTPUT: grafana_unit("output_throughput"),
            column("ttft_s", 50): "s",
            TTFT: "s",
            column("tpot_s", 50): "s",
            E2E: "s",
            ONE_READER: grafana_unit("output_tps"),
            POWER: "short",
        },
        transformations=[
            joined("step"),
            ratio("ok", "/", "seconds", "ok req/s"),
            ratio(OUTPUT, "/", E2E, POWER),
            ascending("from"),
        ],
        bars=(OUTPUT, POWER),
        size=(24, 9),
    ),
)

CURVES = (
    _against(
        "Throughput against TTFT",
        "How much throughput can be had before the first word gets late?",
        formula("ttft_s"),
        "ttft_s",
        95,
    ),
    _against(
        "Throughput against E2E latency",
        "From where on is more load paid with latency only?",
        f"{formula('e2e_s')}\nThe knee is where the curve turns upwards.",
        "e2e_s",
        95,
    ),
    _against(
        "One reader's speed against all tokens per second",
        "What does sharing the server cost each reader?",
        formula("output_tps"),
        "output_tps",
        50,
    ),
    columns_by(
        "Where is the knee?",
        "Up to which step does more load pay?",
        KNEE_NOTES,
        [_percentiles(("e2e_s", 95)), SPEED],
        x="step",
        fields={POWER: "short"},
        transformations=[joined("step"), ratio(OUTPUT, "/", E2E, POWER), ascending("from")],
    ),
)

LEVELS = (
    columns_by(
        "TTFT by step",
        "How does the wait for the first word grow with the load?",
        f"{formula('ttft_s')}\nExact percentiles over the ok completions of the step.",
        [
            rows(
                ", ".join(percentile("ttft_s", percent) for percent in (50, 95, 99)),
                "llm_request",
                f"{CHOSEN} AND {OK}",
                "step",
            ),
            SPEED,
        ],
        x="step",
        fields={column("ttft_s", percent): "s" for percent in (50, 95, 99)},
        transformations=[joined("step"), ascending("from")],
    ),
    columns_by(
        "TPOT by step",
        "How does the speed of one answer fall with the load?",
        f"{formula('tpot_s')}\nExact percentiles over the ok completions of the step.",
        [
            rows(
                ", ".join(percentile("tpot_s", percent) for percent in (50, 95, 99)),
                "llm_request",
                f"{CHOSEN} AND {OK}",
                "step",
            ),
            SPEED,
        ],
        x="step",
        fields={column("tpot_s", percent): "s" for percent in (50, 95, 99)},
        transformations=[joined("step"), ascending("from")],
    ),
    series(
        "The sweep over time",
        "Did the load settle in each step, and did the speed follow?",
        "users and requests in flight of the whole run (left), tokens per second (right); steps are the vertical lines.",
        [
            over_time(
                'MAX("users") AS "users", MAX("in_flight") AS "in flight", MEAN("output_tps") AS "output tok/s"',
                "llm_interval",
                TOTALS,
            )
        ],
        unit="short",
        right={"/tok/": grafana_unit("output_throughput")},
        size=(24, 8),
    ),
)

SECTIONS = (("The steps", STEPS), ("The curves", CURVES), ("Level by level", LEVELS))

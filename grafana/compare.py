"""The Compare runs board: several runs on one axis of seconds since their start, and how far each is from a baseline."""

from __future__ import annotations

from grafana.panels import (
    ORANGE,
    RED,
    Panel,
    formula,
    grafana_unit,
    grid,
    joined,
    only,
    points,
    ratio,
    steps,
    transformation,
)
from grafana.queries import FAILED, OK, Target, column, count, matches, percentile, rows
from llmload.metrics.definitions import metric

ABOUT = (
    "Two or more runs: choose them as `run`, and one to hold them against as `baseline`. The time range only has to "
    "contain them. A difference here is a difference of numbers; whether it is more than chance says `llmload compare`."
)

SINCE = "seconds since start"
THESE = f"({matches('run')} OR {matches('run', 'baseline')})"
ALL_ROW = f"{THESE} AND \"scenario\" = 'all'"
DELTAS = (("ttft_s", 50), ("ttft_s", 95), ("tpot_s", 50), ("e2e_s", 95))
BASE = " base"
LIVE_RUN = '/d/llmload-live?var-run=${__data.fields["run"]}&from=${__data.fields["from"]}&to=${__data.fields["to"]}'


def _along(title: str, question: str, notes: str, field: str, name: str, unit: str) -> Panel:
    return points(
        title,
        question,
        f"Each run's seconds, from its own start on. {notes}",
        [rows(f'"elapsed_s" AS "{SINCE}", "{field}" AS "{name}"', "llm_interval", ALL_ROW, "run")],
        x=(SINCE, "s"),
        y=(name, unit),
        transformations=[
            *only(("run", SINCE, name)),
            transformation("partitionByValues", fields=["run"], keepFields=False, naming={"asLabels": True}),
        ],
    )


def _second(title: str, question: str, name: str, percent: int) -> Panel:
    short = metric(name).name.removesuffix("_s")
    return _along(
        title,
        question,
        f"Percentile of each single second; seconds in which nothing ended have none.\n{formula(name)}",
        f"{short}_p{percent}_s",
        column(name, percent),
        grafana_unit(name),
    )


TABLE = (
    grid(
        "Runs",
        "How do the runs stand side by side?",
        "Counts and exact percentiles over the ok completions of each whole run, whatever its phases; output tok/s is "
        "the mean of its seconds. Click a run to see it on the Live run board, in its own time range.\n"
        f"{formula('ttft_s', 'tpot_s', 'e2e_s')}",
        [
            rows(
                f"{count('ok')}, "
                + ", ".join(
                    percentile(name, percent)
                    for name, percent in (*DELTAS, ("ttft_s", 99), ("e2e_s", 50), ("output_tps", 50))
                ),
                "llm_request",
                f"{THESE} AND {OK}",
                "run",
            ),
            rows(count("failed"), "llm_request", f"{THESE} AND {FAILED}", "run"),
            rows('MEAN("output_tps") AS "output tok/s"', "llm_interval", ALL_ROW, "run"),
            rows('FIRST("elapsed_s") AS "first"', "llm_interval", ALL_ROW, "run"),
            rows('LAST("elapsed_s") AS "duration"', "llm_interval", ALL_ROW, "run"),
        ],
        columns={
            "run": "string",
            "duration": "s",
            "ok": "locale",
            "failed": "locale",
            "output tok/s": grafana_unit("output_throughput"),
            column("ttft_s", 50): "s",
            column("ttft_s", 95): "s",
            column("ttft_s", 99): "s",
            column("tpot_s", 50): "s",
            column("e2e_s", 50): "s",
            column("e2e_s", 95): "s",
            column("output_tps", 50): grafana_unit("output_tps"),
            "from": "none",
            "to": "none",
        },
        transformations=[
            *(
                step
                for query, name in (("D", "from"), ("E", "to"))
                for step in (
                    transformation(
                        "organize", query=query, renameByName={"Time": name}, excludeByName={}, indexByName={}
                    ),
                    transformation(
                        "convertFieldType",
                        query=query,
                        fields={},
                        conversions=[{"targetField": name, "destinationType": "number"}],
                    ),
                )
            ),
            joined("run"),
        ],
        links={"run": LIVE_RUN},
        sort=("run", True),
        size=(24, 7),
    ),
)


def _deltas() -> Panel:
    transformations, columns = [joined("scenario")], {"scenario": "string", f"ok{BASE}": "locale", "ok": "locale"}
    for name, percent in DELTAS:
        heading = column(name, percent)
        difference, share = f"{heading} difference", f"{heading} Δ"
        transformations.append(ratio(heading, "-", heading + BASE, difference))
        transformations.append(ratio(difference, "/", heading + BASE, share))
        columns |= {heading + BASE: grafana_unit(name), heading: grafana_unit(name), share: "percentunit"}
    worse = steps((0.05, ORANGE), (0.1, RED))
    return grid(
        "$run against $baseline",
        "By how much did each scenario get slower or faster?",
        "Δ = (run − baseline) / baseline, of exact percentiles over ok completions; orange from +5 % on, red from +10 %. "
        "The numbers of completions stand beside them: a p95 of few requests says little.\n"
        f"{formula(*dict(DELTAS))}",
        [_of_scenarios(matches("run"), ""), _of_scenarios(matches("run", "baseline"), BASE)],
        columns=columns,
        transformations=transformations,
        coloured={name: worse for name in columns if name.endswith("Δ")},
        repeat="run",
        size=(24, 6),
    )


def _of_scenarios(run: str, suffix: str) -> Target:
    columns = ", ".join(percentile(name, percent, suffix) for name, percent in DELTAS)
    return rows(f"{count('ok' + suffix)}, {columns}", "llm_request", f"{run} AND {OK}", "scenario")


CURVES = (
    _along("Users", "Did the runs get the same load?", "Locust users that run.", "users", "users", "short"),
    _along(
        "Output tokens per second",
        "Which run delivered more, and when?",
        formula("output_throughput"),
        "output_tps",
        "output tok/s",
        grafana_unit("output_throughput"),
    ),
    _second("TTFT", "Where in the run do waiting times part?", "ttft_s", 95),
    _second("ITL", "Where does the text flow less evenly?", "itl_s", 95),
    _second("E2E latency", "Where do whole answers take longer?", "e2e_s", 95),
    _along(
        "Failures per second",
        "Did one run fail where the other did not?",
        "Failed completions in each second.",
        "failed_rate",
        "failed",
        grafana_unit("request_throughput"),
    ),
)

SECTIONS = (
    ("Side by side", TABLE),
    ("Differences", (_deltas(),)),
    ("On one axis", CURVES),
)

"""The Live run board: what happens now, and whether it can be believed."""

from __future__ import annotations

from grafana.panels import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    Panel,
    formula,
    grafana_unit,
    grid,
    heat_over_time,
    series,
    stats,
    steps,
    transformation,
)
from grafana.queries import (
    FAILED,
    INTERVALS,
    OK,
    PER_SECOND,
    REQUESTS,
    TOTALS,
    Target,
    count,
    matches,
    over_time,
    percentiles,
    rows,
    second_percentiles,
)

ABOUT = (
    "One run while it goes on, or afterwards: load, outcomes, speed, latency, failures. "
    "With `run` on All it shows whatever runs in the time range."
)

OUTCOMES = {"started": BLUE, "ok": GREEN, "failed": RED, "cancelled": ORANGE}
NEWEST = 5000
"""Completions of which a panel looks at each one: the newest ones of the time range."""

VERDICTS = {
    "server": ("server: the latency is the server's", GREEN),
    "mixed": ("mixed: partly the client's", ORANGE),
    "client": ("client: it was the bottleneck", RED),
    "unknown": ("unknown", "#808080"),
}


def _latency(title: str, question: str, name: str) -> Panel:
    notes = (
        f"{formula(name)}\nPercentiles by nearest rank over the ok completions that ended in each bucket: exact at any "
        "zoom, for any choice of scenario, model and step."
    )
    target = over_time(percentiles(name, 50, 90, 95, 99), "llm_request", f"{REQUESTS} AND {OK}")
    return series(title, question, notes, [target], unit=grafana_unit(name))


TRUST = (
    stats(
        "Whose latency is this?",
        "Can these numbers be believed, or was the load generator the bottleneck?",
        "The client's own verdict, from its event-loop lag and CPU (docs/record.md). Anything but server: open the Load "
        "generator board before reading on.",
        rows('LAST("verdict") AS "verdict"', "llm_interval", TOTALS),
        unit="string",
        size=(6, 4),
        fields="/^verdict$/",
        words=VERDICTS,
    ),
    stats(
        "Requests so far",
        "How many requests were started, and what became of them?",
        "started = ok + failed + cancelled + in flight, at every moment. Of the run that reported last.",
        rows(
            ", ".join(f'LAST("{name}") AS "{name}"' for name in OUTCOMES) + ', LAST("in_flight") AS "in flight"',
            "llm_interval",
            TOTALS,
        ),
        unit="locale",
        size=(9, 4),
        fields="/^(started|ok|failed|cancelled|in flight)$/",
        colours=OUTCOMES,
    ),
    stats(
        "Failed",
        "What share of the requests fails?",
        "failed / started, of the run that reported last. Red from 1 % on.",
        rows('LAST("failed") / LAST("started") AS "failed"', "llm_interval", TOTALS),
        unit="percentunit",
        size=(3, 4),
        thresholds=steps((0.000001, ORANGE), (0.01, RED)),
        fields="/^failed$/",
        decimals=2,
    ),
    stats(
        "Speed now",
        "What does the server deliver at the moment?",
        "Tokens that arrived in the last second, and ok completions in it.",
        rows('LAST("output_tps") AS "output tok/s", LAST("ok_rate") AS "ok req/s"', "llm_interval", TOTALS),
        unit="short",
        size=(6, 4),
        fields="/tok|req/",
        decimals=1,
    ),
)

LOAD = (
    series(
        "Users and requests in flight",
        "How much load is on?",
        "users: Locust users that run; in flight: requests whose answer has not ended. Of the whole run. In an open loop "
        "in flight is what the server makes of the rate.",
        [over_time('MAX("users") AS "users", MAX("in_flight") AS "in flight"', "llm_interval", TOTALS)],
        unit="short",
        size=(8, 8),
    ),
    series(
        "Requests per second",
        "Does the server keep up with what is started?",
        "Starts and ends in each second; a bucket shows their mean per second, so zooming changes nothing. started above "
        "ok + failed for long: the server falls behind.",
        [
            over_time(
                'MEAN("started_rate") AS "started", MEAN("ok_rate") AS "ok", MEAN("failed_rate") AS "failed"',
                "llm_interval",
                INTERVALS,
                "scenario",
                "model",
                "step",
                alias="$col $tag_scenario/$tag_model/$tag_step",
            )
        ],
        unit=grafana_unit("request_throughput"),
        size=(8, 8),
        renames=True,
        colours={name: OUTCOMES[name] for name in ("started", "ok", "failed")},
    ),
    series(
        "Tokens per second",
        "How fast are tokens made, and read?",
        "output: tokens of ok completions by the second of their arrival; served: of every outcome, cut-off answers too; "
        "input: prompt tokens of completions that ended. A bucket shows the mean per second.",
        [
            over_time(
                'MEAN("output_tps") AS "output", MEAN("served_tps") AS "served", MEAN("input_tps") AS "input"',
                "llm_interval",
                INTERVALS,
                "scenario",
                "model",
                "step",
                alias="$col $tag_scenario/$tag_model/$tag_step",
            )
        ],
        unit=grafana_unit("output_throughput"),
        size=(8, 8),
        right={"/^input/": grafana_unit("input_throughput")},
        renames=True,
    ),
)

LATENCY = (
    _latency("TTFT", "How long do users wait for the first word?", "ttft_s"),
    series(
        "ITL",
        "How even does the text flow?",
        f"{formula('itl_s')}\nPercentiles of each second's gaps, over all completions that ended in it. They cannot be "
        "merged afterwards, so a bucket wider than a second shows the p50 of its middle second and the p95 and p99 of "
        "its worst.",
        [over_time(second_percentiles("itl_s"), "llm_interval", INTERVALS)],
        unit=grafana_unit("itl_s"),
    ),
    _latency("TPOT", "How fast does one answer come, after its first word?", "tpot_s"),
    _latency("E2E latency", "How long until the whole answer is there?", "e2e_s"),
    heat_over_time(
        "TTFT, every request",
        "Is there one crowd of waiting times, or two?",
        f"One count for each request, on a logarithmic axis. The newest {NEWEST:,} completions of the time range. Two "
        "bands: two kinds of requests (cache hits, two replicas, a queue).",
        Target(
            f'SELECT "ttft_s" FROM "llm_request" WHERE {REQUESTS} AND {OK} AND $timeFilter ORDER BY time DESC '
            f"LIMIT {NEWEST}"
        ),
        unit=grafana_unit("ttft_s"),
        size=(16, 8),
    ),
    grid(
        "Finish reasons",
        "Do answers end by themselves, or are they cut?",
        f"Of the newest {NEWEST:,} completions of the time range. Many length: --max-tokens decides the length of the "
        "answers.",
        [
            rows(
                '"finish_reason", "request_id", "output_tokens"',
                "llm_request",
                REQUESTS,
                end=f" ORDER BY time DESC LIMIT {NEWEST}",
            )
        ],
        columns={"finish_reason": "string", "request_id (count)": "locale", "output_tokens (mean)": "short"},
        transformations=[
            transformation(
                "groupBy",
                fields={
                    "finish_reason": {"operation": "groupby", "aggregations": []},
                    "request_id": {"operation": "aggregate", "aggregations": ["count"]},
                    "output_tokens": {"operation": "aggregate", "aggregations": ["mean"]},
                },
            )
        ],
        size=(8, 8),
    ),
)

FAILURES = (
    series(
        "Failures per second, by kind",
        "What fails, and when did it begin?",
        "Failed completions by failure kind (docs/record.md), per second of the bucket, by the moment of their end.",
        [over_time(f'{PER_SECOND} AS "failed"', "llm_request", f"{REQUESTS} AND {FAILED}", "kind", alias="$tag_kind")],
        unit=grafana_unit("request_throughput"),
        bars=True,
        size=(12, 8),
    ),
    grid(
        "Failures by kind",
        "How often did what fail, and what did the server say?",
        "Counts in the time range, with the message and the HTTP status of the latest one that had any.",
        [
            rows(
                f'{count("failed")}, LAST("status") AS "status", LAST("message") AS "latest message"',
                "llm_request",
                f"{REQUESTS} AND {FAILED}",
                "kind",
            )
        ],
        columns={"kind": "string", "failed": "locale", "status": "none", "latest message": "string"},
        sort=("failed", True),
        size=(12, 8),
    ),
)

GOALS = (
    series(
        "Goodput",
        "How many answers per second are good enough?",
        "Completions per second that met every objective of --goodput, beside all ok ones. Empty when the run has none. "
        "The gap between the two is speed that no user feels.",
        [
            over_time('MEAN("goodput_rate") AS "goodput"', "llm_interval", TOTALS),
            over_time('MEAN("ok_rate") AS "ok"', "llm_interval", TOTALS),
        ],
        unit=grafana_unit("request_throughput"),
        size=(12, 8),
        colours={"goodput": GREEN, "ok": BLUE},
    ),
    grid(
        "What happened",
        "What happened when: steps, workers, objectives, warnings?",
        "The events of the run, the newest first; the same that are drawn as vertical lines in every chart.",
        [rows('"kind", "title", "text"', "llm_event", matches("run"), end=" ORDER BY time DESC LIMIT 200")],
        columns={"Time": "dateTimeAsIso", "kind": "string", "title": "string", "text": "string"},
        size=(12, 8),
    ),
)

SECTIONS = (
    ("Can it be believed?", TRUST),
    ("Load and speed", LOAD),
    ("Latency", LATENCY),
    ("Failures", FAILURES),
    ("Objectives and events", GOALS),
)

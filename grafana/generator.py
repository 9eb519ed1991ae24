"""The Load generator board: is it us?"""

from __future__ import annotations

from grafana.panels import ORANGE, RED, formula, grafana_unit, series, steps
from grafana.queries import matches, over_time, percentiles

ABOUT = (
    "The workers and the master themselves: CPU, event loop, memory, clocks, what they read, and whether every record "
    "gets away. To answer: is it us?"
)

RUN = matches("run")
COLLECTOR = f'{RUN} AND "worker" =~ /^(master|local)$/'


def _workers(title: str, question: str, notes: str, columns: str, **more: object):
    return series(
        title, question, notes, [over_time(columns, "llm_worker", RUN, "worker", alias="$tag_worker")], **more
    )


IS_IT_US = (
    _workers(
        "CPU of each process",
        "Is a worker out of CPU?",
        "Of one core; a worker is one process and has no more than 100 %. Mean of a bucket. From 75 % on the client's "
        "verdict is mixed, from 90 % on client: start more workers (docs/calibrate.md).",
        'MEAN("cpu_percent") AS "CPU"',
        unit="percent",
        thresholds=steps((75, ORANGE), (90, RED)),
    ),
    _workers(
        "Event-loop lag p99",
        "Is a worker's event loop late?",
        "Actual − planned wake-up of a timer in each second, p99; a bucket shows its worst second. Compare it with TTFT "
        "and ITL: kernel stamps keep lag out of the times, but while it is longer than an ITL tokens share reads.",
        'MAX("lag_p99_s") AS "lag"',
        unit="s",
        thresholds=steps((0.01, ORANGE), (0.05, RED)),
    ),
    _workers(
        "Event-loop lag, worst",
        "How long was a worker blocked at most?",
        "The longest single delay of each second; a bucket shows its worst second.",
        'MAX("lag_max_s") AS "lag"',
        unit="s",
    ),
    series(
        "What the client added",
        "Did requests wait inside the client before they left?",
        f"{formula('send_delay_s', 'pool_wait_s', 'client_lag_s')}\nExact percentiles over all completions of a bucket.",
        [
            over_time(
                ", ".join(
                    percentiles(name, 99).replace('"p99"', f'"{label} p99"')
                    for name, label in (
                        ("send_delay_s", "send delay"),
                        ("pool_wait_s", "pool wait"),
                        ("client_lag_s", "lag"),
                    )
                ),
                "llm_request",
                RUN,
            )
        ],
        unit=grafana_unit("send_delay_s"),
    ),
)

WORK = (
    _workers(
        "Events read per second",
        "How much does each worker read, and is it shared evenly?",
        "SSE events with text, counted when their answer ends. `llmload calibrate` says how many one worker holds.",
        'MEAN("events_per_s") AS "events"',
        unit="ops",
        size=(8, 8),
    ),
    _workers(
        "Completions per second",
        "How many answers end at each worker?",
        "Of every outcome; a bucket shows the mean per second.",
        'MEAN("completions_per_s") AS "completions"',
        unit=grafana_unit("request_throughput"),
        size=(8, 8),
    ),
    series(
        "Users and requests in flight by worker",
        "Does every worker carry its share?",
        "The last value of a bucket.",
        [
            over_time(
                'LAST("users") AS "users", LAST("in_flight") AS "in flight"',
                "llm_worker",
                RUN,
                "worker",
                alias="$tag_worker $col",
            )
        ],
        unit="short",
        size=(8, 8),
    ),
    _workers(
        "Memory of each process",
        "Does a process grow without end?",
        "Resident set size; a bucket shows its largest.",
        'MAX("rss_bytes") AS "memory"',
        unit="bytes",
    ),
    _workers(
        "Clock offset to the master",
        "Are the workers' clocks right?",
        "Worker's clock − master's, measured by message; half of the shortest way is how wrong it can be. Durations do "
        "not depend on it. Whole seconds are taken out of the records.",
        'LAST("clock_offset_s") AS "offset"',
        unit="s",
        least=None,
    ),
)

RECORDS = (
    series(
        "Waiting to be written",
        "Does the master keep up with the record and InfluxDB?",
        "Completions in the queue of the record file and points in the queue of InfluxDB; a bucket shows its largest. "
        "A queue that only grows will end in dropped points (the record is complete all the same: `llmload push`).",
        [
            over_time(
                'MAX("record_queue") AS "record", MAX("influx_queue") AS "InfluxDB"',
                "llm_worker",
                COLLECTOR,
            )
        ],
        unit="short",
    ),
    series(
        "Points written to InfluxDB per second",
        "Does every point arrive?",
        "Rise of the sink's counters per second: written, retried, dropped. Dropped is above 0: these boards miss "
        "points, the record does not.",
        [
            over_time(
                ", ".join(
                    f'NON_NEGATIVE_DERIVATIVE(MAX("influx_{name}"), 1s) AS "{name}"'
                    for name in ("written", "retried", "dropped")
                ),
                "llm_worker",
                COLLECTOR,
                "run",
            )
        ],
        unit="wps",
        colours={"dropped": RED, "retried": ORANGE, "written": "green"},
    ),
)

SECTIONS = (("Is it us?", IS_IT_US), ("What the workers do", WORK), ("Does every record get away?", RECORDS))

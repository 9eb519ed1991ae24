"""The Grafana boards: fresh, well-formed, and every query answered by a real InfluxDB that holds real runs."""

import json
import re

import jsonschema
import pytest
import yaml

from grafana.boards import BOARDS
from grafana.files import GUIDE, board_path, rendered, rendered_guide
from grafana.queries import INTERVALS
from llmload.mock.process import MockProcess
from tests.grafana_macros import ALL, substitute
from tests.influx import shared_influx
from tests.locusts import ROOT, run_locust

DASHBOARDS = {board.uid: json.loads(board_path(board).read_text(encoding="utf-8")) for board in BOARDS}
SOURCE = {"type": "influxdb", "uid": "llmload-influxdb"}
EVERYTHING = (ALL, ".*")
MODEL = 'it\'s a "m\\w", 2.5/7b* (chat) [q4]|$x \U0001f600'
"""A model's name may be any text."""
MISSING_IN_3 = re.compile(r"\b(SLIMIT|SHOW SERIES|INTEGRAL|SAMPLE|HISTOGRAM)\b", re.IGNORECASE)
"""What InfluxDB 3 Core's InfluxQL lacks."""


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries():
    """Every query of every panel: (board, panel, letter, text)."""
    return [
        (uid, panel["title"], target["refId"], target["query"])
        for uid, dashboard in DASHBOARDS.items()
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A real InfluxDB with a sweep and two plain runs, failures included; their ids and the time range."""
    influx = shared_influx(tmp_path_factory.mktemp("influx"))
    faults = ("--fault", "http_500=0.15", "--fault", "cut=0.05")
    with MockProcess(
        "--model", MODEL, "--ttft-ms", "20", "--itl-ms", "3", "--tokens", "8", "--seed", "3", *faults
    ) as mock:
        common = ("--host", mock.url, "--model", MODEL, "--goodput", "ttft:500", "--no-probe")
        plain = ("-u", "4", "-r", "4", "-t", "3s", "--processes", "2", *common)
        runs = [
            run_locust(tmp_path_factory.mktemp("run"), *options, env=influx.env)
            for options in (("--sweep", "2,4", "--step-time", "3s", "--settle", "1s", *common), plain, plain)
        ]
    starts = [run.about["started_at"] for run in runs]
    yield (
        influx,
        [run.summary["run"]["id"] for run in runs],
        (int(min(starts) * 1e3) - 1000, int(starts[-1] * 1e3) + 60_000),
    )
    influx.kill()


def chosen(uid, runs):
    """The values of a board's variables for these runs."""
    run = runs[1] if uid == "llmload-generator" else runs[0]  # a local run has no clocks that could differ
    values = {"run": run, "scenario": EVERYTHING, "model": EVERYTHING, "step": EVERYTHING}
    return values | ({"run": [runs[2]], "baseline": runs[1]} if uid == "llmload-compare" else {})


def test_the_files_are_fresh():
    """What is committed is what the builders make."""
    for board in BOARDS:
        assert board_path(board).read_text(encoding="utf-8") == rendered(board)
    assert GUIDE.read_text(encoding="utf-8") == rendered_guide(BOARDS)


def test_every_query_returns_rows(stored):
    """Each target of each panel, macros and variables filled in, has rows in a real InfluxDB after real runs."""
    influx, runs, (from_ms, to_ms) = stored
    found = {}
    for uid, title, letter, text in queries():
        asked = substitute(text, chosen(uid, runs), from_ms=from_ms, to_ms=to_ms)
        found[uid, title, letter] = len(influx.query(asked))
    for (uid, title, letter), rows in found.items():
        print(f"{uid:<20} {title:<50} {letter} {rows:>5} rows")
    assert [key for key, rows in found.items() if not rows] == []


@pytest.mark.parametrize(
    ("values", "has_rows"),
    [
        ({"model": MODEL}, True),
        ({"model": [MODEL, "another's"]}, True),
        ({"scenario": "Chat", "model": MODEL, "step": "4"}, True),
        ({"model": MODEL.replace("7b*", "7bb")}, False),
        ({"model": "another's"}, False),
        ({"scenario": "Cha"}, False),
        ({"step": "[24]"}, False),
    ],
    ids=["model", "two models", "all three", "nearly", "another", "scenario", "step"],
)
def test_a_choice_is_taken_literally(stored, values, has_rows):
    """A model with quotes, brackets and slashes in its name is found, alone, among others and with the rest chosen;
    no panel takes a name for a pattern, or part of one for all of it."""
    influx, runs, (from_ms, to_ms) = stored
    wrong = []
    for uid, title, letter, text in queries():
        if uid in ("llmload-live", "llmload-capacity") and all(f"${{{name}:regex}}" in text for name in values):
            asked = substitute(text, chosen(uid, runs) | values, from_ms=from_ms, to_ms=to_ms)
            if bool(influx.query(asked)) is not has_rows:
                wrong.append((uid, title, letter, asked))
    assert wrong == []


def test_a_choice_of_scenario_and_step_narrows_the_panels(stored):
    """With a scenario, a model or a step chosen instead of All, the Live run board still has rows, fewer of them."""
    influx, runs, (from_ms, to_ms) = stored
    narrow = {"run": runs[0], "scenario": "Chat", "model": MODEL, "step": "4"}
    text = next(text for uid, title, _, text in queries() if uid == "llmload-live" and title == "Tokens per second")
    some, every = (
        influx.query(substitute(text, values, from_ms=from_ms, to_ms=to_ms))
        for values in (narrow, chosen("llmload-live", runs))
    )
    assert 0 < len(some) < len(every)


def test_rows_over_all_and_rows_of_a_choice_are_never_mixed(stored):
    """Tokens of a run are its total, once: with "All" from the row over all, with a choice from those of the parts."""
    influx, runs, (from_ms, to_ms) = stored
    text = f'SELECT SUM("served_tps") AS "n" FROM "llm_interval" WHERE {INTERVALS} AND $timeFilter'
    every = {"run": runs[1], "scenario": EVERYTHING, "model": EVERYTHING, "step": EVERYTHING}
    one_of = ({"scenario": "Chat"}, {"model": MODEL}, {"model": [MODEL, "x"]}, {"scenario": "Chat", "model": MODEL})
    sums = {
        influx.query(substitute(text, every | choice, from_ms=from_ms, to_ms=to_ms))[0]["n"] for choice in ({}, *one_of)
    }
    tokens = influx.query(f"SELECT SUM(output_tokens) AS n FROM llm_request WHERE run = '{runs[1]}'")[0]["n"]
    assert sums == {tokens}


def test_several_runs_are_compared(stored):
    """Two chosen runs and a baseline are three rows of the table."""
    influx, runs, (from_ms, to_ms) = stored
    text = next(text for uid, title, _, text in queries() if uid == "llmload-compare" and title == "Runs")
    values = {"run": [runs[0], runs[2]], "baseline": runs[1]}
    found = influx.query(substitute(text, values, from_ms=from_ms, to_ms=to_ms))
    assert sorted(row["run"] for row in found) == sorted(runs)


def test_every_variable_in_a_query_has_the_safe_format():
    """Grafana's other formats break InfluxQL at a quote or a backslash in a name."""
    texts = [text for *_, text in queries()]
    texts += [one["query"] for board in DASHBOARDS.values() for one in board["templating"]["list"]]
    for text in texts:
        left = re.sub(r"[=!]~ /\^\$\{\w+:regex\}\$/|\$timeFilter|\$__interval(_ms)?", "", text)
        assert not re.search(r"\$[\w{]|\[\[", left), left


def test_variables_and_annotations_return_rows(stored):
    """Every variable has values, and the run's events are annotations."""
    influx, runs, (from_ms, to_ms) = stored
    for uid, dashboard in DASHBOARDS.items():
        values = chosen(uid, runs)
        for variable in dashboard["templating"]["list"]:
            text = substitute(variable["query"], values, from_ms=from_ms, to_ms=to_ms)
            assert influx.query(text), (uid, variable["name"])
        (events,) = [one for one in dashboard["annotations"]["list"] if one.get("target")]
        text = substitute(events["target"]["query"], chosen("", runs), from_ms=from_ms, to_ms=to_ms)
        assert {"run_start", "step", "run_end"} <= {row["kind"] for row in influx.query(text)}


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_panels_are_placed_named_and_explained(uid):
    """Ids are unique, no two panels overlap, and each has a title, a description, a unit and our data source."""
    dashboard = DASHBOARDS[uid]
    assert "__inputs" not in dashboard, "GRF-01"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    for panel in panels(dashboard):
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"] == SOURCE
        assert all(target["datasource"] == SOURCE for target in panel["targets"])
        assert re.search(r'"unit": "\w', json.dumps(panel)), panel["title"]


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_boards_follow_grafanas_own_types(uid):
    """Grafana's types for a dashboard, and for the options and fields of each kind of panel, take every board.

    An annotation's target is InfluxDB's own query, which the type, made for Grafana's built-in source, does not know.
    """
    types = json.loads((ROOT / "tests/data/grafana-12.4.schema.json").read_text())
    dashboard = json.loads(json.dumps(DASHBOARDS[uid]))
    for one in dashboard["annotations"]["list"]:
        del one["target"]
    found = [error.message for error in jsonschema.Draft7Validator(types["dashboard"]).iter_errors(dashboard)]
    for panel in panels(dashboard):
        own = {"options": panel["options"], "custom": panel["fieldConfig"]["defaults"].get("custom")}
        for part, value in own.items():
            if panel["type"] in types[part] and value is not None:
                errors = jsonschema.Draft7Validator(types[part][panel["type"]]).iter_errors(value)
                found += [f"{panel['title']}: {error.message}" for error in errors]
    assert found == []


def test_queries_are_the_dialect_of_all_three():
    """GRF-06: InfluxQL without what InfluxDB 3 lacks; rates are per second whatever the zoom; buckets leave no gaps."""
    for uid, title, _, text in queries():
        assert not MISSING_IN_3.search(text), (uid, title)
        assert "$timeFilter" in text
        if "time($__interval)" in text:
            assert text.endswith("fill(none)"), (uid, title)


def test_provisioning_names_the_source_that_the_boards_use():
    """GRF-01: the data source's uid is the boards', every key is one that Grafana documents."""
    source = yaml.safe_load((ROOT / "grafana/provisioning/datasources/influxdb.yaml").read_text())
    (one,) = source["datasources"]
    assert (source["apiVersion"], one["type"], one["uid"]) == (1, SOURCE["type"], SOURCE["uid"])
    documented = {
        "name", "type", "access", "orgId", "uid", "url", "user", "database", "basicAuth", "basicAuthUser",
        "withCredentials", "isDefault", "jsonData", "secureJsonData", "version", "editable",
    }  # fmt: skip
    assert set(one) <= documented
    provider = yaml.safe_load((ROOT / "grafana/provisioning/dashboards/llmload.yaml").read_text())
    (folder,) = provider["providers"]
    assert set(folder) <= {
        "name", "orgId", "folder", "folderUid", "type", "disableDeletion", "updateIntervalSeconds", "allowUiUpdates",
        "options",
    }  # fmt: skip


def test_boards_link_to_each_other_in_the_same_time():
    """GRF-07: each board leads to the other three with time range and variables."""
    for uid, dashboard in DASHBOARDS.items():
        links = {link["url"]: (link["keepTime"], link["includeVars"]) for link in dashboard["links"]}
        assert links == {f"/d/{other}": (True, True) for other in DASHBOARDS if other != uid}

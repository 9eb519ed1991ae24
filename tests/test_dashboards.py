"""The Grafana boards: fresh, well-formed, and every query answered by a real InfluxDB that holds real runs."""

import json
import re

import jsonschema
import pytest
import yaml

from grafana.boards import BOARDS
from grafana.files import GUIDE, board_path, rendered, rendered_guide
from llmload.mock.process import MockProcess
from tests.grafana_macros import ALL, substitute
from tests.influx import shared_influx
from tests.locusts import ROOT, run_locust

DASHBOARDS = {board.uid: json.loads(board_path(board).read_text(encoding="utf-8")) for board in BOARDS}
SOURCE = {"type": "influxdb", "uid": "llmload-influxdb"}
EVERYTHING = (ALL, ".*")
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
    with MockProcess("--ttft-ms", "20", "--itl-ms", "3", "--tokens", "8", "--seed", "3", *faults) as mock:
        common = ("--host", mock.url, "--model", "mock", "--goodput", "ttft:500", "--no-probe")
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
        values = chosen(uid, runs) | ({"run": runs[2]} if uid == "llmload-compare" and ":raw" in text else {})
        asked = substitute(text, values, from_ms=from_ms, to_ms=to_ms)
        found[uid, title, letter] = len(influx.query(asked))
    for (uid, title, letter), rows in found.items():
        print(f"{uid:<20} {title:<50} {letter} {rows:>5} rows")
    assert [key for key, rows in found.items() if not rows] == []


def test_a_choice_of_scenario_and_step_narrows_the_panels(stored):
    """With a scenario, a model or a step chosen instead of All, the Live run board still has rows, fewer of them."""
    influx, runs, (from_ms, to_ms) = stored
    narrow = {"run": runs[0], "scenario": "Chat", "model": "mock", "step": "4"}
    text = next(text for uid, title, _, text in queries() if uid == "llmload-live" and title == "Tokens per second")
    some, every = (
        influx.query(substitute(text, values, from_ms=from_ms, to_ms=to_ms))
        for values in (narrow, chosen("llmload-live", runs))
    )
    assert 0 < len(some) < len(every)


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

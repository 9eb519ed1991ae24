"""The report files of real runs: HTML, Markdown, JUnit, JSON, CSV, all from one frozen summary."""

import csv
import html
import io
import json
import re
import xml.etree.ElementTree as Xml
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from junitparser import Failure, JUnitXml
from markdown_it import MarkdownIt

from llmload.cli.main import main
from llmload.metrics.details import Details
from llmload.metrics.findings import findings
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.mock.process import MockProcess
from llmload.reports import html as page
from llmload.reports import junit, markdown
from llmload.reports.files import DEFAULT, RENDER, write_all
from llmload.reports.github import publish
from llmload.reports.schema import summary_schema
from llmload.sinks.record import read_run
from tests.browser import Browser
from tests.locusts import ROOT, check_ledger, run_locust

OUTCOMES = ("ok", "failed", "cancelled")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run with failures, a missed and a met objective."""
    mock = ("--ttft-ms", "40", "--itl-ms", "4", "--tokens", "8", "--fault", "http_429=0.2", "--seed", "3")
    with MockProcess(*mock) as server:
        return run_locust(
            tmp_path_factory.mktemp("reports"), "-u", "4", "-r", "4", "-t", "3s", "--host", server.url,
            "--model", "mock", "--slo", "p50(ttft) < 1ms; error_rate < 90%",
        )  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A short sweep."""
    with MockProcess("--ttft-ms", "20", "--itl-ms", "2", "--tokens", "8", "--slots", "2", "--seed", "3") as server:
        return run_locust(
            tmp_path_factory.mktemp("sweep"), "--sweep", "1,4", "--step-time", "2s", "--settle", "0",
            "--host", server.url, "--model", "mock",
        )  # fmt: skip


def parts(locust):
    """Return (summary, run.json, details) of a run."""
    info, completions, _ = read_run(locust.run)
    completions = list(completions)
    return summarise(Tallies(completions), info), info, Details(completions)


def test_a_run_writes_its_reports_and_the_command_writes_the_same(ran, swept, tmp_path):
    """report.html, report.md and junit.xml are there after the run, and come out of the record byte for byte."""
    for locust in (ran, swept):
        out = tmp_path / locust.run.name
        assert main(["report", str(locust.run), "--html", "--md", "--junit", "--json", "--out", str(out)]) == 0
        for name in (RENDER[one][0] for one in (*DEFAULT, "json")):
            assert (out / name).read_bytes() == (locust.run / name).read_bytes()


def test_the_text_at_the_end_is_the_text_of_the_command(ran, capsys):
    """What the run printed is what `llmload report` prints, findings included."""
    assert main(["report", str(ran.run)]) == 0
    printed = capsys.readouterr().out.strip()
    assert printed in ran.text
    assert "finding: The server refused requests with 429" in printed


def test_junit_is_read_by_a_public_parser(ran):
    """Validity, the client and each objective are test cases; the missed one is the failure."""
    suites = JUnitXml.fromfile(str(ran.run / "junit.xml"))
    cases = {case.name: case for suite in suites for case in suite}
    assert list(cases) == [
        "the run is valid", "the client was not the limit", "p50(ttft) < 1ms", "error_rate < 90%",
    ]  # fmt: skip
    failed = [name for name, case in cases.items() if any(isinstance(one, Failure) for one in case.result)]
    assert failed == ["p50(ttft) < 1ms"]
    assert (suites.tests, suites.failures) == (4, 1)


def test_the_json_follows_its_schema(ran, swept):
    """summary.json of real runs is valid under docs/summary.schema.json, which is fresh and takes no unknown key."""
    schema = json.loads((ROOT / "docs" / "summary.schema.json").read_text())
    assert schema == summary_schema()
    validator = jsonschema.Draft202012Validator(schema)
    for locust in (ran, swept):
        assert [error.message for error in validator.iter_errors(locust.summary)] == []
    assert not validator.is_valid({**ran.summary, "surprise": 1})


def test_totals_in_every_format_are_those_of_the_record(ran, tmp_path):
    """Counts by outcome are the same in completions.jsonl, JSON, both CSVs, JUnit, Markdown, HTML and vLLM's words."""
    ledger = check_ledger(ran)
    assert main(["report", str(ran.run), "--csv", "--format", "vllm", "--out", str(tmp_path)]) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "completions.csv").read_text())))
    assert {one: sum(row["outcome"] == one for row in rows) for one in OUTCOMES} == {
        one: ledger[one] for one in OUTCOMES
    }
    numbers = {
        row["name"]: int(row["value"])
        for row in csv.DictReader(io.StringIO((tmp_path / "summary.csv").read_text()))
        if (row["scope"], row["section"]) == ("run", "ledger")
    }
    assert numbers == ledger
    theirs = json.loads((tmp_path / "vllm.json").read_text())
    assert (theirs["completed"], theirs["failed"], theirs["num_prompts"]) == (
        ledger["ok"], ledger["failed"], ledger["started"],
    )  # fmt: skip
    assert theirs["total_output_tokens"] == sum(line.get("output_tokens", 0) for line in ran.completions)
    assert theirs["median_ttft_ms"] == pytest.approx(ran.summary["metrics"]["ttft_s"]["p50"] * 1e3)
    properties = Xml.parse(ran.run / "junit.xml").iter("property")
    assert {one.get("name"): one.get("value") for one in properties}["requests.ok"] == str(ledger["ok"])
    for name in ("report.md", "report.html"):
        assert re.search(rf"\b{ledger['ok']:,}\b", html.unescape((ran.run / name).read_text()))


def test_the_markdown_is_markdown(ran):
    """It renders to tables and a heading; what a server sent stays text."""
    rendered = MarkdownIt("gfm-like", {"linkify": False}).render((ran.run / "report.md").read_text())
    assert rendered.count("<table>") >= 3
    assert "p50(ttft) &lt; 1ms" in rendered


HOSTILE = "<script>alert(1)</script>\"'`|*[x](javascript:1) ]]> \u202e --> </style>"


def test_hostile_text_is_escaped(ran):
    """A model, a scenario and an error message full of markup are text in every format."""
    info, completions, _ = read_run(ran.run)
    bad = [
        replace(one, scenario=HOSTILE, model=HOSTILE, message=HOSTILE, finish_reason=HOSTILE if one.ttft_s else None)
        for one in completions
    ]
    info = {**info, "settings": {**info["settings"], "model": HOSTILE}}
    summary, details = summarise(Tallies(bad), info), Details(bad)
    text = page.render(summary, info, details)
    assert "<script>alert" not in text
    assert text.count("<script") == text.count("</script>")
    assert "&lt;script&gt;alert(1)" in text
    rendered = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(
        markdown.render(summary, findings(summary, details))
    )
    assert "<script" not in rendered
    assert 'href="javascript' not in rendered
    Xml.fromstring(junit.render(summary, info))


def test_a_browser_shows_it_offline_and_without_scripts(ran, swept):
    """No console errors and no request, charts are drawn; without scripts the tables are there; nothing is too wide."""
    looks = {"Failures": ((1, 1280), (1, 390), (0, 1280)), "Sweep over users": ((1, 1280), (0, 390))}
    for locust, own in ((ran, "Failures"), (swept, "Sweep over users")):
        with Browser() as browser:
            for scripts, width in looks[own]:
                seen = browser.look(f"file://{locust.run}/report.html", width, scripts)
                assert seen["trouble"] == []
                assert seen["wide"] <= width
                assert seen["tables"] >= 6
                assert {"Latency and tokens", "Load generator", own} <= set(seen["headings"])
                assert bool(seen["charts"]) == bool(scripts)


def test_a_folder_that_cannot_be_written_is_one_line(ran, tmp_path, capsys):
    """The command says where and what to do, and ends with 2; at the end of a run it is a problem, no exception."""
    (tmp_path / "file").write_text("")
    assert main(["report", str(ran.run), "--html", "--out", str(tmp_path / "file" / "x")]) == 2
    assert capsys.readouterr().err.startswith("llmload report: cannot write")
    gone = write_all(tmp_path / "no run here", ran.summary)
    assert gone.paths == []
    assert len(gone.problems) == 1


def test_github_gets_a_summary_and_annotations(ran, tmp_path):
    """The job's summary is appended to, missed objectives are errors, and a line break in a reason is no command."""
    summary, _, details = parts(ran)
    found, out, path = findings(summary, details), io.StringIO(), tmp_path / "summary.md"
    path.write_text("before\n")
    summary["run"].update(valid=False, reasons=["two\n::error::lines"])
    environ = {"GITHUB_STEP_SUMMARY": str(path), "GITHUB_ACTIONS": "true"}
    assert publish(summary, found, environ, out) == []
    assert path.read_text() == f"before\n{markdown.render(summary, found)}\n"
    lines = out.getvalue().splitlines()
    assert lines[0] == "::error title=run not valid::two%0A%3A%3Aerror%3A%3Alines"
    assert lines[1].startswith("::error title=objective missed::p50(ttft) < 1ms%3A it was")
    assert publish(summary, found, {}, out) == []
    assert publish(summary, found, {"GITHUB_STEP_SUMMARY": "/nowhere/x"}, out) == [
        "GITHUB_STEP_SUMMARY /nowhere/x cannot be written (No such file or directory)"
    ]


def test_the_reports_hold_no_secret(tmp_path):
    """SEC-01: a key and a password in the address are in none of the files."""
    with MockProcess("--ttft-ms", "0", "--itl-ms", "0", "--tokens", "2", "--api-key", "sk-hidden-7") as server:
        host = server.url.replace("http://", "http://alice:s3cret-9@")
        locust = run_locust(
            tmp_path, "-u", "1", "-t", "1s", "--host", host, "--model", "mock", "--header", "X-Token: t0ken-5",
            env={"LLMLOAD_API_KEY": "sk-hidden-7"},
        )  # fmt: skip
    files = [path for path in Path(locust.run).iterdir() if path.is_file()]
    assert {path.name for path in files} >= {"report.html", "report.md", "junit.xml", "series.jsonl"}
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not any(secret in text for secret in ("sk-hidden-7", "s3cret-9", "t0ken-5")), path

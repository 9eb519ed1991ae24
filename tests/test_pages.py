"""The pages of compare, history and A/B in a real browser: one style with the report, no scripts, usable on a phone."""

import random
import re
from dataclasses import replace
from html import unescape

import pytest

from bench.madeup import START_NS, completions, write
from llmload.cli.main import main
from llmload.metrics.goodput import marked, parse_goodput
from llmload.sinks.record import RunRecord
from tests.browser import Browser

LIGHT, DARK = "rgb(255, 255, 255)", "rgb(13, 17, 23)"
LONG = "20261201T120000Z-" + "anamewithoutanyplacetobreakthatiswiderthanaphone" * 2


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Each page by its name, of runs with long names, rules and a row without a verdict."""
    folder = tmp_path_factory.mktemp("pages")
    limits = "e2e:650"
    for at in range(6):
        made = marked(completions(at, n=300, slower=at / 20), parse_goodput(limits))
        write(folder / "runs", f"{at}-{LONG}", made, goodput=limits)
    runs = sorted(str(one) for one in (folder / "runs").iterdir())
    rules = ("--fail-on", "itl p50 worse by 5%", "--fail-on", "ttfa p50 worse", "--fail-on", "ttft p95 worse by 90%")
    assert main(["compare", runs[0], runs[5], runs[1], *rules, "--html", str(folder / "compare.html")]) == 3
    assert main(["history", str(folder / "runs"), "--html", str(folder / "history.html")]) == 0
    assert main(["compare", "--arms", str(arms(folder)), "--html", str(folder / "arms.html")]) == 0
    return {name: folder / f"{name}.html" for name in ("compare", "history", "arms")}


def arms(folder):
    """Write an A/B run: arm B answers the same prompts 20 % slower."""
    rng, record = random.Random(3), RunRecord.create(folder, "ab")
    for at, one in enumerate(completions(3, 80)):
        for place, name in enumerate(("A", "B")):
            share = rng.gauss(1, 0.05) * (1.2 if name == "B" else 1)
            times = {field: getattr(one, field) * share for field in ("ttft_s", "e2e_s", "closed_s")}
            started_ns = START_NS + (at * 20 + place * 10) * 10**9
            arm = replace(one, id=f"{name}{at}", scenario=name, started_unix_ns=started_ns, **times)
            record.write([arm.to_dict()])
    about = {"id": "ab", "started_at": START_NS / 1e9, "ended_at": START_NS / 1e9 + 1700, "valid": True, "reasons": []}
    record.write_run({**about, "arms": {"A": {}, "B": {"http2": True, "host": "http://127.0.0.1:8001"}}})
    record.close()
    return record.path


SHOWN = {
    "compare": (["1 of 3 rules failed", "worse: ITL mean, ITL p50"], 2),
    "history": (["Metrics", "Runs"], 1),
    "arms": (["Arms", "B against A: 80 pairs"], 2),
}
"""Page → begins of its headings, visible tables."""


@pytest.mark.parametrize("name", list(SHOWN))
def test_a_page_is_whole_at_any_width_and_without_scripts(pages, name):
    """No console errors, no request, nothing too wide; light, dark and white paper; the tables need no scripts."""
    headings, tables = SHOWN[name]
    with Browser() as browser:
        for scripts, width in ((1, 1280), (1, 390), (0, 390)):
            seen = browser.look(f"file://{pages[name]}", width, scripts)
            assert seen["trouble"] == []
            assert seen["wide"] <= width
            assert seen["tables"] == tables
            assert [one for one in headings if not any(one in text for text in seen["headings"])] == []
            assert seen["papers"] == ([LIGHT, DARK, LIGHT] if scripts else [])
            assert seen["cells"]


@pytest.mark.parametrize("name", list(SHOWN))
def test_a_page_has_the_style_of_the_report_and_no_script(pages, name):
    """One style sheet, a policy that forbids everything else, and no script at all."""
    text = unescape(pages[name].read_text())
    assert "<script" not in text
    assert "default-src 'none'; script-src 'none'" in text
    assert text.count("<style>") == 1
    assert "--paper: #0d1117" in text


def test_the_rows_say_what_the_text_says(pages):
    """The page's tables hold the rows of the text, in the order of a phone: the verdict beside the metric."""
    with Browser() as browser:
        cells = browser.look(f"file://{pages['compare']}", 1280, 1)["cells"]
    itl = next(row for row in cells if row[0] == "ITL p50")
    assert itl[1] == "worse"
    assert re.fullmatch(r"\+2\d\.\d %", itl[2])
    assert itl[7:] == ["5,700", "5,700"]
    assert all(len(row) == 9 for row in cells)
    goodput = next(row for row in cells if row[0] == "goodput")
    assert goodput[1] == "worse"
    assert goodput[2].endswith(" pt")


def test_a_run_without_a_value_is_a_gap_in_the_line(tmp_path):
    """The line of a metric does not pass over a run that is not valid."""
    for at, valid in enumerate((True, True, False, True)):
        run = write(tmp_path, f"r{at}", completions(at, n=60))
        if not valid:
            path = run / "summary.json"
            path.write_text(path.read_text().replace('"valid": true', '"valid": false'))
    assert main(["history", str(tmp_path), "--html", str(tmp_path / "h.html")]) == 0
    line = re.search(r'class="line" d="([^"]*)"', (tmp_path / "h.html").read_text()).group(1)
    assert re.fullmatch(r"M0\.0 [\d.]+L333\.3 [\d.]+M1000\.0 [\d.]+", line)

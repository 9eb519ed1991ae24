"""The load generator in the report: users, CPU, loop lag and memory over time, from a record's series.jsonl."""

import json
import re

import pytest

from llmload.cli.main import main
from llmload.metrics.details import Details
from llmload.metrics.processes import MAX_LOOKS, Processes
from llmload.records import Completion
from llmload.reports.charts import over_time, time_axis
from llmload.reports.generator import generator, table
from llmload.sinks.archive import archive_run
from llmload.sinks.record import RunRecord, read_run
from llmload.sinks.replay import read_processes
from tests.browser import Browser

T0 = 1_800_000_000
MIB = 1 << 20


def look(worker, at_s, **fields):
    """Return a line of series.jsonl."""
    point = {"measurement": "llm_worker", "time_ns": round((T0 + at_s) * 1e9), "tags": {"run": "r", "worker": worker}}
    return json.dumps({**point, "fields": fields}) + "\n"


def answer(number, at_s, step):
    """Return a completion of 1.5 s."""
    return Completion(
        id=f"r-w1-{number}", scenario="Chat", model="m", worker="w1", outcome="ok", step=step,
        started_unix_ns=round((T0 + at_s) * 1e9), ttft_s=0.5, e2e_s=1.5, closed_s=1.5, gaps_us=(500_000, 500_000),
        output_tokens=3, token_events=3, usage_source="server", burst_share=0.0,
    )  # fmt: skip


SERIES = "".join(
    [
        '{"measurement":"llm_event","time_ns":1800000000000000000,"tags":{"kind":"run_start"},"fields":{"title":""}}\n',
        look("w1", 1.0, users=2, in_flight=1, cpu_percent=40.0, lag_max_s=0.002, rss_bytes=60 * MIB),
        look("w2", 1.1, users=1, in_flight=1, cpu_percent=20.0, lag_max_s=0.001, rss_bytes=50 * MIB),
        look("local", 1.2, record_queue=3),
        look("master", 1.2, cpu_percent=5.0, rss_bytes=90 * MIB),
        look("w1", 2.0, users=4, in_flight=3, cpu_percent=80.0, lag_max_s=0.013, rss_bytes=61 * MIB),
        look("w2", 3.0, users=0, in_flight=0, cpu_percent=30.0, lag_max_s=0.004, rss_bytes=50 * MIB),
    ]
)


@pytest.fixture
def record(tmp_path):
    """A run of two steps with the series above."""
    record = RunRecord.create(tmp_path, "20270115T080000Z-0001")
    record.write([answer(1, 0.2, "2").to_dict(), answer(2, 2.3, "4").to_dict()])
    about = {"id": "r", "started_at": T0, "ended_at": T0 + 5, "ended_by": "run time", "valid": True, "reasons": []}
    record.write_run({**about, "started": 2})
    record.close()
    (record.path / "series.jsonl").write_text(SERIES)
    return record.path


def details(path):
    """Return the details of a record, its processes included."""
    found = Details(read_run(path)[1])
    found.processes = read_processes(path)
    return found


def lines(chart):
    """Return a chart's lines by name: (seconds of the run, value)."""
    return {one["name"]: [(x / 1000 - T0, y) for x, y in zip(one["x"], one["y"], strict=True)] for one in chart.data}


def test_users_stand_beside_the_requests_in_flight(record):
    """Users are the sum over the processes of the last look at each; a look tells of the second that it ends."""
    found = details(record)
    chart = next(one for one in over_time(found, time_axis(found)) if one.id == "in-flight")
    assert lines(chart) == {
        "in flight": [(0, 1), (1, 0), (2, 1), (3, 0)],
        "users": [(0, 3), (1, 5), (2, 4)],
    }
    assert list(found.processes.load("in_flight")) == [(T0, 2), (T0 + 1, 4), (T0 + 2, 3)]


def test_each_process_has_its_line(record):
    """CPU in percent, lag in milliseconds, memory in MiB; a process without a value has no line, its colour stays."""
    found = details(record)
    cpu, lag, memory = generator(found.processes, time_axis(found))
    assert lines(cpu) == {"master": [(0, 5)], "w1": [(0, 40), (1, 80)], "w2": [(0, 20), (2, 30)]}
    assert lines(lag) == {"w1": [(0, 2), (1, 13)], "w2": [(0, 1), (2, 4)]}
    assert lines(memory) == {"master": [(0, 90)], "w1": [(0, 60), (1, 61)], "w2": [(0, 50), (2, 50)]}
    colours = [{one["name"]: one["line"] for one in chart.data} for chart in (cpu, lag, memory)]
    assert all(one["w1"] == colours[0]["w1"] and one["w2"] == colours[0]["w2"] for one in colours)
    assert cpu.summary == "Highest CPU, per second. From 75 % on the client is in doubt, from 90 % on it is the limit."


def test_the_table_has_every_process_exactly(record):
    """Means and maxima of all looks; what was never seen is None."""
    w1 = {"users": 4, "in_flight": 3, "cpu_mean": 60, "cpu_max": 80, "lag_max_s": 0.013, "memory_mib": 61}
    w2 = {"users": 1, "in_flight": 1, "cpu_mean": 25, "cpu_max": 30, "lag_max_s": 0.004, "memory_mib": 50}
    none = dict.fromkeys(("users", "in_flight", "lag_max_s"))
    assert table(details(record).processes) == [
        {"name": "master", "looks": 1, **none, "cpu_mean": 5, "cpu_max": 5, "memory_mib": 90},
        {"name": "w1", "looks": 2, **w1},
        {"name": "w2", "looks": 2, **w2},
    ]


def test_all_charts_over_time_share_one_axis(record):
    """Range and steps are the same in each, so that a step stands at one place, also where looks end earlier."""
    found = details(record)
    axis = time_axis(found)
    charts = [*over_time(found, axis), *generator(found.processes, axis)]
    assert len(charts) == 10
    assert [one.layout["xaxis"] for one in charts] == [charts[0].layout["xaxis"]] * 10
    assert charts[0].layout["xaxis"]["range"] == [T0 * 1000 - 500, T0 * 1000 + 3500]
    marks = [(one["x"] - T0 * 1000, one["text"]) for one in charts[-1].layout["annotations"]]
    assert marks == [(200, "2"), (2300, "4")]
    assert all(one.layout["shapes"] == charts[0].layout["shapes"] for one in charts)


def test_what_is_gone_has_no_users():
    """A process that was not looked at for 10 s counts no more, and its line is broken."""
    found = Processes()
    for at_s in (1, 2, 14, 15):
        found.take("w1", (T0 + at_s) * 10**9, {"users": 2})
    for at_s in range(1, 16):
        found.take("w2", (T0 + at_s) * 10**9, {"users": 1})
    users = [(second - T0, value) for second, value in found.load("users")]
    assert users == [*((at_s, 3) for at_s in range(11)), (11, 1), (12, 1), (13, 3), (14, 3)]
    assert [(at - T0, value) for at, value in found.line("w1", "users")] == [
        (0, 2),
        (1, 2),
        (2, None),
        (13, 2),
        (14, 2),
    ]


def test_what_is_no_number_is_missing():
    """NaN, infinity, negative values, texts, and whole numbers of hundreds of digits are no values."""
    found = Processes()
    for value in (float("nan"), float("inf"), -1, "7", True, None, 10**400, [1]):
        found.take("w", T0 * 10**9, {"cpu_percent": value})
    assert found.by_name == {}
    found.take("w", T0 * 10**9, {"cpu_percent": 7, "users": "x"})
    assert table(found)[0] == {
        "name": "w", "looks": 1, "users": None, "in_flight": None, "cpu_mean": 7, "cpu_max": 7, "lag_max_s": None,
        "memory_mib": None,
    }  # fmt: skip


def test_a_long_run_stays_small():
    """Slots double when there are too many: counts keep their last value, the others their highest."""
    found = Processes()
    for at_s in range(3000):
        found.take("w", (T0 + at_s) * 10**9 + 10**9, {"users": at_s, "cpu_percent": at_s % 4})
    assert found.width == 4
    assert len(found.seconds()) == 750
    assert list(found.load("users"))[:2] == [(T0, 3), (T0 + 4, 7)]
    assert {value for _, value in found.line("w", "cpu_percent")} == {3}
    assert table(found)[0] | {"looks": 3000, "users": 2999, "cpu_mean": 1.5, "cpu_max": 3} == table(found)[0]


def test_many_processes_stay_small_and_the_busiest_are_drawn():
    """Six lines at most, and the chart says so; the table has all; what is kept of all together is bounded."""
    found, count = Processes(), 400
    for at_s in range(1000):
        for number in range(count):
            found.take(f"w{number:03}", (T0 + at_s) * 10**9 + 10**9, {"cpu_percent": number % 50, "users": 1})
    assert sum(len(one.slots) for one in found.by_name.values()) <= MAX_LOOKS
    assert found.width == 4
    assert {users for _, users in found.load("users")} == {count}
    evidence = Details()
    evidence.processes = found
    (cpu,) = generator(found, time_axis(evidence))
    assert list(lines(cpu)) == ["w049", "w099", "w149", "w199", "w249", "w299"]
    assert cpu.summary.startswith("Highest CPU, per 4 seconds; the 6 busiest processes of 400.")
    assert len(table(found)) == count


def shown(path):
    """Return the text of the page's own section, as `llmload report` writes it, without markup."""
    assert main(["report", str(path), "--html"]) == 0
    page = (path / "report.html").read_text()
    section = re.search(r'<section id="generator">(.*?)</section>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", section[1]).split())


def test_a_run_without_its_series_is_reported(record):
    """An old record has no series.jsonl: the report is there, code 0, and says what it cannot show."""
    (record / "series.jsonl").unlink()
    assert shown(record) == (
        "Load generator Users over time and the processes of the load generator are not shown: they are in no "
        "series.jsonl beside the record. series.jsonl: cannot be read (No such file or directory)"
    )
    found = details(record)
    chart = next(one for one in over_time(found, time_axis(found)) if one.id == "in-flight")
    assert (chart.title, list(lines(chart))) == ("In flight", [""])


def test_a_series_that_was_cut_off_is_used(record):
    """Of a killed run the last line may be half: the others are shown, and it is named."""
    whole = table(details(record).processes)
    (record / "series.jsonl").write_text(SERIES + look("w1", 4, users=9)[:-20])
    assert table(details(record).processes) == whole
    assert "series.jsonl line 8: was cut off, skipped" in shown(record)


def test_a_series_that_is_not_ours_is_passed_over(record):
    """Lines of any other shape are counted, and no run is damaged by them."""
    bad = ["[1]", '"x"', "{}", '{"measurement":"llm_worker","tags":[],"fields":{},"time_ns":1}', "\udc80", ""]
    bad.append('{"measurement":"llm_worker","tags":{"worker":"w"},"fields":{},"time_ns":"now"}')
    (record / "series.jsonl").write_bytes("".join(f"{one}\n" for one in bad).encode("utf-8", "surrogateescape"))
    found = read_processes(record)
    assert (found.by_name, len(found.problems)) == ({}, 7)
    assert shown(record).endswith("series.jsonl line 3: is no point, skipped 4 more lines of series.jsonl are skipped.")


def test_an_archive_with_records_keeps_the_series(record, tmp_path):
    """Such an entry is a run directory like any other; one without records has no series either."""
    entry = archive_run(record, tmp_path / "archive", records=True)
    assert (entry / "series.jsonl").read_text() == SERIES
    assert shown(entry) == shown(record)
    archive_run(record, tmp_path / "archive")
    assert sorted(file.name for file in entry.iterdir()) == ["evidence.json", "run.json", "summary.json"]


def test_a_process_of_any_name_is_text(record):
    """A worker's name cannot end the script or become a link in a chart."""
    (record / "series.jsonl").write_text(look("</script><a href='x'>w</a>", 1, users=1, cpu_percent=1))
    assert "&lt;/script&gt;" in shown(record)
    page = (record / "report.html").read_text()
    assert page.count("<script") == page.count("</script>")
    (cpu,) = generator(details(record).processes, time_axis(details(record)))
    assert cpu.data[0]["name"] == "&lt;/script&gt;&lt;a href='x'&gt;w&lt;/a&gt;"


def test_a_browser_draws_the_processes(record):
    """Charts have the values and one axis on a desktop and on a phone; without scripts the table is there."""
    assert main(["report", str(record), "--html"]) == 0
    with Browser() as browser:
        for width in (1280, 390):
            seen = browser.look(f"file://{record}/report.html", width, 1)
            assert seen["trouble"] == []
            assert seen["wide"] <= width
            drawn = seen["drawn"]
            assert drawn["generator-cpu_percent"]["lines"] == {"master": [5], "w1": [40, 80], "w2": [20, 30]}
            assert drawn["generator-lag_max_s"]["lines"] == {"w1": [2, 13], "w2": [1, 4]}
            assert drawn["in-flight"]["lines"]["users"] == [3, 5, 4]
            over = [one["range"] for name, one in drawn.items() if not name.startswith(("distribution", "sweep"))]
            assert len(over) == 10
            assert over == [["2027-01-15 07:59:59.5", "2027-01-15 08:00:03.5"]] * 10
        plain = browser.look(f"file://{record}/report.html", 1280, 0)
    assert "Load generator" in plain["headings"]
    assert ["w1", "2", "4", "3", "60.00", "80.00", "13.00", "61.00"] in plain["cells"]

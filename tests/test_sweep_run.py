"""Runs whose load changes, from the command line against the mock: warm-up, stages, sweeps."""

import re

import pytest

from llmload.mock.process import MockProcess
from tests.locusts import check_ledger, run_locust


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--ttft-ms", "60", "--itl-ms", "10", "--tokens", "10") as mock:
        yield mock


@pytest.mark.parametrize("where", [(), ("--processes", "2")], ids=["local", "two-workers"])
def test_a_warm_up_is_left_out_by_start_time(tmp_path, mock, where):
    """LOAD-06: what started in the first two seconds is in the record under its label, and in no percentile."""
    args = ("-u", 4, "-r", 4, "-t", "5s", "--warmup", "2s", *where)
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", *args)
    check_ledger(locust)
    summary, steps = locust.summary, [line.get("step") for line in locust.completions]
    assert set(steps) == {"warmup", None}
    assert summary["metrics"]["ttft_s"]["n"] == steps.count(None)
    assert summary["excluded"]["ledger"]["started"] == steps.count("warmup")
    (warmup,) = locust.about["phases"]
    assert warmup["started"] == steps.count("warmup")
    assert summary["throughput"]["steady"]["window"]["from"] >= warmup["to"] >= warmup["from"] + 2
    assert f"warm-up: {steps.count('warmup')} requests in 2." in locust.text


def test_a_warm_up_as_long_as_the_run_is_refused(tmp_path, mock):
    """One line, exit code 2, nothing sent."""
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", "-t", "3s", "--warmup", "3s")
    assert locust.code == 2
    assert "llmload: --warmup 3s is as long as the run (-t 3s): nothing would be measured" in locust.text


@pytest.mark.parametrize("where", [(), ("--processes", "2")], ids=["local", "two-workers"])
def test_stages_follow_the_clock_and_end_the_run(tmp_path, mock, where):
    """LOAD-05: the run ends with the last stage, and says so; the lines were followed on the way."""
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", "--stages", "2s:4, 2s:4, 1s:0", *where)
    assert locust.code == 0, locust.text
    assert check_ledger(locust)["ok"] > 0
    assert locust.summary["run"]["ended_by"] == "the end of the stages"
    assert locust.about["stopped_at"] - locust.about["started_at"] >= 4.9
    assert "Shape test updating to 4 users" in locust.text


def test_a_locustfile_may_bring_its_stages(tmp_path, mock):
    """`StagesShape` is a class like Locust's own shapes; an option beside it is refused."""
    path = tmp_path / "spike.py"
    path.write_text(
        "from llmload import ChatUser, StagesShape\n"
        "class Chat(ChatUser):\n    pass\n"
        "class Spike(StagesShape):\n    stages = '1s:3, 1s:3'\n"
    )
    args = ("--host", mock.url, "--model", "mock")
    locust = run_locust(tmp_path, *args, locustfile=path)
    assert (locust.code, locust.summary["run"]["ended_by"]) == (0, "the end of the stages")
    refused = run_locust(tmp_path, *args, "--sweep", "2", locustfile=path)
    assert refused.code == 2
    assert "llmload: the locustfile has a load shape of its own (Spike): remove it" in refused.text
    path.write_text(path.read_text().replace("1s:3, 1s:3", "1:3"))
    broken = run_locust(tmp_path, *args, locustfile=path)
    assert broken.code == 2
    assert "llmload: Spike.stages: stage 1, '1:3', has no duration with a unit" in broken.text


@pytest.mark.parametrize("where", [(), ("--processes", "2")], ids=["local", "two-workers"])
def test_a_sweep_measures_each_level_by_itself(tmp_path, mock, where):
    """Every request is in the step in which it started; rows come while the sweep goes on; the record has it all."""
    args = ("--sweep", "1,2,4", "--step-time", "3s", "--settle", "1s", "--slo", "success_rate > 99%", *where)
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", *args)
    assert locust.code == 0, locust.text
    check_ledger(locust)
    summary, steps = locust.summary, [line.get("step") for line in locust.completions]
    assert set(steps) == {"1", "2", "4", "1~settle", "2~settle", "4~settle"}
    assert [one["level"] for one in summary["sweep"]["steps"]] == [1, 2, 4]
    for one in summary["sweep"]["steps"]:
        assert one["ledger"]["started"] == steps.count(f"{one['level']}") == one["metrics"]["e2e_s"]["n"]
        assert one["window"]["seconds"] >= 1
    assert summary["sweep"]["recommended"]["level"] == 4
    assert re.search(r"llmload: 1 +[\d.]+ +[\d.]+", locust.text), "a row while the sweep goes on"
    assert summary["run"]["ended_by"] == "the end of the sweep"


def test_the_capacity_of_one_slot_is_one(tmp_path):
    """Two users on one slot wait for each other: the search ends between 1 and 2, each seen twice, and is recorded."""
    args = ("--find-capacity", "p95(ttft) < 150ms and error_rate < 1%", "--step-time", "2s", "--settle", "0")
    with MockProcess("--ttft-ms", "60", "--itl-ms", "10", "--tokens", "12", "--slots", "1") as mock:
        locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", *args, seconds=120)
    assert locust.code == 0, locust.text
    check_ledger(locust)
    capacity = locust.summary["capacity"]
    assert (capacity["level"], capacity["between"], capacity["limited_by"]) == (1, [1, 2], "server")
    assert (capacity["votes"], capacity["ended"]) == ({"1": [2, 2], "2": [0, 2]}, "bracketed")
    assert "capacity: 1 users, between 1 and 2, 1 held in 2 of 2 measurements, 2 in 0 of 2" in locust.text


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--sweep", "2", "--stages", "5s:2"), "--stages and --sweep contradict each other: keep one of them"),
        (("--sweep", "2", "-t", "9s"), "-t and --sweep contradict each other: --sweep says when the run ends"),
        (("--find-capacity", "p95(tft) < 1s"), "--find-capacity: there is no metric 'tft'"),
    ],
)
def test_contradictions_are_said_before_any_load(tmp_path, mock, args, said):
    """One line, exit code 2, and the server has seen nothing."""
    mock.truth(clear=True)
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", *args)
    assert locust.code == 2
    assert f"llmload: {said}" in locust.text
    assert mock.truth() == []


def test_a_prompt_sweep_sends_prompts_of_its_lengths(tmp_path, mock):
    """DAT-06: planned and counted lengths stand side by side, and no two prompts begin alike."""
    args = ("--sweep-prompt-tokens", "64,640", "--step-time", "2s", "--settle", "0", "-u", 2)
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", *args)
    assert locust.code == 0, locust.text
    check_ledger(locust)
    sweep, lines = locust.summary["sweep"], locust.completions
    assert (sweep["axis"], [one["users"] for one in sweep["steps"]]) == ("prompt_tokens", [2, 2])
    for line in lines:
        planned = int(line["prompt"].removeprefix("synthetic:"))
        assert line["step"].partition("~")[0] == str(planned)
        assert line["input_tokens"] == pytest.approx(planned, rel=0.15)
    assert re.search(r"^64 +\d\d\.\d\d ", locust.text, re.MULTILINE), locust.text

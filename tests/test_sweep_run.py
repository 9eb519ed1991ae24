"""Runs whose load changes, from the command line against the mock: warm-up, stages, sweeps."""

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

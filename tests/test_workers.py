"""Several processes: every completion once, disjoint prompts, and workers that go missing."""

import os
import re
import signal
import subprocess
from collections import Counter

import pytest

from llmload.mock.process import MockProcess
from tests.locusts import Locust, check_ledger, free_port, run_locust


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--ttft-ms", "50", "--itl-ms", "10", "--tokens", "20") as mock:
        yield mock


def distributed(tmp_path, mock, *args):
    return Locust(tmp_path, "--host", mock.url, "--model", "mock", "-u", 6, "-r", 6, *args)


def test_every_completion_of_every_worker_is_recorded_once(tmp_path, mock):
    """DIST-13: the record, the merged histograms and the server's own log hold the same requests and tokens."""
    mock.truth(clear=True)
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", "-u", 6, "-r", 6, "-t", "5s", "--processes", 2)
    assert locust.code == 0, locust.text
    ledger = check_ledger(locust)
    truth = {one["request_id"]: one for one in mock.truth() if one["request_id"] != "llmload-probe"}
    assert set(truth) == {line["id"] for line in locust.completions}
    assert sum(line["output_tokens"] for line in locust.completions) == sum(one["tokens"] for one in truth.values())
    assert locust.summary["tokens"]["output_tokens_ok"] == 20 * ledger["ok"]
    workers = locust.about["workers"]
    assert set(workers) == {"worker-0", "worker-1"}
    assert Counter(line["worker"] for line in locust.completions) == {
        name: worker["ledger"]["ok"] for name, worker in workers.items()
    }
    assert sum(worker["ledger"]["started"] for worker in workers.values()) == ledger["started"]
    assert all(abs(worker["clock_offset_s"]) < 5 for worker in workers.values())
    assert re.search(rf"^ITL +Chat +{locust.summary['metrics']['itl_s']['n']} ", locust.text, re.MULTILINE)


def test_workers_share_the_prompts_without_overlap(tmp_path, mock):
    """DIST-08: no prompt is sent by two workers in the first lap, and the same seed deals the same prompts."""
    path = tmp_path / "prompts.txt"
    path.write_text("".join(f"{n} is the number of this prompt\n" for n in range(2000)))
    args = ("--prompts", path, "--seed", "7", "--processes", "2", "-t", "3s")
    for folder in "ab":
        (tmp_path / folder).mkdir()
    first = distributed(tmp_path / "a", mock, *args)
    assert first.ends() == 0, first.text
    dealt = {
        name: [line["prompt"] for line in first.completions if line["worker"] == name]
        for name in ("worker-0", "worker-1")
    }
    assert not set(dealt["worker-0"]) & set(dealt["worker-1"])
    assert all(len(set(prompts)) == len(prompts) > 5 for prompts in dealt.values())
    second = distributed(tmp_path / "b", mock, *args)
    assert second.ends() == 0, second.text
    for name, prompts in dealt.items():
        again = {line["prompt"] for line in second.completions if line["worker"] == name}
        common = min(len(again), len(prompts)) - 6
        assert len(again & set(prompts)) >= common


def test_a_lost_worker_makes_the_run_invalid(tmp_path, mock):
    """DIST-02: kill -9 one of two: code 4, the worker is named, its last known requests are in the ledger.

    Objectives that are met change nothing: what the lost worker saw is not in them.
    """
    locust = distributed(tmp_path, mock, "--processes", 2, "-t", "14s", "--slo", "error_rate < 50%")
    locust.until_spawned()
    subprocess.run(["sleep", "4"], check=True)
    os.kill(locust.children()[0], signal.SIGKILL)
    assert locust.ends() == 4, locust.text
    ledger = check_ledger(locust)
    reasons = locust.summary["run"]["reasons"]
    assert len(reasons) == 1
    assert re.fullmatch(r"worker-[01] was lost: (it sent no heartbeat|its connection ended)", reasons[0])
    assert ledger["ok"] > 0
    assert locust.summary["objectives"][0]["met"]
    assert reasons[0] in locust.text


def test_when_all_workers_are_lost_the_run_stops_at_once(tmp_path, mock):
    """DIST-03: the master does not wait for the end of the run time, and does not call it a success."""
    locust = distributed(tmp_path, mock, "--processes", 2, "-t", "300s")
    locust.until_spawned()
    subprocess.run(["sleep", "4"], check=True)
    for pid in locust.children():
        os.kill(pid, signal.SIGKILL)
    assert locust.ends(30) == 4, locust.text
    assert len(locust.summary["run"]["reasons"]) == 2
    check_ledger(locust)


def test_master_and_workers_by_hand(tmp_path):
    """`--master` and `--worker` as on several machines; the key comes from each process's own environment."""
    with MockProcess("--ttft-ms", "50", "--itl-ms", "10", "--tokens", "20", "--api-key", "right-key-1") as locked:
        port = free_port()
        key = {"LLMLOAD_API_KEY": "right-key-1"}
        master = Locust(
            tmp_path, "--master", "--master-bind-port", port, "--expect-workers", 1, "-u", 4, "-r", 4, "-t", "4s",
            "--host", locked.url, "--model", "mock", "--max-tokens", 7, env=key,
        )  # fmt: skip
        worker = Locust(tmp_path, "--worker", "--master-port", port, headless=False, env=key)
        assert master.ends() == 0, master.text
        assert worker.ends(20) == 0, worker.text
    assert check_ledger(master)["ok"] > 0
    assert {line["output_tokens"] for line in master.completions} == {7}
    assert "right-key-1" not in master.text + worker.text + (master.run / "run.json").read_text()


def test_a_worker_that_cannot_run_stops_the_test(tmp_path, mock):
    """DIST-11: a worker with another prompts file is named; nothing is measured with half of the plan."""
    port = free_port()
    for folder, text in (("m", "one\ntwo\n"), ("w", "three\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "p.txt").write_text(text)
    master = Locust(
        tmp_path, "--master", "--master-bind-port", port, "--expect-workers", 1, "-u", 2, "-t", "20s",
        "--host", mock.url, "--model", "mock", "--prompts", "p.txt", cwd=tmp_path / "m",
    )  # fmt: skip
    worker = Locust(tmp_path, "--worker", "--master-port", port, headless=False, cwd=tmp_path / "w")
    assert master.ends() == 4, master.text
    worker.ends(20)
    assert "this worker has other prompts than the master" in master.summary["run"]["reasons"][0]
    assert master.summary["ledger"]["started"] == 0

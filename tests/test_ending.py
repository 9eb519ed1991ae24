"""How runs end: signals, one process and several, and what is left when nothing could be said any more."""

import re
import signal
import subprocess

import pytest

from llmload.mock.process import MockProcess
from tests.locusts import LLMLOAD, Locust, check_ledger

BOTH = pytest.mark.parametrize("processes", [(), ("--processes", 2)], ids=["local", "two-workers"])
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--ttft-ms", "50", "--itl-ms", "20", "--tokens", "60") as mock:
        yield mock


def started(tmp_path, mock, *args):
    mock.truth(clear=True)
    locust = Locust(tmp_path, "--host", mock.url, "--model", "mock", "-u", 6, "-r", 6, *args)
    locust.until_spawned()
    return locust


@BOTH
@SIGNALS
def test_a_signal_ends_a_run_in_good_order(tmp_path, mock, processes, number):
    """CI-05: answers under way finish, every output agrees to the request, and the code says that it was cut short.

    Also where an objective is missed, which is said, but not by the code.
    """
    locust = started(tmp_path, mock, "-t", "60s", "--slo", "p95(ttft) < 1ms", *processes)
    subprocess.run(["sleep", "2"], check=True)
    locust.signal(number, group=number == signal.SIGINT)
    assert locust.ends() == 128 + number, locust.text
    ledger = check_ledger(locust)
    served = {one["request_id"] for one in mock.truth()} - {"llmload-probe"}
    assert ledger["started"] == ledger["ok"] == len(locust.completions) >= 6
    assert served == {line["id"] for line in locust.completions}
    assert locust.summary["run"]["ended_by"] == number.name
    assert locust.summary["run"]["valid"] is True
    assert re.search(rf"^ +Aggregated +{ledger['ok']} +0\(", locust.text, re.MULTILINE)
    assert "Traceback" not in locust.text
    assert locust.text.count("Record: ") == 1
    assert "objectives: 1 of 1 MISSED" in locust.text


@BOTH
def test_a_second_ctrl_c_cuts_the_grace_period_short(tmp_path, processes):
    """The first stops, the second cancels what is under way; both are counted."""
    with MockProcess("--ttft-ms", "50", "--itl-ms", "100", "--tokens", "1000") as slow:
        locust = started(tmp_path, slow, "--max-tokens", 1000, "-t", "60s", *processes)
        locust.signal(signal.SIGINT, group=True)
        subprocess.run(["sleep", "1.5"], check=True)
        assert locust.process.poll() is None
        locust.signal(signal.SIGINT, group=True)
        assert locust.ends(20) == 4, locust.text
    ledger = check_ledger(locust)
    assert (ledger["started"], ledger["cancelled"], ledger["in_flight"]) == (6, 6, 0)
    assert min(line["cut_s"] for line in locust.completions) > 1


def test_without_a_run_time_ctrl_c_is_the_normal_end(tmp_path, mock):
    """A run that nobody limited is not interrupted but ended: code 0."""
    locust = started(tmp_path, mock)
    subprocess.run(["sleep", "2"], check=True)
    locust.signal(signal.SIGINT)
    assert locust.ends() == 0, locust.text
    assert check_ledger(locust)["ok"] >= 6


def test_what_a_killed_run_leaves_can_still_be_read(tmp_path, mock):
    """kill -9: `llmload report` shows what was recorded, and that the end is missing."""
    locust = started(tmp_path, mock, "-t", "60s")
    subprocess.run(["sleep", "5"], check=True)
    locust.signal(signal.SIGKILL)
    locust.ends()
    with (locust.run / "completions.jsonl").open("a") as file:
        file.write('{"id": "cut in the mid')
    assert not (locust.run / "summary.json").exists()
    done = subprocess.run([LLMLOAD, "report", locust.run], capture_output=True, text=True, check=True)
    ok = sum(
        line.startswith('{"id"') and line.endswith("}")
        for line in (locust.run / "completions.jsonl").read_text().splitlines()
    )
    assert ok >= 6
    assert re.search(rf"requests: \d+ started, {ok} ok, 0 failed, 0 cancelled, \d+ in flight", done.stdout)
    assert "the end of the run is not recorded" in done.stdout
    assert "line" in done.stderr

"""`llmload calibrate` as a person runs it, and the file that it leaves."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from llmload.sinks import calibration
from tests.locusts import LLMLOAD

SMALL = ("--streams", "2", "--min-streams", "2", "--max-streams", "4", "--tokens", "10", "--seconds", "1")
SURE = ("--bound-ms", "900", "--percentile", "50", "--repeats", "1", "--budget", "60")


def calibrate(*args, **variables):
    """Run the command to its end; variables replace those of the environment."""
    environ = {**os.environ, **variables}
    return subprocess.run([LLMLOAD, "calibrate", *args], capture_output=True, text=True, env=environ, timeout=120)


def test_a_small_calibration_from_the_command_line(tmp_path):
    """A line for each level, a result, a plan and a file, whatever this machine can do.

    Options of Locust and of llmload in the environment, and a proxy, change nothing.
    """
    noise = {"LOCUST_RUN_TIME": "1s", "LLMLOAD_MODEL": "other", "HTTP_PROXY": "http://127.0.0.1:9"}
    done = calibrate(*SMALL, *SURE, "--users", "10", XDG_CACHE_HOME=str(tmp_path), **noise)
    path = tmp_path / "llmload" / "calibration.json"
    saved = json.loads(path.read_text())
    result, runs = saved["result"], saved["runs"]
    assert done.returncode == (1 if result is None else 0), done.stdout + done.stderr
    assert saved["schema"] == "llmload.calibration/1"
    assert saved["machine"] == calibration.machine()
    assert saved["bound"] == {"ms": 900, "percentile": 50}
    assert set(saved["stamps"]) <= {"kernel", "read"}
    rows = [line for line in done.stdout.splitlines() if re.match(r" +\d+ +[\d,]+ +\d+ ", line)]
    assert len(rows) == len(runs) >= 1
    for row, one in zip(rows, runs, strict=True):
        assert row.split()[0] == str(one["streams"])
        assert one["streams"] in (2, 3, 4)
        assert one["failed"] == 0
        assert 0 < one["events_per_second"] < 1.5 * one["asked_per_second"]
        assert one["ttft_ms"]["n"] == one["ttft_total_ms"]["n"] >= 0
        assert one["itl_ms"]["n"] > one["ttft_ms"]["n"]
        assert row.endswith("holds") == (one["faults"] == [])
    assert saved["plan"]["workers"] is None or saved["plan"]["workers"] >= 4  # 10 users, at most 0.7 * 4 a worker
    assert calibration.held_events_per_second(path) == (result and result["events_per_second"])
    assert done.stdout.splitlines()[-1] == f"saved: {path}"


def test_a_bound_that_no_machine_holds(tmp_path):
    """Then it is said what does hold at the smallest level, what was in the way, and no number of workers."""
    args = (*SMALL, "--bound-ms", "0.000001", "--repeats", "1", "--users", "10", "--save", tmp_path / "c.json")
    done = calibrate(*args)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no level held p99 at most 1e-06 ms; at 2 streams, the smallest that was run, the median of" in done.stdout
    assert re.search(r"^  TTFT error: p50 \d+\.\d\d ms, p90 \d+\.\d\d ms, p99 \d+\.\d\d ms$", done.stdout, re.MULTILINE)
    assert re.search(r"^limited by ", done.stdout, re.MULTILINE)
    assert "cannot say how many workers" in done.stdout
    saved = json.loads((tmp_path / "c.json").read_text())
    assert (saved["result"], saved["plan"]["workers"]) == (None, None)
    assert calibration.held_events_per_second(tmp_path / "c.json") is None


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--users", "0"), "--users: 0 is too small: give 1 or more"),
        (("--tokens", "1"), "--tokens: 1 is too small: give 2 or more"),
        (("--bound-ms", "-1"), "--bound-ms: -1 makes no sense: give a number above 0"),
        (("--seconds", "nan"), "--seconds: nan makes no sense: give a number above 0"),
        (("--budget", "2"), "--budget: 2 s are too few for one level: give more than 8"),
        (("--streams", "3"), "--streams lies outside --min-streams and --max-streams: give a level between them"),
        (("--save", "/dev/null/c.json"), "cannot write /dev/null/c.json (File exists): name another file"),
    ],
)
def test_bad_options_are_one_line(args, says):
    """Exit code 2 before anything is started."""
    done = calibrate(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"llmload calibrate: {says}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_leaves_no_child(tmp_path, number):
    """The mock server and Locust are gone when the command is, and nothing is saved."""
    command = [LLMLOAD, "calibrate", "--save", tmp_path / "c.json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell lets what runs behind it ignore it
    )
    children = []
    give_up = time.monotonic() + 60
    while len(children) < 2 and time.monotonic() < give_up:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        time.sleep(0.05)
    assert len(children) == 2
    process.send_signal(number)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + number, text
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
    assert "Traceback" not in text
    assert not (tmp_path / "c.json").exists()


def test_the_file_has_its_place(monkeypatch, tmp_path):
    """XDG_CACHE_HOME counts when it is absolute, as its specification has it."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert calibration.default_path() == tmp_path / "llmload" / "calibration.json"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert calibration.default_path() == Path("/home/somebody/.cache/llmload/calibration.json")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert calibration.default_path() == Path("/home/somebody/.cache/llmload/calibration.json")


def test_only_a_calibration_of_this_machine_counts(tmp_path):
    """Another host, another schema, no result, no JSON and no file are all no calibration."""
    path = tmp_path / "deep" / "c.json"
    here = {"machine": calibration.machine(), "result": {"events_per_second": 9_000.0}}
    calibration.write(path, here)
    assert calibration.held_events_per_second(path) == 9_000.0
    for other in ({"machine": {**here["machine"], "host": "elsewhere"}}, {"result": None}):
        calibration.write(path, {**here, **other})
        assert calibration.held_events_per_second(path) is None
    for text in ('{"schema": "llmload.calibration/2"}', "{", "[]"):
        path.write_text(text)
        assert calibration.held_events_per_second(path) is None
    assert calibration.held_events_per_second(tmp_path / "none.json") is None

"""The progress of a headless run: its block, its lines, and that a terminal gets the one and a log the other."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from llmload.mock.process import MockProcess
from llmload.reports.progress import Progress, progress_block, progress_line
from llmload.swarm.progress import can_redraw
from tests.locusts import LOCUST, ROOT, Locust

RECENT = {
    "throughput": {"request_throughput": 12.34, "output_throughput": 912.4},
    "metrics": {
        "ttft_s": {"n": 123, "p50": 0.21, "p95": 0.4801},
        "itl_s": {"n": 0, "p50": None, "p95": None},
    },
}
NOW = Progress(
    run_id="r",
    elapsed_s=42.2,
    run_time_s=3720,
    users=50,
    ledger={"started": 1285, "ok": 1234, "failed": 3, "cancelled": 0, "in_flight": 48},
    recent=RECENT,
    recent_s=10.0,
    verdict="server",
    why="CPU low",
)


def test_a_moment_of_a_run():
    """Every line of the block, and the same as one line."""
    assert progress_block(NOW) == [
        "llmload r   0:42 of 1:02:00, 1:01:18 left",
        "50 users   48 in flight   1,234 ok   3 failed (0.2%)   0 cancelled",
        "ended in the last 10 s: 12.3 req/s, 912 tok/s   TTFT p50 210 p95 480 ms (n = 123)   ITL -",
        "client: ok (CPU low)",
    ]
    assert progress_line(NOW) == (
        "0:42 of 1:02:00, 1:01:18 left: 50 users, 48 in flight, 1,234 ok, 3 failed (0.2%), 12.3 req/s, 912 tok/s, "
        "TTFT p50 210 p95 480 ms (n = 123), client server"
    )


def test_an_open_loop_is_shown_beside_what_it_offers():
    """The achieved rate stands beside the offered one."""
    assert ", 12.3 req/s of 15.0 offered, 912 tok/s, " in progress_line(replace(NOW, offered_rate=15.0))


def test_what_influxdb_takes_is_shown():
    """The block has its counters all the time, a log hears of it when something is wrong."""
    fine = replace(NOW, influx={"written": 12345, "queued": 20, "retried": 0, "dropped": 0, "error": None})
    assert progress_block(fine)[-1] == "InfluxDB: 12,345 points written, 20 waiting"
    assert progress_line(fine) == progress_line(NOW)
    counts = {"written": 0, "queued": 7, "retried": 5000, "dropped": 3, "error": "500 no space left"}
    words = "0 points written, 7 waiting, 5,000 retried, 3 DROPPED (500 no space left)"
    assert progress_block(replace(NOW, influx=counts))[-1] == f"InfluxDB: {words}"
    assert progress_line(replace(NOW, influx=counts)).endswith(f", client server, InfluxDB {words}")


@pytest.mark.parametrize(
    ("environ", "is_tty", "redraws"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "CI": "false"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm", "CI": "true"}, True, False),
    ],
)
def test_where_a_block_can_be_drawn(environ, is_tty, redraws):
    """A CI system that gives its jobs a terminal keeps every drawing of it in its log: it gets lines."""
    assert can_redraw(environ, is_tty=is_tty) is redraws


def on_a_terminal(tmp_path, mock, *args):
    """Return the exit code of a headless run on a terminal of its own, and what it wrote there, without colours."""
    command = [LOCUST, "-f", "locustfiles/chat.py", "--headless", "--run-dir", tmp_path / "runs", "--host", mock.url]
    command += ["--model", "mock", "-u", "4", "-r", "4", "-t", "3s", *args]
    spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", spawn, *map(str, command)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "110", "CI": ""},
        timeout=60,
        check=False,
    )
    return done.returncode, re.sub(r"\x1b\[[\d;]*m", "", done.stdout.decode())


def test_a_terminal_shows_a_block_that_goes_away(tmp_path):
    """Drawn each second in the place of Locust's table, log lines above it; at the end the cursor is back."""
    with MockProcess("--ttft-ms", "30", "--itl-ms", "5", "--tokens", "10") as mock:
        code, text = on_a_terminal(tmp_path, mock)
        quiet_code, quiet = on_a_terminal(tmp_path, mock, "--quiet", "-t", "1s")
    assert (code, quiet_code) == (0, 0), text + quiet
    blocks = re.findall(r"llmload \d{8}T\S+   0:0\d of 0:03, 0:0\d left\r?\n4 users   \d in flight   (\d+) ok", text)
    assert len(blocks) >= 2
    assert int(blocks[-1]) > 0
    assert text.count("Aggregated") == quiet.count("Aggregated") == 2
    assert text.index("\x1b[?25l") < text.rindex("\x1b[?25h") < text.index("Aggregated")
    assert "in flight   " not in text[text.rindex("\x1b[?25h") :]
    assert "\x1b[?25l" not in quiet
    assert re.search(r"\x1b\[2K\[\d{4}-.*INFO/llmload: Run \S+ has ended", text)


def test_a_log_gets_a_line_each_10_seconds(tmp_path):
    """From the master only, and no cursor movements; Locust's table is printed at the end, once."""
    with MockProcess("--ttft-ms", "30", "--itl-ms", "5", "--tokens", "10") as mock:
        locust = Locust(
            tmp_path, "--headless", "--host", mock.url, "--model", "mock", "-u", 2, "-t", "11s", "--processes", 2,
            headless=False,
        )  # fmt: skip
        assert locust.ends() == 0, locust.text
    lines = re.findall(
        r"INFO/llmload: 0:1\d of 0:11, 0:0\d left: 2 users, \d in flight, (\d+) ok, 0 failed", locust.text
    )
    assert len(lines) == 1
    assert int(lines[0]) > 0
    assert "\x1b[" not in locust.text
    assert locust.text.count("Aggregated") == 2

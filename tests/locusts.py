"""Locust as a person starts it: a process of its own, the real command line, its output and its files."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.sinks.record import find_run, read_run

ROOT = Path(__file__).parents[1]
LOCUST = Path(sys.executable).with_name("locust")
LLMLOAD = Path(sys.executable).with_name("llmload")


def free_port():
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Locust:
    """One `locust` process, its process group and its run directory.

    `text` is what it printed so far, both streams. `ends()` waits and returns the exit code.
    """

    def __init__(self, folder, *args, locustfile="locustfiles/chat.py", headless=True, env=None, before=None, cwd=ROOT):
        self.runs = Path(folder) / "runs"
        self._output = Path(tempfile.mkdtemp(dir=folder)) / "output"
        command = [str(LOCUST), "-f", str(ROOT / locustfile), "--run-dir", str(self.runs), "--loglevel", "INFO"]
        command += ["--headless", "--only-summary"] if headless else []
        if "--processes" in args:
            # not Locust's default port: another test run on this machine may be using it
            port = str(free_port())
            command += ["--master-port", port, "--master-bind-port", port]
        clean = {
            name: value
            for name, value in os.environ.items()
            if "API_KEY" not in name and "PROXY" not in name.upper() and not name.startswith("INFLUXDB")
        }
        # a file, not a pipe: nobody has to read it, so Locust can never block on it
        with self._output.open("wb") as sink:
            self.process = subprocess.Popen(
                [*command, *map(str, args)],
                cwd=cwd,
                env={**clean, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=before,
            )

    @property
    def text(self):
        return self._output.read_text(encoding="utf-8", errors="replace")

    def until(self, pattern, seconds=60):
        """Wait until what the process has printed matches a regular expression."""
        give_up = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert self.process.poll() is None, f"ended before {pattern!r}:\n{self.text}"
            assert time.monotonic() < give_up, f"{pattern!r} never came:\n{self.text}"
            time.sleep(0.05)

    def until_spawned(self):
        """Wait until the users are there, however late Locust hears of it."""
        self.until("All users spawned|Spawning is complete")

    def signal(self, number, *, group=False):
        """Send a signal to the process, or to its group as a terminal does."""
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def children(self):
        """Return the pids of the worker processes."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def ends(self, seconds=60):
        """Return the exit code; the whole group is gone afterwards."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.text}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def run(self):
        """The newest run directory."""
        return find_run(str(self.runs))

    @property
    def about(self):
        return json.loads((self.run / "run.json").read_text())

    @property
    def summary(self):
        return json.loads((self.run / "summary.json").read_text())

    @property
    def completions(self):
        """The lines of completions.jsonl, as dicts."""
        return [json.loads(line) for line in (self.run / "completions.jsonl").read_text().splitlines()]

    def recomputed(self):
        """Return the summary worked out anew from the record."""
        info, completions, _ = read_run(self.run)
        return summarise(Tallies(completions), info)


def run_locust(folder, *args, seconds=60, **options):
    """Run Locust to its end and return it; `code` is its exit code."""
    locust = Locust(folder, *args, **options)
    locust.code = locust.ends(seconds)
    return locust


def check_ledger(locust):
    """Every output of a run tells the same counts: ledger, record, Locust's table, and the recomputed summary."""
    summary, lines = locust.summary, locust.completions
    ledger = summary["ledger"]
    assert ledger["started"] == ledger["ok"] + ledger["failed"] + ledger["cancelled"] + ledger["in_flight"]
    for outcome in ("ok", "failed", "cancelled"):
        assert sum(line["outcome"] == outcome for line in lines) == ledger[outcome]
    assert len({line["id"] for line in lines}) == len(lines)
    assert locust.recomputed() == summary
    return ledger

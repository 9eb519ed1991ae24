"""Locust's web page in a real browser: our options in its form, errors said there, our rows, one record a run."""

import json
import signal
import time
import urllib.request

import pytest

from llmload.mock.process import MockProcess
from tests.browser import CHROMIUM, Browser
from tests.llama import free_port, missing
from tests.locusts import Locust, check_ledger

ROWS = ["TTFT", "ITL", "TPOT", "chat"]


@pytest.fixture(scope="module")
def mock():
    """A server whose answers are short and quick."""
    with MockProcess("--ttft-ms", "50", "--itl-ms", "10", "--tokens", "8") as server:
        yield server


@pytest.fixture(scope="module")
def page():
    """A page of a browser; its pictures show what a person sees."""
    if CHROMIUM is None:
        missing("there is no chromium here: apt-get install chromium")
    with Browser() as browser:
        yield browser


class Web(Locust):
    """A `locust` that is driven from its page."""

    def __init__(self, folder, *args):
        port, master = free_port(), str(free_port())
        self.url = f"http://127.0.0.1:{port}"
        ports = ("--web-port", str(port), "--master-port", master, "--master-bind-port", master)
        super().__init__(folder, "--web-host", "127.0.0.1", *ports, *args, headless=False)

    def __enter__(self):
        try:
            self._await_page()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.ends()

    def get(self, path):
        """Return the JSON of a path of the page; no proxy from the environment is asked."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=30) as response:
            return json.load(response)

    def stats(self):
        """Return the rows of Locust's statistics by their type and name."""
        return {(row["method"], row["name"]): row for row in self.get("/stats/requests")["stats"]}

    def runs_kept(self):
        """Return the run directories, the oldest first."""
        return sorted(file.parent for file in self.runs.glob("*/run.json"))

    def wait(self, met, what, seconds=60):
        """Wait until a condition is met."""
        give_up_at = time.monotonic() + seconds
        while not met():
            assert self.process.poll() is None, f"ended:\n{self.text}"
            assert time.monotonic() < give_up_at, f"{what}: not in time\n{self.text}"
            time.sleep(0.1)

    def loaded(self, number):
        """Wait until a run is well under way: this many records, some answers in the newest."""
        self.wait(lambda: len(self.runs_kept()) == number, f"record {number}")
        self.wait(lambda: (self.run / "completions.jsonl").read_text().count("\n") > 5, "answers")

    def _await_page(self):
        def answers():
            try:
                return self.get("/stats/requests")
            except OSError:
                return False

        self.wait(answers, "the page answers")


def start(page, **values):
    """Fill the form that is shown and press its button."""
    page.unfold("Custom parameters")
    page.fill(values)
    page.click("Start")


def edit(page, **values):
    """Change the run that goes on."""
    page.click("Edit")
    page.unfold("Custom parameters")
    page.fill(values)
    page.click("Update")
    page.until_gone("Edit running load test")


def stop(page):
    """Press the stop button and wait until the run has ended."""
    page.click("Stop")
    page.until("STOPPED")


def check_table(web):
    """Locust's own table has one request a completion; our rows are there and do not count into it."""
    stats, lines = web.stats(), web.completions
    total = stats["", "Aggregated"]
    assert (total["num_requests"], total["num_failures"]) == (len(lines), 0)
    assert web.get("/stats/requests")["fail_ratio"] == 0
    assert stats["chat", "Chat"]["num_requests"] == len(lines)
    for row, samples in {
        "TTFT": sum("ttft_s" in line for line in lines),
        "TPOT": sum("tpot_s" in line for line in lines),
        # the gaps of a buffered stream say nothing about tokens
        "ITL": sum(len(line["gaps_us"]) for line in lines if line["burst_share"] <= 0.8),
    }.items():
        assert stats[row, "Chat"]["num_requests"] == samples, row


def check_record(web, max_tokens):
    """The newest record is complete, valid and ended by the stop button."""
    assert {"completions.jsonl", "run.json", "series.jsonl", "summary.json"} <= {one.name for one in web.run.iterdir()}
    ledger = check_ledger(web)
    assert ledger == {"started": ledger["ok"], "ok": ledger["ok"], "failed": 0, "cancelled": 0, "in_flight": 0}
    about = web.about
    assert (about["ended_by"], about["valid"]) == ("stop", True)
    assert about["settings"]["max_tokens"] == max_tokens
    assert {line["output_tokens"] for line in web.completions} == {min(8, max_tokens)}


def test_the_page(page, mock, tmp_path):
    """From an empty form over its errors to two runs with different settings, and Ctrl-C at the end."""
    mock.truth(clear=True)
    with Web(tmp_path) as web:
        page.goto(web.url)
        page.unfold("Custom parameters")
        assert page.fields() | {"model": "", "maxTokens": "128", "stream": True, "temperature": "", "seed": "1"} == (
            page.fields()
        )
        assert not {"probe", "runDir", "header"} & set(page.fields())
        page.shot(tmp_path / "1-form.png")

        refused = {
            "--model is missing": {"host": mock.url, "model": ""},
            "no answer from 127.0.0.1:1: connect": {"host": "http://127.0.0.1:1", "model": "mock"},
            "--host is missing": {"host": ""},
            "--max-tokens": {"host": mock.url, "maxTokens": "many"},
        }
        for number, (message, values) in enumerate(refused.items()):
            start(page, **values)
            page.until(message)
            page.shot(tmp_path / f"2-refused-{number}.png")
        assert mock.truth() == []
        assert web.runs_kept() == []

        start(page, host=mock.url, model="mock", maxTokens="128", userCount="3", spawnRate="3")
        page.until_rows(ROWS)
        page.shot(tmp_path / "3-statistics.png")
        # Locust closes this dialog whatever is answered, and marks its tab of logs
        edit(page, maxTokens="5", userCount="5")
        web.until("--max-tokens cannot change while a run goes on: stop it and start a new one")
        edit(page, userCount="4")
        web.wait(lambda: web.get("/stats/requests")["user_count"] == 4, "4 users")
        stop(page)
        check_table(web)
        check_record(web, 128)

        page.click("New")
        start(page, host="http://127.0.0.1:1")
        page.until("no answer from 127.0.0.1:1: connect")
        page.shot(tmp_path / "4-new.png")
        start(page, host=mock.url, maxTokens="5")
        web.loaded(2)
        page.until_rows(ROWS)
        stop(page)
        page.shot(tmp_path / "5-stopped.png")
        check_table(web)
        check_record(web, 5)

        web.signal(signal.SIGINT)
        assert web.ends() == 0, web.text
        # what was sent, probes apart, is what the two records say
        records = [path / "completions.jsonl" for path in web.runs_kept()]
        sent = sum(len(path.read_text().splitlines()) for path in records)
        assert len(mock.truth()) == sent + 2


def test_two_workers(page, mock, tmp_path):
    """With worker processes the page starts, stops and starts again; each run's totals agree everywhere."""
    with Web(tmp_path, "--processes", "2", "--host", mock.url, "--model", "mock") as web:
        web.wait(lambda: len(web.get("/stats/requests").get("workers", ())) == 2, "two workers")
        page.goto(web.url)
        for number, max_tokens in enumerate((128, 5), start=1):
            if number > 1:
                page.click("New")
            start(page, userCount="4", spawnRate="4", maxTokens=str(max_tokens))
            web.loaded(number)
            page.until_rows(ROWS)
            stop(page)
            check_table(web)
            check_record(web, max_tokens)
            assert {line["worker"] for line in web.completions} == {"worker-0", "worker-1"}
        page.shot(tmp_path / "6-workers.png")
        web.signal(signal.SIGINT, group=True)
        assert web.ends() == 0, web.text

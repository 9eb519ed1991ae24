"""Runs from the command line against the mock: the numbers, the outcomes, the exit codes, the files."""

import json
import re
import resource
import subprocess
from pathlib import Path

import pytest

from llmload.mock.process import MockProcess
from tests.locusts import LLMLOAD, ROOT, check_ledger, run_locust


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--ttft-ms", "60", "--itl-ms", "10", "--tokens", "10") as mock:
        yield mock


def plain(tmp_path, mock, *args, **options):
    """Return a short run of four users, its own part of the mock's log beside it."""
    mock.truth(clear=True)
    args = args or ("-u", 4, "-r", 4, "-t", "3s")
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", *args, **options)
    locust.truth = {one["request_id"]: one for one in mock.truth()}
    return locust


def test_a_run_is_what_the_server_saw(tmp_path, mock):
    """Every request of the server's log is in the record once, with its tokens, and TTFT is never below the truth."""
    locust = plain(tmp_path, mock)
    ledger = check_ledger(locust)
    probe = locust.truth.pop("llmload-probe")
    assert locust.code == 0
    assert ledger["ok"] == ledger["started"] == len(locust.truth) > 8
    assert probe["tokens"] == 10
    for line in locust.completions:
        true = locust.truth[line["id"]]
        assert line["output_tokens"] == true["tokens"] == 10
        assert line["usage_source"] == "server"
        assert line["ttft_s"] >= (true["first_token_ns"] - true["arrived_ns"]) / 1e9 >= 0.06
        assert len(line["gaps_us"]) + line.get("coalesced_events", 0) == 9
    assert locust.summary["usage_sources"] == {"server": ledger["ok"]}


def test_users_keep_their_connections(tmp_path, mock):
    """MEM-05: a user's client lives as long as the user: as many connections as users."""
    locust = plain(tmp_path, mock)
    assert locust.summary["connections"]["new"] == 4
    assert locust.summary["connections"]["reused"] == locust.summary["ledger"]["started"] - 4 > 0


def test_rows_do_not_touch_aggregated(tmp_path, mock):
    """STAT-02: TTFT, ITL and TPOT are rows of their own; Aggregated counts completions and nothing else."""
    locust = plain(tmp_path, mock)
    rows = {}
    for line in locust.text.splitlines():
        found = re.match(r"(TTFT|ITL|TPOT|chat| {4}) +(Chat|Aggregated) +(\d+) +(\d+)\(", line)
        if found:
            rows[found[1].strip() or "total"] = (int(found[3]), int(found[4]))
    ok = locust.summary["ledger"]["ok"]
    assert rows["total"] == rows["chat"] == rows["TTFT"] == rows["TPOT"] == (ok, 0)
    assert rows["ITL"] == (locust.summary["metrics"]["itl_s"]["n"], 0)


def test_report_prints_what_the_run_printed(tmp_path, mock):
    """`llmload report` makes the same text from run.json and completions.jsonl alone."""
    locust = plain(tmp_path, mock)
    (locust.run / "summary.json").unlink()
    report = subprocess.run([LLMLOAD, "report", locust.run], capture_output=True, text=True, check=True).stdout
    assert report.strip()
    assert report.strip() in locust.text
    assert f"Record: {locust.run}" in locust.text


def test_the_called_url_is_printed_once(tmp_path, mock):
    """CFG-01: whatever form the host was given in, the one URL is said, once."""
    locust = plain(tmp_path, mock, "-u", 1, "-t", "1s")
    assert locust.text.count(f"POST {mock.url}/chat/completions") == 1


@pytest.mark.parametrize("name", ["ab", "chat", "mixed", "listen"])
def test_every_shipped_locustfile_runs(tmp_path, mock, name):
    """The example files are documentation that works; each class is a scenario of its own."""
    locust = plain(tmp_path, mock, "-u", 4, "-r", 4, "-t", "4s", locustfile=f"locustfiles/{name}.py")
    assert locust.code == 0, locust.text
    assert check_ledger(locust)["ok"] > 0
    expected = {"ab": {"Before", "After"}, "chat": {"Chat"}, "mixed": {"Support", "Writer"}, "listen": {"Chat"}}
    assert set(locust.summary["scenarios"]) == expected[name]


def test_hooks_get_what_they_promise(tmp_path, mock):
    """First token and completion once each per request, speed where it is defined, with the documented arguments."""
    heard = tmp_path / "heard.jsonl"
    path = tmp_path / "hooks.py"
    path.write_text(
        "import json\n"
        "from locust import events\n"
        "from llmload import ChatUser\n"
        "class Mine(ChatUser):\n"
        "    scenario = 'mine'\n"
        f"out = open({str(heard)!r}, 'a')\n"
        "def say(**row): out.write(json.dumps(row) + '\\n'); out.flush()\n"
        "@events.llm_first_token.add_listener\n"
        "def first(request, ttft_s, user, **kw): say(hook='first', ttft_s=ttft_s, user=type(user).__name__)\n"
        "@events.llm_tokens_per_second.add_listener\n"
        "def speed(scenario, model, output_tps, output_tokens, usage_source, completion, **kw):\n"
        "    say(hook='speed', scenario=scenario, model=model, tps=output_tps, tokens=output_tokens)\n"
        "@events.llm_completion.add_listener\n"
        "def done(completion, request, user, **kw): say(hook='done', id=completion.id, outcome=completion.outcome)\n"
    )
    locust = plain(tmp_path, mock, "-u", 2, "-t", "2s", locustfile=path)
    rows = [json.loads(line) for line in heard.read_text().splitlines()]
    done = [row for row in rows if row["hook"] == "done"]
    ledger = check_ledger(locust)
    assert sorted(row["id"] for row in done) == sorted(line["id"] for line in locust.completions)
    assert sum(row["hook"] == "first" for row in rows) == len(locust.completions)
    speeds = [row for row in rows if row["hook"] == "speed"]
    assert len(speeds) == ledger["ok"]
    assert {(row["scenario"], row["model"], row["tokens"]) for row in speeds} == {("mine", "mock", 10)}
    assert set(locust.summary["scenarios"]) == {"mine"}


def test_refusals_are_counted_by_status(tmp_path):
    """HTTP-02: success and failure add up to what was sent, by status; Locust's exit code says that some failed."""
    with MockProcess("--ttft-ms", "5", "--itl-ms", "1", "--tokens", "5", "--seed", "3",
                     "--fault", "http_503=0.2", "--fault", "http_429=0.2") as mock:  # fmt: skip
        args = ("--no-probe", "--abort-after", "0", "-u", 4, "-r", 4, "-t", "4s")
        locust = plain(tmp_path, mock, *args)
        outcomes = [one["outcome"] for one in locust.truth.values()]
    ledger = check_ledger(locust)
    assert locust.code == 1
    failures = {row["status"]: row["count"] for row in locust.summary["failures"]}
    assert failures == {429: outcomes.count("fault:http_429"), 503: outcomes.count("fault:http_503")}
    assert ledger["failed"] == sum(failures.values())
    assert ledger["ok"] == outcomes.count("ok")
    assert "http_status 429" in locust.text


def test_when_nothing_answers_there_is_still_a_report(tmp_path):
    """TMO-07: all requests meet their deadline; the report stands with n/a, and the run is not valid."""
    with MockProcess("--fault", "never") as mock:
        locust = plain(tmp_path, mock, "--no-probe", "--timeout-first-token", "300ms", "-u", 3, "-r", 3, "-t", "2s")
    ledger = check_ledger(locust)
    assert locust.code == 4
    assert (ledger["ok"], locust.summary["run"]["valid"]) == (0, False)
    assert ledger["failed"] >= 3
    assert [row["kind"] for row in locust.summary["failures"]] == ["timeout_first_token"]
    assert locust.summary["metrics"]["ttft_s"]["n"] == 0
    assert locust.summary["metrics"]["ttft_s"]["p50"] is None
    assert "not one of" in locust.text
    assert re.search(r"TTFT +0 +(n/a|-)", locust.text)


def test_a_dead_server_is_not_hammered(tmp_path):
    """RTL-04: failures come slower and slower, and the run stops by itself when none succeeds."""
    locust = run_locust(
        tmp_path, "--host", "http://127.0.0.1:9", "--model", "m", "--no-probe", "--abort-after", 12,
        "-u", 3, "-r", 3, "-t", "60s",
    )  # fmt: skip
    ledger = check_ledger(locust)
    assert locust.code == 4
    assert 12 <= ledger["failed"] <= 24
    assert locust.summary["run"]["ended_by"].startswith("the first ")
    assert [row["kind"] for row in locust.summary["failures"]] == ["connect"]


def test_requests_in_flight_at_the_end_are_cancelled_and_counted(tmp_path):
    """TMO-04: what the grace period cuts off is cancelled, its tokens are kept, and nothing disappears."""
    with MockProcess("--ttft-ms", "50", "--itl-ms", "50", "--tokens", "400") as mock:
        locust = plain(tmp_path, mock, "--max-tokens", 400, "-u", 5, "-r", 5, "-t", "2s", "--stop-timeout", 1)
    ledger = check_ledger(locust)
    assert (ledger["started"], ledger["cancelled"], ledger["in_flight"]) == (5, 5, 0)
    assert locust.code == 4
    assert all(line["token_events"] > 20 and line["usage_source"] == "estimate" for line in locust.completions)
    assert re.search(r"^ +Aggregated +5 +0\(", locust.text, re.MULTILINE)


def test_answers_under_way_may_finish(tmp_path):
    """The default grace period is long enough for an answer: a run shorter than one loses none."""
    with MockProcess("--ttft-ms", "50", "--itl-ms", "50", "--tokens", "60") as mock:
        locust = plain(tmp_path, mock, "-u", 5, "-r", 5, "-t", "1s")
    assert locust.code == 0
    assert (check_ledger(locust)["ok"], locust.summary["ledger"]["cancelled"]) == (5, 0)
    assert locust.summary["run"]["ended_by"] == "run time"


def test_a_user_that_will_not_die_cannot_keep_the_run_alive(tmp_path, mock):
    """TMO-05: a locustfile that swallows its own end costs the grace period and a margin, not the night."""
    path = tmp_path / "stubborn.py"
    path.write_text(
        "import gevent\n"
        "from locust import task\n"
        "from llmload import ChatUser\n"
        "from llmload.swarm import ending\n"
        "ending.MARGIN_S = 2.0\n"
        "class Stubborn(ChatUser):\n"
        "    @task\n"
        "    def go(self):\n"
        "        self.chat()\n"
        "        while True:\n"
        "            try:\n"
        "                gevent.sleep(1)\n"
        "            except BaseException:\n"
        "                pass\n"
    )
    locust = plain(tmp_path, mock, "-u", 1, "-t", "1s", "--stop-timeout", 1, locustfile=path)
    assert locust.code == 4
    assert check_ledger(locust)["ok"] == 1
    assert "did not stop within 3 s" in locust.text


def test_a_full_disk_loses_lines_but_says_how_many(tmp_path, mock):
    """What cannot be written is counted; the tables are whole, and the run is not called valid."""
    limit = 6_000

    def small_disk():
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    locust = plain(tmp_path, mock, "-u", 8, "-r", 8, "-t", "3s", before=small_disk)
    assert locust.code == 4, locust.text
    found = re.search(r"(\d+) completions are missing from the record", locust.text)
    lines = (locust.run / "completions.jsonl").read_text().splitlines()
    whole = [line for line in lines if line.endswith("}")]
    ok = int(re.search(r"(\d+) ok", locust.text)[1])
    assert int(found[1]) == ok - len(whole) > 0


def test_secrets_are_nowhere(tmp_path, mock):
    """SEC-01, SEC-02, SEC-03: key, header values, user and password of the URL are in no file and no line."""
    host = mock.url.replace("http://", "http://alice:s3cretpw@") + "?api-key=K3Y123456"
    secrets = ["sk-topsecret1", "tok-abc12345", "s3cretpw", "K3Y123456"]
    locust = run_locust(
        tmp_path, "--host", host, "--model", "mock", "--header", "X-Auth: tok-abc12345", "-u", 2, "-t", "2s",
        "--html", tmp_path / "locust.html", "--csv", tmp_path / "stats",
        env={"LLMLOAD_API_KEY": "sk-topsecret1"},
    )  # fmt: skip
    assert check_ledger(locust)["ok"] > 0
    everything = locust.text + "".join(
        path.read_text(errors="replace") for path in Path(tmp_path).rglob("*") if path.is_file()
    )
    assert [secret for secret in secrets if secret in everything] == []


def test_a_request_that_is_not_streamed(tmp_path, mock):
    """TOK-16: latency without TTFT, ITL and TPOT; the rows for them are not there."""
    locust = plain(tmp_path, mock, "--no-stream", "-u", 2, "-t", "2s")
    metrics = locust.summary["metrics"]
    assert check_ledger(locust)["ok"] == metrics["e2e_s"]["n"] > 0
    assert [metrics[name]["n"] for name in ("ttft_s", "ttfa_s", "itl_s", "tpot_s")] == [0, 0, 0, 0]
    assert not re.search(r"^TTFT +Chat", locust.text, re.MULTILINE)


def test_a_run_that_sends_nothing_is_no_success(tmp_path, mock):
    """CI-01: a locustfile that never sends a request does not pass."""
    path = tmp_path / "idle.py"
    path.write_text(
        "from locust import task\nfrom llmload import ChatUser\nimport gevent\n"
        "class Idle(ChatUser):\n    @task\n    def go(self):\n        gevent.sleep(0.2)\n"
    )
    locust = plain(tmp_path, mock, "-u", 1, "-t", "1s", locustfile=path)
    assert locust.code == 4
    assert locust.summary["run"]["reasons"] == ["nothing was sent"]


def test_options_come_from_variables_too(tmp_path, mock):
    """Each option has an environment variable; the command line wins."""
    locust = plain(
        tmp_path, mock, "--max-tokens", 3, "-u", 1, "-t", "1s", env={"LLMLOAD_MAX_TOKENS": "7", "LLMLOAD_SEED": "5"}
    )
    assert (locust.about["settings"]["max_tokens"], locust.about["settings"]["seed"]) == (3, 5)
    assert {line["output_tokens"] for line in locust.completions} == {3}


def test_importing_opens_nothing():
    """Locust forks after the locustfile was imported: no file, no socket, no hub may exist by then."""
    code = (
        "import os\n"
        "from gevent._hub_local import get_hub_if_exists as hub\n"
        "def seen(): return sorted(os.listdir('/proc/self/fd')), id(hub()), hub() and hub().loop.activecnt\n"
        "import locust\n"
        "before = seen()\n"
        "from llmload import ChatUser\n"
        "import llmload.swarm.session\n"
        "print(seen() == before)\n"
    )
    python = [str(Path(LLMLOAD).with_name("python")), "-c", code]
    assert subprocess.run(python, capture_output=True, text=True, check=True, cwd=ROOT).stdout == "True\n"


def test_help_shows_our_options_in_a_group_of_their_own():
    """The help names every option and its variable's source of the key."""
    text = subprocess.run(
        [str(Path(LLMLOAD).with_name("locust")), "-f", "locustfiles/chat.py", "--help"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    ours = text[text.index("llmload options") :]
    from llmload.swarm.options import OPTIONS

    assert [option.flag for option in OPTIONS if option.flag not in ours] == []
    assert "LLMLOAD_API_KEY or OPENAI_API_KEY" in " ".join(ours.split())
    assert "--api-key" not in text

"""Open loops from the command line against the mock: offered and sent, the freeze, stops and kills, traces."""

import threading
import time
from collections import Counter

import pytest

from llmload.mock.process import MockProcess
from llmload.pacing.arrivals import Arrivals, processes_for
from llmload.workload.prompts import load_prompts
from llmload.workload.source import PromptSource
from tests.locusts import check_ledger, run_locust


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--ttft-ms", "40", "--itl-ms", "5", "--tokens", "5") as mock:
        yield mock


def opened(tmp_path, mock, *args, **options):
    """Return a run; its arrivals add up."""
    mock.truth(clear=True)
    locust = run_locust(tmp_path, "--host", mock.url, "--model", "mock", *args, **options)
    locust.truth = {one["request_id"]: one for one in mock.truth() if one["request_id"] != "llmload-probe"}
    locust.ledger = check_ledger(locust)
    arrivals = locust.summary["arrivals"]
    if arrivals is not None:
        assert arrivals["offered"] == arrivals["achieved"] + arrivals["not_sent"]
        assert arrivals["achieved"] == locust.ledger["started"]
    return locust


def intended(locust):
    """Return the intended starts of a run's completions, unix seconds, ascending."""
    return sorted(
        line["started_unix_ns"] / 1e9 - line["send_delay_s"] for line in locust.completions if "e2e_intended_s" in line
    )


def scheduled(arrivals, *, rate, from_s, to_s):
    """Return time and prompt of each arrival that a seed stands for, in the order of time."""
    count, each = processes_for(rate)
    source = PromptSource(load_prompts(None), seed=arrivals.seed)
    expected = []
    for index in range(count):
        for number, at_s in arrivals.numbered(index, count=count, rate=each):
            if at_s > to_s:
                break
            expected.append((at_s, source.next(number * count + index).id))
    return [(at_s, prompt) for at_s, prompt in sorted(expected) if at_s > from_s]


def sent(locust, *, from_s, to_s):
    """Return the same of a run's record, each time as it was due."""
    origin = locust.about["arrivals_from"]
    lines = [
        (line["started_unix_ns"] / 1e9 - line["send_delay_s"] - origin, line["prompt"]) for line in locust.completions
    ]
    return [(at_s, prompt) for at_s, prompt in sorted(lines) if from_s < at_s < to_s]


def check_sent(locust, arrivals, *, rate, from_s, to_s):
    """Requests and prompts are those of the schedule, within 2 ms; the edges are cut where nothing is near."""
    expected = scheduled(arrivals, rate=rate, from_s=from_s, to_s=to_s)
    edge_s = 0.003
    got = sent(locust, from_s=expected[0][0] - edge_s, to_s=expected[-1][0] + edge_s)
    assert [at_s for at_s, _ in got] == pytest.approx([at_s for at_s, _ in expected], abs=0.002)
    assert Counter(prompt for _, prompt in got) == Counter(prompt for _, prompt in expected)


def test_a_rate_makes_every_user_an_arrival_process(tmp_path, mock):
    """--rate needs no -u; requests start at the instants that the schedule names, each on a kept connection."""
    locust = opened(tmp_path, mock, "--rate", 20, "-t", "4s")
    arrivals = locust.summary["arrivals"]
    assert locust.code == 0
    assert arrivals["model"] == "poisson"
    assert locust.summary["run"]["load"]["users"] == 20
    assert arrivals["planned_rate"] == pytest.approx(20, rel=0.05)
    check_sent(locust, Arrivals(seed=1), rate=20, from_s=0.5, to_s=3.5)
    connections = locust.summary["connections"]
    assert connections["reused"] > connections["new"] >= 1
    assert "open loop: poisson arrivals; latency counts from the intended start" in locust.text


def test_two_workers_send_what_one_would(tmp_path, mock):
    """Same seed, same arrivals, same prompt for each of them, however many workers share them."""
    options = ("--rate", 12.5, "--arrival", "gamma", "--burstiness", 0.5, "--seed", 3, "--processes", 2)
    locust = opened(tmp_path, mock, *options, "-t", "6s")
    assert {line["worker"] for line in locust.completions} == {"worker-0", "worker-1"}
    check_sent(locust, Arrivals("gamma", 0.5, seed=3), rate=12.5, from_s=3.0, to_s=5.5)


def test_users_are_the_rate(tmp_path, mock):
    """The shipped example: an OpenLoopUser is one request per second, so -u 15 offers 15/s; only the first request of
    a task is due at the moment of its arrival."""
    locust = run_locust(
        tmp_path, "--host", mock.url, "--model", "mock", "-u", 15, "-r", 15, "-t", "3s",
        locustfile="locustfiles/open_loop.py",
    )  # fmt: skip
    assert locust.code == 0, locust.text
    ledger, arrivals = check_ledger(locust), locust.summary["arrivals"]
    assert set(locust.summary["scenarios"]) == {"Visitors"}
    assert arrivals["planned_rate"] == pytest.approx(15, rel=0.05)
    assert arrivals["achieved"] < ledger["started"] <= 2 * arrivals["achieved"]
    with_intended = [line for line in locust.completions if "e2e_intended_s" in line]
    assert len(with_intended) == arrivals["achieved"]
    for line in with_intended:
        assert line["ttft_intended_s"] == pytest.approx(line["send_delay_s"] + line["ttft_s"])


def test_a_cap_counts_what_it_kept_back(tmp_path):
    """--max-in-flight: never more under way, over all processes; what was not sent is counted and said."""
    with MockProcess("--ttft-ms", "400", "--itl-ms", "1", "--tokens", "2") as slow:
        locust = opened(
            tmp_path, slow, "--rate", 40, "--arrival", "constant", "--max-in-flight", 5, "-t", "3s", "--processes", 2
        )
    arrivals = locust.summary["arrivals"]
    assert arrivals["not_sent_why"]["cap"] > arrivals["achieved"] > 10
    spans = [(one["started_unix_ns"], one["started_unix_ns"] + one["closed_s"] * 1e9) for one in locust.completions]
    edges = sorted(edge for began, ended in spans for edge in ((began, 1), (ended, -1)))
    under_way = [sum(step for _, step in edges[: n + 1]) for n in range(len(edges))]
    assert max(under_way) <= 5
    assert "arrivals" in locust.text
    assert "--max-in-flight was reached" in " ".join(locust.text.split())


FREEZE_S = 2.0


def frozen_run(tmp_path, *args, seconds=6, freeze_s=FREEZE_S):
    """Return a run against a server that stands still for a while, and the instants of that."""
    with MockProcess("--ttft-ms", "50", "--itl-ms", "1", "--tokens", "3") as mock:
        began = []

        def freeze():
            give_up = time.monotonic() + 30
            while mock.stats()["started"] < 30 and time.monotonic() < give_up:
                time.sleep(0.02)
            began.append(time.time())
            mock.freeze(freeze_s)

        thread = threading.Thread(target=freeze)
        thread.start()
        locust = opened(tmp_path, mock, *args, "-t", f"{seconds}s", "--arrival" if "--rate" in args else "--think-time",
                        "constant" if "--rate" in args else "0")  # fmt: skip
        thread.join()
    locust.froze_at = began[0]
    return locust


def test_an_open_loop_shows_a_freeze_that_a_closed_loop_hides(tmp_path):
    """LOAD-01: the server stands still for F of T seconds. A request due u seconds into the freeze waits F - u, in an
    open loop for each of them; of a closed loop of one user one request waits, and p99 knows nothing."""
    opened_ = frozen_run(tmp_path, "--rate", 20)
    thaw = opened_.froze_at + FREEZE_S
    values, expected = [], []
    for line in opened_.completions:
        due = line["started_unix_ns"] / 1e9 - line["send_delay_s"]
        values.append(line["ttft_intended_s"])
        # 50 ms to the first token, plus what of the freeze is still to come when it would leave
        expected.append(0.05 + max(0.0, thaw - due - 0.05 if opened_.froze_at <= due + 0.05 < thaw else 0.0))
    assert sorted(values) == pytest.approx(sorted(expected), abs=0.25)
    metric = opened_.summary["metrics"]["ttft_intended_s"]
    ranked = sorted(expected)
    for p in (50, 90, 95, 99):
        assert metric[f"p{p}"] == pytest.approx(ranked[-(-p * len(ranked) // 100) - 1], abs=0.25)
    assert metric["p90"] > 0.8
    closed = frozen_run(tmp_path, "-u", 1)
    assert closed.summary["metrics"]["ttft_s"]["max"] > FREEZE_S * 0.9
    assert closed.summary["metrics"]["ttft_s"]["p95"] < FREEZE_S / 4
    assert closed.summary["arrivals"] is None


def test_a_stopped_load_lets_answers_end(tmp_path):
    """What is under way when the load stops may take --stop-timeout: nothing is cancelled."""
    with MockProcess("--ttft-ms", "50", "--itl-ms", "50", "--tokens", "30") as mock:
        locust = opened(tmp_path, mock, "--rate", 10, "-t", "2s")
    assert locust.ledger["cancelled"] == 0
    assert locust.ledger["ok"] == locust.ledger["started"] > 8


def test_a_killed_user_ends_each_of_its_requests_once(tmp_path):
    """--stop-timeout 0: everything under way is cancelled, and in the ledger; also over two processes."""
    with MockProcess("--ttft-ms", "50", "--itl-ms", "50", "--tokens", "400") as mock:
        locust = opened(
            tmp_path, mock, "--rate", 20, "-t", "2s", "--stop-timeout", 0, "--max-tokens", 400, "--processes", 2
        )
    assert locust.ledger["cancelled"] == locust.ledger["started"] > 10
    assert locust.ledger["in_flight"] == 0


def test_a_ramp_down_cancels_nothing(tmp_path):
    """Fewer users, a lower rate: a stopped user's requests end as they would have."""
    path = tmp_path / "down.py"
    path.write_text(
        "from locust import LoadTestShape\n"
        "from llmload import OpenLoopUser\n"
        "class Mine(OpenLoopUser):\n    pass\n"
        "class Down(LoadTestShape):\n"
        "    def tick(self):\n"
        "        at = self.get_run_time()\n"
        "        return (30, 30) if at < 2 else (5, 30) if at < 4 else None\n"
    )
    with MockProcess("--ttft-ms", "50", "--itl-ms", "40", "--tokens", "20") as slow:
        locust = opened(tmp_path, slow, locustfile=path)
    assert locust.ledger["cancelled"] == 0
    per_second = Counter(int(at_s - locust.about["arrivals_from"]) for at_s in intended(locust))
    assert 0 < per_second[3] < per_second[1] / 1.5


def test_what_locust_promises_a_user(tmp_path, mock):
    """on_start and on_stop once each, nested task sets, tasks that raise: as in a closed loop, and all is counted."""
    path, seen = tmp_path / "life.py", tmp_path / "seen"
    path.write_text(
        "from locust import TaskSet, task\n"
        "from llmload import OpenLoopUser\n"
        f"out = open({str(seen)!r}, 'a')\n"
        "def say(word): out.write(word + '\\n'); out.flush()\n"
        "class Mine(OpenLoopUser):\n"
        "    def on_start(self): say('start')\n"
        "    def on_stop(self): say('stop')\n"
        "    @task\n"
        "    class Talk(TaskSet):\n"
        "        @task\n"
        "        def ask(self):\n"
        "            self.user.chat()\n"
        "            self.interrupt()\n"
        "    @task\n"
        "    def fail(self):\n"
        "        raise ValueError('planted')\n"
        "    @task\n"
        "    def rest(self):\n"
        "        self.wait()\n"
    )
    locust = run_locust(
        tmp_path, "--host", mock.url, "--model", "mock", "-u", 20, "-r", 20, "-t", "2s", "--arrival", "constant",
        locustfile=path,
    )  # fmt: skip
    arrivals = locust.summary["arrivals"]
    assert Counter(seen.read_text().split()) == {"start": 20, "stop": 20}
    assert check_ledger(locust)["ok"] == arrivals["achieved"] > 3
    assert arrivals["not_sent_why"]["task"] > 6
    assert locust.summary["run"]["load"]["exceptions"] > 3
    assert arrivals["offered"] == arrivals["achieved"] + arrivals["not_sent"]

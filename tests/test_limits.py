"""Warnings while a run goes on: when, how often, and what they say."""

import json
import re

import pytest

from llmload.metrics.tally import Tallies
from llmload.mock.process import MockProcess
from llmload.records import Completion
from llmload.sinks import calibration
from llmload.swarm.limits import Limits
from tests.locusts import run_locust

BLOCKING = """
import time
import gevent
from gevent import monkey
from locust import events
from llmload import ChatUser

sleep = monkey.get_original("time", "sleep")

class Chat(ChatUser):
    pass

def block():
    while True:
        sleep(0.03)
        gevent.sleep(0.01)

@events.test_start.add_listener
def begin(**_):
    gevent.spawn(block)
"""


class Run:
    """Made-up reports at made-up times, one a second, and the warnings after each."""

    def __init__(self, stamps="read"):
        self.stamps = stamps
        self.now_s = 100.0
        self.limits = Limits(clock=lambda: self.now_s)
        self.said = {}

    def second(self, worker="worker-0", *, cpu=50.0, lag_ms=1.0, itl_ms=20, events=0, answer_s=2.0, held=None):
        """One report of a worker, a second later than the one before."""
        self.now_s += 1
        self.limits.take(self.report(worker, cpu, lag_ms, itl_ms, events, answer_s, held))
        said = list(self.limits.warnings())
        if said:
            self.said[self.now_s] = said

    def report(self, worker, cpu, lag_ms, itl_ms, events, answer_s, held):
        gaps_us = (itl_ms * 1000,) * 3 if events else ()
        answer = Completion(
            id="a", scenario="Chat", model="m", worker=worker, started_unix_ns=0, outcome="ok", ttft_s=0.2,
            closed_s=answer_s, gaps_us=gaps_us, token_events=events, stamps=self.stamps,
        )  # fmt: skip
        client = {"cpu_percent": cpu, "lags_us": [lag_ms * 1000] * 50, "held_events_per_second": held}
        return {"worker": worker, "client": client, "tallies": Tallies([answer] if events else [])}


def test_a_worker_within_its_limits_is_left_alone():
    """CPU below 90 % and a lag below a tenth of TTFT is nothing to be warned of while it runs."""
    run = Run()
    for _ in range(40):
        run.second(cpu=85.0, lag_ms=9.0, events=100)
    assert run.said == {}


def test_a_busy_worker_is_named_every_30_seconds():
    """The first warning comes when it has reported for 5 s, the next ones 30 s apart."""
    run = Run()
    for _ in range(70):
        run.second(cpu=97.0, lag_ms=4.0, events=100)
    text = "worker-0 is at its limit: CPU 97 %, loop lag p99 4 ms (ITL p50 20 ms): start more workers"
    assert run.said == {106.0: [text], 136.0: [text], 166.0: [text]}


@pytest.mark.parametrize(
    ("stamps", "itl_ms", "lag_ms", "warned"),
    [
        ("read", 20, 19.0, False),
        ("read", 20, 21.0, True),  # more than a tenth of TTFT, 200 ms
        ("read", 50, 21.0, True),
        ("kernel", 50, 49.0, False),  # late reads move no stamp of the kernel
        ("kernel", 20, 21.0, True),  # but tokens share reads from one ITL on
    ],
)
def test_lag_alone_can_be_the_limit(stamps, itl_ms, lag_ms, warned):
    """A blocked loop uses no CPU: the lag counts against TTFT, with kernel stamps against a whole ITL only."""
    run = Run(stamps)
    for _ in range(8):
        run.second(cpu=10.0, lag_ms=lag_ms, itl_ms=itl_ms, events=100)
    state = f"CPU 10 %, loop lag p99 {lag_ms:.0f} ms (ITL p50 {itl_ms} ms)"
    assert run.said == ({106.0: [f"worker-0 is at its limit: {state}: start more workers"]} if warned else {})


def test_each_worker_has_its_own_silence():
    """A second worker that comes to its limit later is named at once; a process of its own has other advice."""
    run = Run()
    for second in range(12):
        run.second("worker-1", cpu=99.0 if second > 8 else 20.0, lag_ms=0.0)
        run.second("local", cpu=93.0, lag_ms=0.0, itl_ms=0)
    assert list(run.said.values()) == [
        ["this process is at its limit: CPU 93 %, loop lag p99 0 ms: start workers"],
    ]
    for _ in range(12):
        run.second("worker-1", cpu=99.0, lag_ms=0.0)
    assert [said[0].split(":")[0] for said in run.said.values()] == [
        "this process is at its limit",
        "worker-1 is at its limit",
    ]


def test_a_worker_that_was_busy_is_forgiven():
    """Only the last 10 s count, so that the start of many users is no reason for ever."""
    run = Run()
    for _ in range(4):
        run.second(cpu=100.0)
    for _ in range(20):
        run.second(cpu=60.0)
    assert run.said == {}


def test_more_events_than_were_calibrated():
    """The rate is one over 10 s at least; without a calibration of the machine nothing is said."""
    for held, said in ((950.0, "1,000 events/s where 950 were calibrated"), (1_000.0, None), (None, None)):
        run = Run()
        for _ in range(12):
            run.second(events=1_000, held=held)
        text = f"worker-0 is at its limit: CPU 50 %, loop lag p99 1 ms (ITL p50 20 ms), {said}: start more workers"
        assert run.said == ({111.0: [text]} if said else {})


def test_long_answers_that_end_together_are_no_peak():
    """40 s of tokens are counted in the second of their end: 40,000 events are 1,000 a second."""
    for held, warned in ((1_001.0, False), (999.0, True)):
        run = Run()
        for second in range(1, 161):
            run.second(events=40_000 if second % 40 == 0 else 0, answer_s=40.0, held=held)
        assert bool(run.said) == warned


def test_a_worker_that_went_silent_is_not_warned_of():
    """Its last reports are too old to say anything."""
    run = Run()
    for _ in range(3):
        run.second(cpu=99.0)
    run.now_s += 20
    assert list(run.limits.warnings()) == []


def test_a_run_that_blocks_its_loop_says_so_while_it_runs(tmp_path):
    """LOAD-03: 30 ms of every 40 blocked let tokens that are 20 ms apart share reads; one warning in a run of 9 s."""
    path = tmp_path / "blocking.py"
    path.write_text(BLOCKING)
    calibration.write(
        tmp_path / "llmload" / "calibration.json",
        {"machine": calibration.machine(), "result": {"events_per_second": 1.0}},
    )
    with MockProcess("--ttft-ms", "50", "--itl-ms", "20", "--tokens", "40") as mock:
        locust = run_locust(
            tmp_path, "--host", mock.url, "--model", "mock", "-u", 4, "-r", 4, "-t", "9s", locustfile=path,
            env={"XDG_CACHE_HOME": str(tmp_path)},
        )  # fmt: skip
    warnings = [line for line in locust.text.splitlines() if "is at its limit" in line]
    assert len(warnings) == 1, locust.text
    assert re.search(
        r"/WARNING/llmload: this process is at its limit: CPU \d+ %, loop lag p99 \d+ ms \((ITL|TTFT) p50 \d+ ms\).*"
        r": start workers$",
        warnings[0],
    )
    assert locust.text.index("is at its limit") < locust.text.index("requests: ")
    assert json.loads((locust.run / "summary.json").read_text())["client"]["verdict"] in ("mixed", "client")

"""The Locust runs of the bench, told what to do by the variable BENCH, a JSON object.

`arm`: `llmload` runs the real `ChatUser` with all that stands behind it, `baseline` a plain Locust user that makes an
httpx client of its own. `users` start evenly over `spread_s` seconds (0: at once, and then the event loop is probed);
after `warm_s` seconds, `window_s` are measured. `out`: the file for the result.
"""

from __future__ import annotations

import json
import os
import time
from itertools import count
from pathlib import Path
from typing import Any

import gevent
import psutil
from locust import events

from llmload.swarm.window import Window

BENCH = json.loads(os.environ["BENCH"])
places = count()
marks: dict[str, int] = {}


class Probe:
    """The longest time for which the event loop came back to nobody, by a greenlet that asks for a turn each 1 ms."""

    longest_ns = 0

    def run(self) -> None:
        before_ns = time.monotonic_ns()
        while True:
            gevent.sleep(0.001)
            now_ns = time.monotonic_ns()
            if "first_ns" in marks:
                self.longest_ns = max(self.longest_ns, now_ns - max(before_ns, marks["first_ns"]) - 1_000_000)
            before_ns = now_ns


class Placed:
    """What both kinds of users do at their start."""

    def __init__(self, environment: Any) -> None:
        marks.setdefault("first_ns", time.monotonic_ns())
        super().__init__(environment)

    def on_start(self) -> None:
        gevent.sleep(BENCH["spread_s"] * next(places) / BENCH["users"])


if BENCH["arm"] == "llmload":
    from llmload import ChatUser

    class Chat(Placed, ChatUser):
        """The user that everybody gets."""

else:
    import httpx
    from locust import User

    from bench import baseline

    class Plain(Placed, User):
        """A user with an httpx client, made as the documentation shows it."""

        def __init__(self, environment: Any) -> None:
            super().__init__(environment)
            self.client = httpx.Client()

        def ask(self) -> None:
            baseline.ask(self.client, self.environment.host, f"baseline-{time.monotonic_ns()}")

        tasks = [ask]  # noqa: RUF012


@events.init.add_listener
def begin(environment: Any, **_: Any) -> None:
    # not at the test's start: Locust makes its users right after that without giving anybody a turn
    probe = Probe()
    marks["resident_bytes"] = psutil.Process().memory_info().rss
    if not BENCH["spread_s"]:
        gevent.spawn(probe.run)
    gevent.spawn(watch, environment, probe)


def watch(environment: Any, probe: Probe) -> None:
    """Measure the window, write down the result and end the run."""
    while "first_ns" not in marks:
        gevent.sleep(0.01)
    gevent.sleep(BENCH["warm_s"])
    window = Window()
    gevent.sleep(BENCH["window_s"])
    result = {**window.end(), "first_ns": marks["first_ns"], "freeze_ms": probe.longest_ns / 1e6}
    result["each_bytes"] = (psutil.Process().memory_info().rss - marks["resident_bytes"]) / BENCH["users"]
    Path(BENCH["out"]).write_text(json.dumps(result), encoding="ascii")
    environment.runner.quit()

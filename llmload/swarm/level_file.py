"""The locustfile of one level of `llmload calibrate`, see `level`; loaded by Locust and imported by nobody.

The environment variable `LLMLOAD_LEVEL` holds JSON with `users`; `spread_s`, over which they start evenly; `warm_s`,
how long after the start the window begins; `window_s`, its length; `server_pid`; and `out`, the file for what was seen.
"""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from typing import Any

import gevent
from locust import events

from llmload import ChatUser
from llmload.swarm.lag import LagProbe
from llmload.swarm.session import session_of
from llmload.swarm.window import Window

LEVEL = json.loads(os.environ["LLMLOAD_LEVEL"])
places = count()


class Chat(ChatUser):
    """The user that everybody gets."""

    def on_start(self) -> None:
        gevent.sleep(LEVEL["spread_s"] * next(places) / LEVEL["users"])


def begin(environment: Any, **_: Any) -> None:
    """Listener of `test_start`."""
    gevent.spawn(watch, environment)


def watch(environment: Any) -> None:
    """Measure the window, write down what was seen, and end the run."""
    gevent.sleep(LEVEL["warm_s"])
    lag, window = LagProbe(), Window(server_pid=LEVEL["server_pid"])
    lag.start()
    gevent.sleep(LEVEL["window_s"])
    seen = {**window.end(), "lags_us": lag.sample()["lags_us"]}
    seen["clock_offset_ns"] = session_of(environment).setup.clock.unix_ns(0)
    lag.stop()
    Path(LEVEL["out"]).write_text(json.dumps(seen), encoding="ascii")
    environment.runner.quit()


events.test_start.add_listener(begin)

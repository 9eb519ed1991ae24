"""A child process of the bench: users of one client against the mock, or the cost of making clients.

    python -m bench.child ARM JSON      ARM: baseline, llmload, floor or cost

Prints one line of JSON. Everything runs under gevent's monkey patching, as it does in Locust.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import gc  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from array import array  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import partial  # noqa: E402
from itertools import count  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
import httpx  # noqa: E402
import psutil  # noqa: E402
from gevent.monkey import get_original  # noqa: E402

from bench import baseline  # noqa: E402
from bench.floor import Floor  # noqa: E402
from llmload.client import Client  # noqa: E402
from llmload.config import Settings  # noqa: E402
from llmload.protocols.openai_chat import OpenAIChat  # noqa: E402
from llmload.records import ChatRequest, Completion  # noqa: E402
from llmload.surroundings import Surroundings, WallClock  # noqa: E402
from llmload.swarm.window import Window  # noqa: E402
from llmload.target import Target  # noqa: E402
from llmload.wire.choose import open_wire  # noqa: E402
from llmload.wire.deadlines import Keeper  # noqa: E402
from llmload.wire.tls import shared_context  # noqa: E402

ASK = ChatRequest(messages=baseline.BODY["messages"], model="mock")  # type: ignore[arg-type]
Ask = Callable[[str], list[Any]]
BLOCKED_S, EVERY_S = 0.012, 0.015
"""What a neighbour in the same event loop takes of it, who never yields: a parser, a database, a tokenizer."""


class Deaf:
    """A listener that does nothing: only the client is measured."""

    def first_token(self, request: ChatRequest, ttft_s: float) -> None:
        """See `client.Listener`."""

    def finished(self, request: ChatRequest, completion: Completion) -> None:
        """See `client.Listener`."""


def surroundings(url: str) -> Surroundings:
    """Return what the clients of this process share, with the default deadlines."""
    settings, target = Settings(model="mock"), Target.parse(url, path=OpenAIChat.path)
    return Surroundings(
        settings=settings,
        target=target,
        protocol=OpenAIChat(),
        redactor=settings.redactor(target),
        keeper=Keeper(),
        clock=WallClock(),
        worker="bench",
        lag_since=lambda _: 0.0,
    )


def ask_llmload(client: Client, offset_ns: int, request_id: str) -> list[Any]:
    """Send one request and return the fields of `truth.Answer`, all of them taken from the completion."""
    done = client.complete(ASK, request_id=request_id, listener=Deaf())
    if done.outcome != "ok" or done.ttft_s is None:
        raise RuntimeError(f"{request_id} {done.outcome}: {done.kind} {done.message}")
    gaps_ns = [gap_us * 1000 for gap_us in done.gaps_us]
    origin_ns = done.started_unix_ns - offset_ns
    return [request_id, round(done.ttft_s * 1e9), gaps_ns, origin_ns, done.events_per_read]


def users_of(arm: str, url: str, users: int, *, ca_file: str | None = None) -> list[Ask]:
    """Return one function a user that sends a request of the given id."""
    trust = shared_context(ca_file=ca_file)
    if arm == "llmload":
        around = surroundings(url)
        offset_ns = around.clock.unix_ns(0)
        wires = [open_wire(around.target.url, ssl_context=trust) for _ in range(users)]
        return [partial(ask_llmload, Client(wire, around), offset_ns) for wire in wires]
    if arm == "floor":
        return [Floor(url, ca_file=ca_file).ask for _ in range(users)]
    # One TLS context for all spares the bench minutes; it has no part in what is measured here.
    return [partial(baseline.ask, httpx.Client(verify=trust), url) for _ in range(users)]


def neighbour() -> None:
    """Hold the event loop for most of the time, without work that would take a core from anybody."""
    sleep = get_original("time", "sleep")
    while True:
        sleep(BLOCKED_S)
        gevent.sleep(EVERY_S - BLOCKED_S)


def carry(
    arm: str,
    url: str,
    *,
    users: int,
    spread_s: float,
    warm_s: float,
    window_s: float,
    hindered: bool,
    ca_file: str | None = None,
) -> dict[str, Any]:
    """Let users, who start evenly over `spread_s`, send request after request; measure `window_s` after `warm_s`.

    Returns:
        Every answer; how many requests were sent; what each user added to the resident memory until the window's
        end; and what `Window.end` returns.
    """
    gc.collect()
    resident_bytes = psutil.Process().memory_info().rss
    answers: list[list[Any]] = []
    numbers = count(1)
    asks = users_of(arm, url, users, ca_file=ca_file)
    begin_s = time.monotonic()
    end_s = begin_s + warm_s + window_s

    def user(ask: Ask, place: int) -> None:
        gevent.sleep(spread_s * place / users)
        while time.monotonic() < end_s:
            answer = ask(f"{arm}-{next(numbers)}")
            answer[2] = array("q", answer[2])  # what the bench keeps is not the client's memory
            answers.append(answer)

    greenlets = [gevent.spawn(user, ask, place) for place, ask in enumerate(asks)]
    if hindered:
        gevent.spawn(neighbour)
    gevent.sleep(begin_s + warm_s - time.monotonic())
    window = Window()
    gevent.sleep(end_s - time.monotonic())
    measured = window.end()
    each_bytes = (psutil.Process().memory_info().rss - resident_bytes) / users
    gevent.joinall(greenlets, raise_error=True)
    rows = [[*answer[:2], answer[2].tolist(), *answer[3:]] for answer in answers]
    return {"answers": rows, "sent": next(numbers) - 1, "each_bytes": each_bytes, **measured}


def cost(*, clients: int, batches: int) -> dict[str, float]:
    """Return the CPU milliseconds of making one client: median over batches of the mean of a batch.

    httpx loads the certificates anew for each of its clients, so a batch of them has a tenth of `clients`.
    """
    around = surroundings("http://127.0.0.1:1/v1")
    Client(open_wire(around.target.url), around)  # loads the certificates once, and what is imported late
    return {
        "baseline": statistics.median(_mean_ms(httpx.Client, max(1, clients // 10)) for _ in range(batches)),
        "llmload": statistics.median(
            _mean_ms(lambda: Client(open_wire(around.target.url), around), clients) for _ in range(batches)
        ),
    }


def _mean_ms(make: Callable[[], Any], times: int) -> float:
    begin_ns = time.process_time_ns()
    made = [make() for _ in range(times)]
    spent_ns = time.process_time_ns() - begin_ns
    for one in made:
        one.close()
    return spent_ns / times / 1e6


if __name__ == "__main__":
    _arm, _options = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(cost(**_options) if _arm == "cost" else carry(_arm, **_options)))

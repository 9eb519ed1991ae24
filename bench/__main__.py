"""`python -m bench`: measure, and print the table of the README.

--quick     a short run, whose figures say little
--write     also put the table into README.md, between its `bench` marks
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from statistics import median

from bench.rounds import ARMS, CLIENTS, ROOT, Load, Round, Spawn, compare, cost, spawn
from llmload.metrics.truth import percentile
from tests import certificates

HEAD = "| | httpx + sseclient-py | llmload's client | Locust with llmload | bare gevent loop |\n|---|---|---|---|---|"
NOTES = """\
Errors are client − server in ms, p50 / p99 of their size, in brackets the signed median; each figure is the median of \
{rounds} rounds, in which the clients took turns.
Server: TTFT {load.ttft_ms} ms, a token every {load.itl_ms} ms, answers of {load.tokens} tokens; {requests} requests \
in all, every one found in the server's log.
*sent* is the server's stamp of the request's arrival − the client's stamp of its start, *first token* the client's \
stamp of its arrival − the server's before the write; TTFT has both errors in it, and the way there and back.
In lockstep all streams get their tokens at the same moments, so a client is late by what stands before it in the queue.
CPU is that of the whole process, the cost of its requests included. What stands below it is of the round with the \
median CPU; ratios are medians of each round's. \
The first column's clients keep httpx's own \
timeouts; in the last three rows each of them loads a TLS context of its own, which is httpx's default.
The last column is no client, but what one costs at least: a watcher a connection, `recvmsg`, llhttp, orjson.
*Coalesced* events shared a read with a later one: of their arrival only a bound is known, so they are in no error. \
The first column's clients cannot tell, and stamp them all.
*Flat out* the server sends as fast as it can to {flat.users} streams; events per second of CPU time, not of the clock.
*Blocked*: a neighbour in the client's event loop holds it for 12 of every 15 ms. One round only.
*What TLS adds* is the CPU per token event over TLS less that of the same streams without; the bare loop's TLS is \
what Python's own sockets are made of. These, and the rows of 1,000 streams and more, are of one round.
*Without a core* is the time in which a client could run while others had the machine, the server among them; it \
shows in the p99.
{machine}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    light: Load
    load: Load
    flat: Load
    blocked: Load
    plain: Load
    many: Load
    most: Load
    rounds: int = 3
    spawned: int = 200
    spawn_rounds: int = 3
    clients: int = 200
    batches: int = 5


BLOCKED = ("baseline", "llmload", "floor")
"""The arms whose event loop the bench can hold."""
KEEP_UP = ("llmload", "locust", "floor")
"""The arms that keep up with a thousand streams; the other's requests run into its timeouts."""
TLS = ("llmload", "floor")
FULL = Size(
    light=Load(users=50, itl_ms=50, tokens=40),
    load=Load(),
    flat=Load(users=20, ttft_ms=0, itl_ms=0, tokens=500),
    blocked=Load(users=50, itl_ms=50, tokens=40, hindered=True),
    plain=Load(users=100),
    many=Load(users=1000, itl_ms=50, tokens=100, window_s=5.0),
    most=Load(users=2000, itl_ms=500, tokens=12, window_s=5.0),
)
QUICK = Size(
    light=Load(users=20, itl_ms=50, tokens=20, window_s=0.6),
    load=Load(users=100, tokens=20, window_s=0.6),
    flat=Load(users=20, ttft_ms=0, itl_ms=0, tokens=500, window_s=0.6),
    blocked=Load(users=20, tokens=20, window_s=0.6, hindered=True),
    plain=Load(users=20, tokens=20, window_s=0.6),
    many=Load(users=100, itl_ms=50, tokens=10, window_s=0.6),
    most=Load(users=200, itl_ms=100, tokens=5, window_s=0.6),
    rounds=1,
    spawned=20,
    spawn_rounds=1,
    clients=50,
    batches=3,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything one run of the bench has measured, by arm."""

    light: dict[str, list[Round]]
    paced: dict[str, list[Round]]
    lockstep: dict[str, list[Round]]
    flat: dict[str, list[Round]]
    blocked: dict[str, list[Round]]
    plain: dict[str, list[Round]]
    tls: dict[str, list[Round]]
    many: dict[str, list[Round]]
    most: dict[str, list[Round]]
    cost_ms: dict[str, float]
    spawns: dict[str, list[Spawn]]


def measure(size: Size) -> Figures:
    """Measure everything; eight minutes for `FULL`.

    Raises:
        RuntimeError: a request failed, or is missing from the server's log.
    """
    figures = Figures(
        light=compare(size.light, ARMS, size.rounds),
        paced=compare(size.load, ARMS, size.rounds),
        lockstep=compare(replace(size.load, lockstep=True), ARMS, size.rounds),
        flat=compare(size.flat, ARMS, size.rounds),
        blocked=compare(size.blocked, BLOCKED, 1),
        plain=compare(size.plain, TLS, 1),
        tls=compare(replace(size.plain, certificate=certificates.files()), TLS, 1),
        many=compare(size.many, KEEP_UP, 1),
        most=compare(size.most, KEEP_UP, 1),
        cost_ms=cost(clients=size.clients, batches=size.batches),
        # the baseline blocks the loop for so long that noise does not matter, and a second time would say nothing
        spawns={
            arm: [spawn(arm, size.spawned) for _ in range(size.spawn_rounds if arm == "llmload" else 1)]
            for arm in CLIENTS
        },
    )
    for one in _rounds(figures):
        if one.matched != one.sent:
            raise RuntimeError(f"{one.sent} requests were sent, {one.matched} of them are in the server's log")
    return figures


def _streams(load: Load) -> str:
    return f"{load.users} streams of {1000 / load.itl_ms:g} tokens/s"


def table(figures: Figures, size: Size) -> str:
    """Return the table and its notes, in Markdown."""
    load, paced, lockstep = size.load, figures.paced, figures.lockstep
    rows = [
        _row(f"**{_streams(size.light)}**: TTFT", figures.light, lambda one: one.ttft_ms),
        _row("ITL", figures.light, lambda one: one.itl_ms),
        *_cost_rows(figures.light),
        _row(f"**{_streams(load)}**: sent", paced, lambda one: one.start_ms),
        _row("first token", paced, lambda one: one.arrival_ms),
        _row("TTFT", paced, lambda one: one.ttft_ms),
        _row("ITL", paced, lambda one: one.itl_ms),
        *_cost_rows(paced),
        _row("**the same in lockstep**: sent", lockstep, lambda one: one.start_ms),
        _row("first token", lockstep, lambda one: one.arrival_ms),
        _row("TTFT", lockstep, lambda one: one.ttft_ms),
        _row("ITL", lockstep, lambda one: one.itl_ms),
        *_cost_rows(lockstep),
        _each("**flat out**: events per second of CPU", figures.flat, lambda one: f"{1e6 / one.cpu_us:,.0f}"),
        _coalesced_row(figures.flat),
        _row(f"**blocked**, {size.blocked.users} streams: TTFT", figures.blocked, lambda one: one.ttft_ms),
        _row("ITL", figures.blocked, lambda one: one.itl_ms),
        _coalesced_row(figures.blocked),
        _row(f"**over TLS**, {_streams(size.plain)}: TTFT", figures.tls, lambda one: one.ttft_ms),
        _row("ITL", figures.tls, lambda one: one.itl_ms),
        _each("CPU per token event, µs", figures.tls, lambda one: f"{one.cpu_us:.0f}"),
        _line("what TLS adds, µs", *(_tls_adds_us(figures, arm) for arm in ARMS)),
        *_many_rows(f"**{_streams(size.many)}**", figures.many),
        *_many_rows(f"**{_streams(size.most)}**", figures.most),
        _line("**one client**: CPU, ms", f"{figures.cost_ms['baseline']:.1f}", f"{figures.cost_ms['llmload']:.2f}"),
        _spawn_row(f"**{size.spawned} users at once**: longest freeze, ms", figures, lambda one: one.freeze_ms),
        _spawn_row("until the last request is at the server, ms", figures, lambda one: one.arrived_ms),
    ]
    requests = sum(one.sent for one in _rounds(figures))
    notes = NOTES.format(load=load, flat=size.flat, rounds=size.rounds, requests=f"{requests:,}", machine=_machine())
    return "\n".join([HEAD, *rows, "", notes])


def write(text: str, readme: str) -> str:
    """Return `readme` with `text` between its marks."""
    begin, end = "<!-- bench:begin -->", "<!-- bench:end -->"
    found, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", readme, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"README.md has {count} places for the table, not 1")
    return found


def _rounds(figures: Figures) -> list[Round]:
    parts = (getattr(figures, one.name) for one in fields(figures) if one.name not in ("cost_ms", "spawns"))
    return [one for part in parts for rounds in part.values() for one in rounds]


def _tls_adds_us(figures: Figures, arm: str) -> str:
    if arm not in figures.tls:
        return ""
    with_us, without_us = (median(one.cpu_us for one in part[arm]) for part in (figures.tls, figures.plain))
    return f"{with_us - without_us:.0f}"


def _many_rows(name: str, arms: dict[str, list[Round]]) -> list[str]:
    return [
        _row(f"{name}: TTFT", arms, lambda one: one.ttft_ms),
        _row("ITL", arms, lambda one: one.itl_ms),
        _each("CPU per token event, µs", arms, lambda one: f"{one.cpu_us:.0f}"),
        _coalesced_row(arms),
        _each("memory per stream, KiB", arms, lambda one: f"{one.each_bytes / 1024:.0f}"),
        _waited_row(arms),
    ]


def _row(name: str, arms: dict[str, list[Round]], errors_ms: Callable[[Round], Sequence[float]]) -> str:
    return _line(name, *(_errors([errors_ms(one) for one in arms.get(arm, [])]) for arm in ARMS))


def _errors(rounds: Sequence[Sequence[float]]) -> str:
    rounds = [one for one in rounds if one]
    if not rounds:
        return ""
    sizes = [[abs(error) for error in one] for one in rounds]
    p50, p99 = (median(percentile(one, percent) for one in sizes) for percent in (50, 99))
    signed = median(percentile(one, 50) for one in rounds)
    return f"{p50:.2f} / {p99:.2f} ({round(signed, 2) + 0.0:+.2f})"  # + 0.0: there is no -0.00


def _cost_rows(arms: dict[str, list[Round]]) -> list[str]:
    """Return what the clients cost. Ratios are medians of those of each round: its clients met the same machine."""
    return [
        _each("CPU per token event, µs", arms, lambda one: f"{one.cpu_us:.0f}"),
        _ratio_row("against httpx + sseclient-py", arms, "baseline"),
        _ratio_row("against the bare loop", arms, "floor"),
        _coalesced_row(arms),
        _each("memory per stream, KiB", arms, lambda one: f"{one.each_bytes / 1024:.0f}"),
        _waited_row(arms),
    ]


def _waited_row(arms: dict[str, list[Round]]) -> str:
    return _each(
        "without a core, % of the time",
        arms,
        lambda one: "n/a" if one.waited_percent is None else f"{one.waited_percent:.1f}",
    )


def _ratio_row(name: str, arms: dict[str, list[Round]], base: str) -> str:
    return _line(
        name,
        *(
            f"{median(one.cpu_us / of.cpu_us for one, of in zip(arms[arm], arms[base], strict=True)):.2f} ×"
            for arm in ARMS
        ),
    )


def _coalesced_row(arms: dict[str, list[Round]]) -> str:
    return _each(
        "coalesced, % of the events",
        arms,
        lambda one: "" if one.coalesced_percent is None else f"{one.coalesced_percent:.1f}",
    )


def _each(name: str, arms: dict[str, list[Round]], shown: Callable[[Round], str]) -> str:
    """Return a row of each arm's median round, by what it cost."""
    return _line(
        name, *(shown(sorted(arms[arm], key=_cost_us)[len(arms[arm]) // 2]) if arm in arms else "" for arm in ARMS)
    )


def _cost_us(one: Round) -> float:
    return one.cpu_us


def _spawn_row(name: str, figures: Figures, value_ms: Callable[[Spawn], float]) -> str:
    baseline, llmload = (f"{median(value_ms(one) for one in figures.spawns[arm]):,.0f}" for arm in CLIENTS)
    return _line(name, baseline, "", llmload)


def _line(name: str, *cells: str) -> str:
    shown = [name, *cells, *[""] * (len(ARMS) - len(cells))]
    return "|" + "|".join(f" {cell} " if cell else " " for cell in shown) + "|"


def _machine() -> str:
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("locust", "gevent", "httpx", "sseclient-py", "httptools", "orjson")
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{cores} cores ({platform.machine()}), {platform.system()}"
    return f"{system}, Python {platform.python_version()}, {libraries}."


def main(arguments: Sequence[str]) -> int:
    """Run the bench and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what llmload's numbers are worth.")
    parser.add_argument("--quick", action="store_true", help="a short run, whose figures say little")
    parser.add_argument("--write", action="store_true", help="also put the table into README.md")
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else FULL
    begin_s = time.monotonic()
    text = table(measure(size), size)
    print(text)
    print(f"\n{time.monotonic() - begin_s:.0f} s", file=sys.stderr)
    if options.write:
        path = ROOT / "README.md"
        path.write_text(write(text, path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

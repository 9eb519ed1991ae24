"""Runs the arms of the bench in turns, each in a process of its own, and holds them against the mock's truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.truth import Answer, errors, tokens_between
from llmload.mock.process import MockProcess
from llmload.records import Completion
from llmload.sinks.record import find_run, read_run

ROOT = Path(__file__).parents[1]
CLIENTS = ("baseline", "llmload")
MS = 1e6
"""Nanoseconds of a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What every arm of a comparison gets: the same users and the same server."""

    users: int = 50
    ttft_ms: int = 200
    itl_ms: int = 50
    tokens: int = 40
    window_s: float = 6.0
    lockstep: bool = False

    @property
    def spread_s(self) -> float:
        """Users start evenly over the time of one answer; when the window begins, all are there and warm."""
        return (self.ttft_ms + (self.tokens - 1) * self.itl_ms) / 1e3

    @property
    def mock_options(self) -> list[str]:
        """The options of `llmload mock`."""
        numbers = {"--ttft-ms": self.ttft_ms, "--itl-ms": self.itl_ms, "--tokens": self.tokens, "--seed": 1}
        options = [word for name, value in numbers.items() for word in (name, str(value))]
        return [*options, "--lockstep"] if self.lockstep else options


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one arm did in one round. Errors are client minus server, milliseconds, one for each request or gap.

    Only answers count that lie wholly inside the window; `sent` and `matched` count all. `cpu_us` is the CPU time of
    the process per token event of the window.
    """

    sent: int
    matched: int
    measured: int
    cpu_us: float
    shared_reads: int
    start_ms: list[float]
    arrival_ms: list[float]
    ttft_ms: list[float]
    itl_ms: list[float]


@dataclass(frozen=True, slots=True)
class Spawn:
    """Users that all start at once, milliseconds from the making of the first."""

    freeze_ms: float
    """The longest time for which the event loop was not free for anybody else."""
    arrived_ms: float
    """When the last user's first request was at the server."""


def compare(load: Load, arms: Sequence[str], rounds: int) -> dict[str, list[Round]]:
    """Run the arms in turns against one mock server."""
    results: dict[str, list[Round]] = {arm: [] for arm in arms}
    with MockProcess(*load.mock_options) as mock:
        for _ in range(rounds):
            for arm in arms:
                carried = _locust(load, mock.url) if arm == "locust" else _client(arm, load, mock.url)
                results[arm].append(_round(carried, mock.truth(clear=True)))
    return results


def spawn(arm: str, users: int) -> Spawn:
    """Start `users` Locust users at once."""
    load = Load(users=users)
    with MockProcess(*load.mock_options) as mock, tempfile.TemporaryDirectory() as folder:
        result = _run_locust(arm, load, mock.url, Path(folder), spread_s=0.0)
        first: dict[int, int] = {}
        for place, record in enumerate(sorted(mock.truth(), key=lambda one: one["arrived_ns"])):
            first[place] = record["arrived_ns"]
    last_ns = first[users - 1]
    return Spawn(result["freeze_ms"], (last_ns - result["first_ns"]) / MS)


def cost(*, clients: int, batches: int) -> dict[str, float]:
    """Return the CPU milliseconds of making one client, by arm."""
    return _child("cost", {"clients": clients, "batches": batches})  # type: ignore[no-any-return]


def _client(arm: str, load: Load, url: str) -> dict[str, Any]:
    options = {"url": url, "users": load.users, "spread_s": load.spread_s, "window_s": load.window_s}
    carried: dict[str, Any] = _child(arm, options)
    return {**carried, "answers": [Answer(*row) for row in carried["answers"]]}


def _child(arm: str, options: Mapping[str, Any]) -> Any:
    return json.loads(_output([sys.executable, "-m", "bench.child", arm, json.dumps(options)], {}))


def _locust(load: Load, url: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = _run_locust("llmload", load, url, Path(folder), spread_s=load.spread_s)
        _, completions, problems = read_run(find_run(folder))
        answers = [_answer(one) for one in completions]
    assert not problems, problems
    return {**result, "answers": answers, "sent": len(answers)}


def _run_locust(arm: str, load: Load, url: str, folder: Path, *, spread_s: float) -> dict[str, Any]:
    out = folder / "result"
    told = {"arm": arm, "users": load.users, "spread_s": spread_s, "window_s": load.window_s, "out": str(out)}
    options = ["-u", str(load.users), "-r", str(load.users), "--host", url, "--headless", "--only-summary"]
    if arm == "llmload":
        options += ["--model", "mock", "--run-dir", str(folder), "--no-probe"]
    _output([sys.executable, "-m", "locust", "-f", "bench/locustfile.py", *options], {"BENCH": json.dumps(told)})
    result: dict[str, Any] = json.loads(out.read_text(encoding="ascii"))
    return result


def _output(command: Sequence[str], variables: Mapping[str, str]) -> str:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _answer(completion: Completion) -> Answer:
    if completion.outcome != "ok" or completion.ttft_s is None:
        raise RuntimeError(f"{completion.id} {completion.outcome}: {completion.kind} {completion.message}")
    return Answer(
        completion.id,
        round(completion.ttft_s * 1e9),
        [gap_us * 1000 for gap_us in completion.gaps_us],
        events_per_read=completion.events_per_read,
    )


def _round(carried: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Round:
    from_ns, to_ns = carried["window_ns"]
    answers = {answer.id: answer for answer in carried["answers"]}
    pairs = [(answers[one["request_id"]], one) for one in records if one["request_id"] in answers]
    inside = [
        (answer, errors(answer, one))
        for answer, one in pairs
        if from_ns <= one["arrived_ns"] and one["ended_ns"] <= to_ns
    ]
    return Round(
        sent=carried["sent"],
        matched=len(pairs),
        measured=len(inside),
        cpu_us=carried["cpu_s"] * 1e6 / max(1, tokens_between(records, from_ns, to_ns)),
        shared_reads=sum(sum(each - 1 for each in answer.events_per_read or ()) for answer, _ in inside),
        start_ms=_ms(one.start_ns for _, one in inside),
        arrival_ms=_ms(one.arrival_ns for _, one in inside),
        ttft_ms=_ms(one.ttft_ns for _, one in inside),
        itl_ms=_ms(gap for _, one in inside for gap in one.itl_ns),
    )


def _ms(values_ns: Iterable[int | None]) -> list[float]:
    return [value / MS for value in values_ns if value is not None]

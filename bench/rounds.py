"""Runs the arms of the bench in turns, each in a process of its own, and holds them against the mock's truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmload.metrics.truth import Answer, errors, tokens_between
from llmload.mock.process import MockProcess
from llmload.sinks.record import find_run, read_run

ROOT = Path(__file__).parents[1]
CLIENTS = ("baseline", "llmload")
ARMS = ("baseline", "llmload", "locust", "floor")
MS = 1e6
"""Nanoseconds of a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What every arm of a comparison gets: the same users and the same server."""

    users: int = 200
    ttft_ms: int = 200
    itl_ms: int = 20
    tokens: int = 60
    window_s: float = 3.0
    lockstep: bool = False
    hindered: bool = False
    """A neighbour in the client's event loop blocks it most of the time, see `child.neighbour`."""
    certificate: tuple[Path, Path] | None = None
    """PEM files of the server's certificate and key: then it speaks TLS."""

    @property
    def answer_s(self) -> float:
        """How long one answer takes. Users start evenly over this time."""
        return (self.ttft_ms + (self.tokens - 1) * self.itl_ms) / 1e3

    @property
    def warm_s(self) -> float:
        """When the window begins: all are there, and every start from now on is at least a user's second."""
        return self.answer_s + 0.5

    @property
    def mock_options(self) -> list[str]:
        """The options of `llmload mock`."""
        numbers = {"--ttft-ms": self.ttft_ms, "--itl-ms": self.itl_ms, "--tokens": self.tokens, "--seed": 1}
        options = [word for name, value in numbers.items() for word in (name, str(value))]
        if self.certificate is not None:
            options += ["--certificate", str(self.certificate[0]), "--key", str(self.certificate[1])]
        return [*options, "--lockstep"] if self.lockstep else options


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one arm did in one round. Errors are client minus server, milliseconds, see `truth.Errors`.

    They are of requests that began inside the window and of gaps inside it. `cpu_us` is the CPU time of the process
    per token event of the window, `waited_percent` the share of the window in which it could run and had no core, None
    where the system does not say. `sent` and `matched` (found in the server's log) count the whole round, and
    `coalesced_percent` is its share of token events that shared a read with a later one, None where the client does
    not know. `each_bytes` is the resident memory that one user added, with its connection and its answer.
    """

    sent: int
    matched: int
    cpu_us: float
    waited_percent: float | None
    coalesced_percent: float | None
    each_bytes: float
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
                results[arm].append(_round(carried, mock.truth(clear=True), knows_reads=arm != "baseline"))
    return results


def spawn(arm: str, users: int) -> Spawn:
    """Start `users` Locust users at once."""
    load = Load(users=users, ttft_ms=500, itl_ms=200, tokens=4, window_s=2.0)  # few tokens: the start is what counts
    with MockProcess(*load.mock_options) as mock, tempfile.TemporaryDirectory() as folder:
        result = _run_locust(arm, load, mock.url, Path(folder), at_once=True)
        # the last user asks before any answer has ended: the first requests are those that arrived first
        arrivals_ns = sorted(record["arrived_ns"] for record in mock.truth())
    return Spawn(result["freeze_ms"], (arrivals_ns[users - 1] - result["first_ns"]) / MS)


def cost(*, clients: int, batches: int) -> dict[str, float]:
    """Return the CPU milliseconds of making one client, by arm."""
    return _child("cost", {"clients": clients, "batches": batches})  # type: ignore[no-any-return]


def _client(arm: str, load: Load, url: str) -> dict[str, Any]:
    told = {"url": url, "hindered": load.hindered, "ca_file": _ca_file(load), **_times(load)}
    carried: dict[str, Any] = _child(arm, told)
    return {**carried, "answers": [Answer(*row) for row in carried["answers"]]}


def _ca_file(load: Load) -> str | None:
    return None if load.certificate is None else str(load.certificate[0])


def _times(load: Load) -> dict[str, Any]:
    return {"users": load.users, "spread_s": load.answer_s, "warm_s": load.warm_s, "window_s": load.window_s}


def _child(arm: str, options: Mapping[str, Any]) -> Any:
    return json.loads(_output([sys.executable, "-m", "bench.child", arm, json.dumps(options)], {}))


def _locust(load: Load, url: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = _run_locust("llmload", load, url, Path(folder))
        about, completions, _ = read_run(find_run(folder))
        answers = [Answer.of(one) for one in completions]
    return {**result, "answers": answers, "sent": about["started"]}


def _run_locust(arm: str, load: Load, url: str, folder: Path, *, at_once: bool = False) -> dict[str, Any]:
    out = folder / "result"
    told = {"arm": arm, "out": str(out), **_times(load), **({"spread_s": 0.0, "warm_s": 0.0} if at_once else {})}
    options = ["-u", str(load.users), "-r", str(load.users), "--host", url, "--headless", "--only-summary"]
    if arm == "llmload":
        options += ["--model", "mock", "--run-dir", str(folder), "--no-probe"]
        options += ["--ca-file", _ca_file(load)] if load.certificate else []  # type: ignore[list-item]
    _output([sys.executable, "-m", "locust", "-f", "bench/locustfile.py", *options], {"BENCH": json.dumps(told)})
    result: dict[str, Any] = json.loads(out.read_text(encoding="ascii"))
    return result


def _output(command: Sequence[str], variables: Mapping[str, str]) -> str:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _round(carried: Mapping[str, Any], records: Sequence[Mapping[str, Any]], *, knows_reads: bool) -> Round:
    (from_ns, to_ns), waited_s = carried["window_ns"], carried["waited_s"]
    answers = {answer.id: answer for answer in carried["answers"]}
    matched = [one for one in records if one["request_id"] in answers]
    every = [(one, errors(answers[one["request_id"]], one, from_ns=from_ns, to_ns=to_ns)) for one in matched]
    begun = [error for one, error in every if from_ns <= one["arrived_ns"] < to_ns]
    return Round(
        sent=carried["sent"],
        matched=len(matched),
        waited_percent=None if waited_s is None else waited_s * 1e11 / (to_ns - from_ns),
        cpu_us=carried["cpu_s"] * 1e6 / max(1, tokens_between(records, from_ns, to_ns)),
        coalesced_percent=_coalesced_percent(answers.values()) if knows_reads else None,
        each_bytes=carried["each_bytes"],
        start_ms=_ms(one.start_ns for one in begun),
        arrival_ms=_ms(one.arrival_ns for one in begun),
        ttft_ms=_ms(one.ttft_ns for one in begun),
        itl_ms=_ms(gap_ns for _, one in every for gap_ns in one.itl_ns),
    )


def _coalesced_percent(answers: Collection[Answer]) -> float:
    shared = sum(each - 1 for answer in answers for each in answer.events_per_read or ())
    return 100 * shared / sum(sum(answer.events_per_read or [1] * (len(answer.gaps_ns) + 1)) for answer in answers)


def _ms(values_ns: Iterable[int | None]) -> list[float]:
    return [value / MS for value in values_ns if value is not None]

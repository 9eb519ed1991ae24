"""Sweeps: levels that are held one after another, each long enough to be measured.

Pure: no sleep, no clock. With several rounds the levels come interleaved, 5 10 20 5 10 20, so that what drifts (a
server that warms up, a neighbour that wakes) meets every level alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llmload.errors import SetupError
from llmload.pacing.stages import MAX_USERS

Axis = Literal["users", "prompt_tokens"]

MAX_STEPS = 200
"""Levels times rounds: each step has histograms of its own."""
MAX_PROMPT_TOKENS = 2_000_000
_LEVEL = re.compile(r"\d{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Step:
    """One level held once; `round_` is None in a sweep of one round."""

    level: int
    round_: int | None
    users: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Which levels, how often, and for how long.

    Args:
        axis: what a level is: the number of users (the rate, of open-loop users) or the length of the prompt.
        levels: in rising order.
        rounds: how often each is held.
        step_s: how long a step takes from the moment when its users are there, seconds.
        settle_s: how much of that passes before it is measured.
        users: how many users there are; None: as many as the level says.
    """

    axis: Axis
    levels: tuple[int, ...]
    rounds: int = 1
    step_s: float = 30.0
    settle_s: float = 5.0
    users: int | None = None

    @property
    def measured_s(self) -> float:
        return self.step_s - self.settle_s

    @property
    def duration_s(self) -> float:
        """How long the whole takes at least, seconds."""
        return self.step_s * self.rounds * len(self.levels)

    def steps(self) -> Iterator[Step]:
        """Yield the steps in their order."""
        for round_ in range(1, self.rounds + 1):
            for level in self.levels:
                yield Step(level, round_ if self.rounds > 1 else None, self.users or level)


def parse_levels(text: str, *, where: str, high: int = MAX_USERS) -> tuple[int, ...]:
    """Return the levels of a text such as `5,10,20`.

    Args:
        where: the option, as an error calls it.
        high: the highest level that makes sense.

    Raises:
        SetupError: it is empty, or a level is no whole number, zero, huge, not above the one before, or there twice.
    """
    hint = "write rising whole numbers, e.g. 5,10,20,50"
    parts = [part.strip() for part in text.split(",")]
    if not any(parts):
        raise SetupError(f"{where} is empty", hint)
    levels: list[int] = []
    for part in parts:
        if not _LEVEL.fullmatch(part):
            raise SetupError(f"{where}: the level {part!r} is no whole number above 0", hint)
        level = int(part)
        if not 0 < level <= high:
            raise SetupError(f"{where}: the level {level} is not from 1 to {high:,}", hint)
        if level in levels:
            raise SetupError(f"{where}: the level {level} is there twice", "repeat a sweep with --rounds")
        if levels and level < levels[-1]:
            raise SetupError(f"{where}: {level} comes after {levels[-1]}", hint)
        levels.append(level)
    return tuple(levels)


def check_steps(*, step_s: float | None, settle_s: float | None, steps: int) -> None:
    """See that steps can be measured.

    Raises:
        SetupError: they take no time, settle for longer than they last, or are too many.
    """
    if not step_s:
        raise SetupError("--step-time 0 measures nothing", "give each step some time, e.g. --step-time 30s")
    if (settle_s or 0.0) + 2 > step_s:
        raise SetupError(
            f"--settle {settle_s or 0:g}s leaves less than two seconds of --step-time {step_s:g}s to measure",
            "settle for less, or make the steps longer",
        )
    if steps > MAX_STEPS:
        raise SetupError(f"{steps} steps are more than {MAX_STEPS}", "take fewer levels or fewer --rounds")

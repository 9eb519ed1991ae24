"""Stages: the number of users, or the rate of an open loop, as straight lines over time.

Pure: no sleep, no clock; the number at a moment is a function of the seconds since the start.

    30s:50, 2m:50, 10s:200, 1m:200, 20s:0       ramp to 50, hold, spike to 200, hold, back to 0

Each stage goes from where the one before ended, the first one from 0, in a straight line to its own number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmload.errors import SetupError

MAX_USERS = 1_000_000
MAX_DURATION_S = 7 * 86_400.0

EXAMPLE = "write e.g. 30s:50, 2m:50, 20s:0"
_STAGE = re.compile(r"(?P<duration>[^:\s]+)\s*:\s*(?P<users>[^:\s]+)")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stage:
    """In `duration_s` seconds in a straight line to `users`; 0 s is a jump."""

    duration_s: float
    users: float


@dataclass(frozen=True, slots=True)
class Stages:
    """Stages one after another.

    >>> Stages((Stage(10, 50), Stage(5, 50))).at(5)
    25.0
    """

    stages: Sequence[Stage]

    @property
    def duration_s(self) -> float:
        return math.fsum(stage.duration_s for stage in self.stages)

    @property
    def peak(self) -> float:
        return max(stage.users for stage in self.stages)

    @property
    def user_seconds(self) -> float:
        """The area below the line: what all users together spend in the run."""
        return math.fsum((end_s - from_s) * (low + high) / 2 for from_s, end_s, low, high in self._lines())

    def at(self, elapsed_s: float) -> float | None:
        """Return the number at a moment, None from the end on."""
        for from_s, end_s, low, high in self._lines():
            if elapsed_s < end_s:
                return low + (high - low) * max(0.0, elapsed_s - from_s) / (end_s - from_s)
        return None

    def holds(self) -> Iterator[tuple[float, float, float]]:
        """Yield (from, to, number) of every time in which the number stays, seconds since the start; neighbours that
        hold the same number are one."""
        held: tuple[float, float, float] | None = None
        for from_s, end_s, low, high in self._lines():
            if low != high or low == 0:
                continue
            if held is not None and (held[1], held[2]) == (from_s, low):
                held = (held[0], end_s, low)
                continue
            if held is not None:
                yield held
            held = (from_s, end_s, low)
        if held is not None:
            yield held

    def _lines(self) -> Iterator[tuple[float, float, float, float]]:
        from_s = low = 0.0
        for stage in self.stages:
            if stage.duration_s:
                yield from_s, from_s + stage.duration_s, low, stage.users
            from_s, low = from_s + stage.duration_s, stage.users


def parse_stages(text: str, *, where: str = "--stages") -> Stages:
    """Return the stages of a text such as `30s:50, 2m:50, 20s:0`.

    Args:
        where: what an error calls the source of the text.

    Raises:
        SetupError: it is empty, a stage has no unit or no number, nothing is asked for, or it is beyond all bounds.
    """
    parts = [part.strip() for part in text.split(",")]
    if not any(parts):
        raise SetupError(f"{where} is empty", EXAMPLE)
    stages = Stages(tuple(_parse_stage(part, number, where) for number, part in enumerate(parts, 1)))
    if not stages.duration_s:
        raise SetupError(f"{where} {text!r} takes no time", "give at least one stage a duration above 0")
    if stages.duration_s > MAX_DURATION_S:
        raise SetupError(f"{where} {text!r} takes longer than seven days", "check the units")
    if not stages.peak:
        raise SetupError(f"{where} {text!r} asks for nobody", "give at least one stage a number above 0")
    return stages


def _parse_stage(part: str, number: int, where: str) -> Stage:
    which = f"{where}: stage {number}, {part!r},"
    match = _STAGE.fullmatch(part)
    if match is None:
        raise SetupError(f"{which} is no duration:number", EXAMPLE)
    users = match["users"]
    if not _NUMBER.fullmatch(users):
        negative = " (it is negative)" if users.startswith("-") else ""
        raise SetupError(f"{which} goes to {users!r}, which is no number of users{negative}", EXAMPLE)
    if float(users) > MAX_USERS:
        raise SetupError(f"{which} goes to more than {MAX_USERS:,} users", "check the number")
    return Stage(stage_duration_s(match["duration"], which), float(users))


def stage_duration_s(text: str, which: str) -> float:
    """Return a duration such as `90s`, `1m30s` or `0s` in seconds; a unit is needed, for 30:50 could mean minutes.

    Raises:
        SetupError: it is none; `which` says of what.
    """
    if text.startswith("-"):
        raise SetupError(f"{which} goes back in time", EXAMPLE)
    if not _DURATION.fullmatch(text.lower()):
        hint = f"write {text}s or {text}m" if _NUMBER.fullmatch(text) else EXAMPLE
        raise SetupError(f"{which} has no duration with a unit", hint)
    return math.fsum(float(value) * _SECONDS[unit] for value, unit in _PART.findall(text.lower()))

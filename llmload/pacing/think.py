"""Think time: how long a user of a closed loop waits between an answer and the next question.

Pure: no sleep, no clock; the random source is passed in.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from random import Random

from llmload.errors import SetupError

_NUMBER = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_RANGE = re.compile(rf"{_NUMBER}(?:\s*-\s*{_NUMBER})?")
_EXPONENTIAL = re.compile(rf"exp:\s*{_NUMBER}")
_HINT = "give seconds as 2 (always two), 1-3 (evenly between) or exp:2 (exponential with a mean of two)"


@dataclass(frozen=True, slots=True)
class Uniform:
    """A think time evenly spread from `low_s` to `high_s`; the same for all when they are equal."""

    low_s: float
    high_s: float

    def sample(self, random: Random) -> float:
        """Return one think time in seconds."""
        return random.uniform(self.low_s, self.high_s)

    def __str__(self) -> str:
        low, high = _written(self.low_s), _written(self.high_s)
        return low if self.low_s == self.high_s else f"{low}-{high}"


@dataclass(frozen=True, slots=True)
class Exponential:
    """An exponentially distributed think time: mostly short, now and then several times `mean_s`."""

    mean_s: float

    def sample(self, random: Random) -> float:
        """Return one think time in seconds."""
        return random.expovariate(1 / self.mean_s)

    def __str__(self) -> str:
        return f"exp:{_written(self.mean_s)}"


ThinkTime = Uniform | Exponential


def parse_think_time(text: str) -> ThinkTime:
    """Return the think time that an option's value stands for: `2`, `1-3`, `exp:2` or `0`, in seconds.

    `str` of the result is the shortest such text, to the microsecond.

    Raises:
        SetupError: anything else, a range that ends before it begins, or a mean of 0.
    """
    value = text.strip()
    if match := _EXPONENTIAL.fullmatch(value):
        mean_s = _finite(match[1], text)
        if mean_s == 0:
            raise SetupError(f"think time {text!r} has a mean of 0", "for no think time give 0")
        return Exponential(mean_s)
    match = _RANGE.fullmatch(value)
    if match is None:
        raise SetupError(f"think time {text!r} is not understood", _HINT)
    low_s = _finite(match[1], text)
    high_s = low_s if match[2] is None else _finite(match[2], text)
    if low_s > high_s:
        raise SetupError(f"think time {text!r} ends before it begins", "give the shorter time first")
    return Uniform(low_s, high_s)


def _finite(number: str, text: str) -> float:
    seconds = float(number)
    if not math.isfinite(seconds):
        raise SetupError(f"think time {text!r} is too long", _HINT)
    return seconds


def _written(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")

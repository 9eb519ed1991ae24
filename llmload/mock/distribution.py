"""A number that is drawn once for each use: a constant or a distribution, written as one word.

No I/O, no clock; the random source is passed in.

    200                  always 200
    uniform:100:300      evenly between 100 and 300
    normal:200:20        mean 200, standard deviation 20, clipped at 0
    exp:200              exponential with mean 200
    lognormal:200:0.5    median 200, sigma 0.5 of the logarithm
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from llmload.errors import SetupError

SYNTAX = "write 200, uniform:100:300, normal:200:20, exp:200 or lognormal:200:0.5 (no number below 0)"

_PARAMETERS = {"const": 1, "uniform": 2, "normal": 2, "exp": 1, "lognormal": 2}


@dataclass(frozen=True, slots=True)
class Distribution:
    """A parsed distribution; `text` is what the person wrote, in the unit of its option."""

    kind: str
    first: float
    second: float
    text: str

    @property
    def constant(self) -> float | None:
        """The value if it is always the same one, else None."""
        return self.first if self.kind == "const" else None

    def draw(self, rng: Random) -> float:
        """One value, never below 0."""
        if self.kind == "const":
            return self.first
        if self.kind == "uniform":
            return rng.uniform(self.first, self.second)
        if self.kind == "normal":
            return max(0.0, rng.gauss(self.first, self.second))
        if self.kind == "exp":
            return rng.expovariate(1.0 / self.first) if self.first else 0.0
        return self.first * math.exp(rng.gauss(0.0, self.second))


def parse_distribution(text: str, where: str) -> Distribution:
    """Parse `text`; `where` names the option or header for the error.

    Raises:
        SetupError: not of the syntax above, a number below 0 or not finite, or bounds in the wrong order.
    """
    kind, *numbers = text.strip().split(":") if ":" in text else ("const", text)
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        values = []
    in_range = all(math.isfinite(value) and value >= 0 for value in values)
    if not values or _PARAMETERS.get(kind) != len(values) or not in_range:
        raise SetupError(f"{where}: {text!r} is no number and no distribution", SYNTAX)
    if kind == "uniform" and values[0] > values[1]:
        raise SetupError(f"{where}: {text!r} has its bounds in the wrong order", "write the smaller one first")
    return Distribution(kind, values[0], values[1] if len(values) > 1 else 0.0, text.strip())

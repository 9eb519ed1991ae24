"""The settings that say when requests start: closed loop, open loop, or a trace.

No I/O. That options contradict each other is said here; what a trace holds is said in `workload.trace`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from llmload.config import choice, integer, number, text_of
from llmload.errors import SetupError

MODELS = ("poisson", "constant", "gamma")
MAX_RATE = 100_000
_DRIVERS = ("stages", "sweep", "sweep_prompt_tokens", "find_capacity")
"""Options that change the number of users while a run goes on, and with it the rate of an open loop."""


@dataclass(frozen=True, slots=True)
class ArrivalSettings:
    """When requests start; built by `read_arrivals`."""

    rate: float | None = None
    """Requests per second; None: one for each user."""
    arrival: str | None = None
    """One of `MODELS`; None in a closed loop, and with a trace."""
    burstiness: float | None = None
    """Shape of the gamma distribution; None but for gamma."""
    max_in_flight: int | None = None
    """Over all processes of a run; None is no limit."""
    trace: str | None = None
    trace_scale: float = 1.0
    trace_limit: int | None = None

    @property
    def open_loop(self) -> bool:
        """Whether every user is an arrival process; classes may say so of themselves."""
        return self.arrival is not None or self.trace is not None

    def shown(self) -> dict[str, Any]:
        """Return the settings as they are written to a record."""
        return asdict(self)


def read_arrivals(options: Mapping[str, Any]) -> ArrivalSettings:
    """Return the checked settings.

    Args:
        options: option values by name, as text or as a parser left them.

    Raises:
        SetupError: an option makes no sense, or contradicts another.
    """
    settings = ArrivalSettings(
        rate=_rate(options),
        arrival=_arrival(options),
        burstiness=number(options, "burstiness", low=0.01, high=1000, example="0.5"),
        max_in_flight=integer(options, "max_in_flight", low=1),
        trace=text_of(options, "trace"),
        trace_scale=number(options, "trace_scale", low=0.001, high=1e6, example="2") or 1.0,
        trace_limit=integer(options, "trace_limit", low=1),
    )
    _check(settings, options)
    return settings


def _rate(options: Mapping[str, Any]) -> float | None:
    rate = number(options, "rate", low=0, high=MAX_RATE, example="12 or 0.5")
    if rate is not None and rate < 0.001:
        raise SetupError(f"--rate {options['rate']} sends nothing", "give requests per second, at least 0.001")
    return rate


def _arrival(options: Mapping[str, Any]) -> str | None:
    """Return the model: as it was given, else gamma where a burstiness is, else Poisson where a rate is."""
    if text_of(options, "arrival") is not None:
        return choice(options, "arrival", MODELS)
    if text_of(options, "burstiness") is not None:
        return "gamma"
    return "poisson" if text_of(options, "rate") is not None else None


def _check(settings: ArrivalSettings, options: Mapping[str, Any]) -> None:
    if settings.burstiness is not None and settings.arrival != "gamma":
        raise SetupError(f"--burstiness with --arrival {settings.arrival}", "only gamma arrivals have one")
    given = next((name for name in ("rate", "arrival") if text_of(options, name) is not None), None)
    if settings.trace is not None and (given or settings.burstiness is not None):
        raise SetupError(f"--trace with --{given or 'burstiness'}", "the trace says when requests start")
    if settings.trace is not None and text_of(options, "prompts") is not None:
        raise SetupError("--trace with --prompts", "the trace says how long the prompts are, and they are made up")
    if settings.trace is None:
        for name in ("trace_scale", "trace_limit"):
            if text_of(options, name) not in (None, "1"):
                raise SetupError(f"--{name.replace('_', '-')} without --trace", "name the trace")
    think = text_of(options, "think_time")
    if settings.open_loop and think and not re.fullmatch(r"0(\.0*)?", think):
        raise SetupError(
            f"--think-time {think} in an open loop", "requests start when the schedule says so: leave it out"
        )
    driver = next((name for name in _DRIVERS if text_of(options, name) is not None), None)
    if driver is not None and settings.trace is not None:
        raise SetupError(f"--trace with --{driver.replace('_', '-')}", "the trace says when requests start")
    if driver is not None and settings.rate is not None:
        hint = "its levels are the rates: use --arrival poisson instead of --rate"
        raise SetupError(f"--rate with --{driver.replace('_', '-')}", hint)

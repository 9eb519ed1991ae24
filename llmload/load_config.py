"""The settings that say how the load of a run changes: warm-up, stages, sweeps, the search for the capacity.

No I/O. What a text means is said in `pacing`; that options contradict each other is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from llmload.config import duration_s
from llmload.errors import SetupError

COURSES = ("stages", "sweep", "sweep_prompt_tokens", "find_capacity")
"""Options that say how the load goes; a run has one of them at most."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How the load changes; None where it does not. Built by `read_load`."""

    warmup_s: float | None = None
    """Requests that start so early are not measured."""
    stages: str | None = None
    sweep: str | None = None
    sweep_prompt_tokens: str | None = None
    find_capacity: str | None = None
    step_time_s: float | None = 30.0
    settle_s: float | None = 5.0
    rounds: int = 1
    users: int | None = None
    """-u, where it was given: users of a prompt sweep, and the highest level that the search for the capacity tries."""
    headless: bool = False
    run_time_s: int | None = None
    """-t, where it was given: how long the search for the capacity may take."""

    def shown(self) -> dict[str, Any]:
        """Return the settings as they are written to a record."""
        return {name: value for name, value in asdict(self).items() if name not in ("users", "run_time_s", "headless")}


def read_load(options: Mapping[str, Any]) -> LoadSettings:
    """Return the checked settings.

    Args:
        options: option values by name, as text or as a parser left them.

    Raises:
        SetupError: an option makes no sense, or contradicts another.
    """
    run_time_s = options.get("run_time")
    settings = LoadSettings(
        warmup_s=duration_s(options, "warmup"),
        **{name: _text(options, name) for name in COURSES},
        step_time_s=duration_s(options, "step_time"),
        settle_s=duration_s(options, "settle"),
        rounds=_rounds(options),
        users=options.get("given_users"),
        headless=bool(options.get("headless")),
        run_time_s=run_time_s if isinstance(run_time_s, int) and run_time_s > 0 else None,
    )
    _refuse_contradictions(settings)
    return settings


def _refuse_contradictions(load: LoadSettings) -> None:
    given = [name for name in COURSES if getattr(load, name) is not None]
    if len(given) > 1:
        raise SetupError(f"{_flag(given[0])} and {_flag(given[1])} contradict each other", "keep one of them")
    if load.warmup_s and load.run_time_s and load.run_time_s <= load.warmup_s:
        raise SetupError(
            f"--warmup {load.warmup_s:g}s is as long as the run (-t {load.run_time_s}s)", "nothing would be measured"
        )
    if not given or not load.headless:  # the web page sends its number of users along, whatever the course
        return
    if load.run_time_s and given[0] != "find_capacity":
        raise SetupError(f"-t and {_flag(given[0])} contradict each other", f"{_flag(given[0])} says when the run ends")
    if load.users is not None and given[0] in ("stages", "sweep"):
        raise SetupError(f"-u and {_flag(given[0])} contradict each other", f"{_flag(given[0])} says how many users")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _text(options: Mapping[str, Any], name: str) -> str | None:
    """Return a text; None for an empty field of the web form. On a command line an empty one is a mistake."""
    value = options.get(name)
    if value is None or (not str(value).strip() and not options.get("headless")):
        return None
    return str(value).strip()


def _rounds(options: Mapping[str, Any]) -> int:
    text = str(options.get("rounds") or "1").strip()
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 100:
        raise SetupError(f"--rounds {text!r} is not a whole number from 1 to 100", "write e.g. 5")
    return int(text)

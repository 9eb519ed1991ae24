"""The course of a run: how its load goes, where it does not just stay: stages, a sweep, or a search.

Pure: no sleep, no clock; the settings in, one value out.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmload.load_config import LoadSettings
from llmload.pacing.stages import Stages, parse_stages
from llmload.pacing.sweep import MAX_PROMPT_TOKENS, Sweep, check_steps, parse_levels

MAX_LEVEL = 1000
"""The highest level that the search for the capacity tries, unless -u says another."""
SEARCH_TIME_S = 900.0
"""How long that search may take, unless -t says otherwise."""


@dataclass(frozen=True, slots=True)
class CapacitySearch:
    """A search for the highest level that meets some objectives.

    Args:
        objectives: as they were written.
        limit: the highest level to try.
        time_s: no measurement begins that could not end within so long.
        step_s, settle_s: as in `Sweep`.
    """

    objectives: str
    limit: int
    time_s: float
    step_s: float
    settle_s: float

    @property
    def measured_s(self) -> float:
        return self.step_s - self.settle_s


Course = Stages | Sweep | CapacitySearch


def course_of(load: LoadSettings) -> Course | None:
    """Return the course that the settings ask for, None where the load just stays.

    Raises:
        SetupError: it makes no sense.
    """
    if load.stages is not None:
        return parse_stages(load.stages)
    if load.sweep is not None:
        return _sweep(load, parse_levels(load.sweep, where="--sweep"))
    if load.sweep_prompt_tokens is not None:
        lengths = parse_levels(load.sweep_prompt_tokens, where="--sweep-prompt-tokens", high=MAX_PROMPT_TOKENS)
        return _sweep(load, lengths)
    return _search(load) if load.find_capacity is not None else None


def _search(load: LoadSettings) -> CapacitySearch:
    check_steps(step_s=load.step_time_s, settle_s=load.settle_s, steps=1)
    return CapacitySearch(
        load.find_capacity or "",
        limit=load.users or MAX_LEVEL if load.headless else MAX_LEVEL,
        time_s=load.run_time_s or SEARCH_TIME_S,
        step_s=load.step_time_s or 0.0,
        settle_s=load.settle_s or 0.0,
    )


def _sweep(load: LoadSettings, levels: tuple[int, ...]) -> Sweep:
    check_steps(step_s=load.step_time_s, settle_s=load.settle_s, steps=len(levels) * load.rounds)
    on_prompts = load.sweep_prompt_tokens is not None
    return Sweep(
        "prompt_tokens" if on_prompts else "users",
        levels,
        rounds=load.rounds,
        step_s=load.step_time_s or 0.0,
        settle_s=load.settle_s or 0.0,
        users=load.users or 1 if on_prompts else None,
    )

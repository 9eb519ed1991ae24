"""The course of a run: how its load goes, where it does not just stay: stages, or a sweep.

Pure: no sleep, no clock; the settings in, one value out.
"""

from __future__ import annotations

from llmload.load_config import LoadSettings
from llmload.pacing.stages import Stages, parse_stages
from llmload.pacing.sweep import MAX_PROMPT_TOKENS, Sweep, check_steps, parse_levels

Course = Stages | Sweep


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
    return None


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

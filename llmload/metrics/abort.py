"""Rules that end a run early: `error_rate > 20% for 30s`, watched over the last seconds.

No I/O, no clock: times are given. A rule looks at the requests that ended within its last seconds, taken together, so
it cannot hold before the run is that old. What has no value (an error rate while nothing ends) does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from llmload.errors import SetupError
from llmload.metrics.objective import HOLDS, Objective, Op
from llmload.metrics.objectives import parse_objectives
from llmload.metrics.recent import Recent
from llmload.metrics.tally import Tallies

_RULE = re.compile(r"(?P<objective>.*?)\s+for\s+(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|m|min)?\s*", re.I | re.S)
_OPPOSITE: dict[Op, Op] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Rule:
    """Abort when `condition` holds for what ended in the last `seconds`."""

    text: str
    condition: Objective
    seconds: float


def parse_abort(text: str | None, *, where: str = "--abort-on") -> tuple[Rule, ...]:
    """Return the rules of a text, separated by `;`.

    Raises:
        SetupError: a rule does not parse, says no time, or is about something that nobody knows while a run goes on.
    """
    return tuple(_rule(part.strip(), where) for part in (text or "").split(";") if part.strip())


def _rule(text: str, where: str) -> Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise SetupError(f"{where}: {text!r} does not say for how long", "write e.g. error_rate > 20% for 30s")
    seconds = float(match["number"]) * (1 if (match["unit"] or "s").lower() == "s" else 60)
    if not 1 <= seconds <= 3600:
        raise SetupError(f"{where}: {text!r} looks at {seconds:g} s", "give 1s to 60m")
    conditions = parse_objectives([match["objective"]], where=where)
    if len(conditions) > 1:
        raise SetupError(
            f"{where}: {text!r} joins conditions", "write one for each, with ; between: any of them aborts"
        )
    if conditions[0].metric == "peak_output_throughput":
        raise SetupError(f"{where}: {text!r} is known at the end only", "use output_throughput")
    return Rule(" ".join(text.split()), conditions[0], seconds)


class Watch:
    """Follows the rules of one run.

    >>> watch = Watch(parse_abort("error_rate > 20% for 30s"), started_at_s=0.0)
    >>> watch.breach(60.0) is None
    True
    """

    def __init__(self, rules: Iterable[Rule], *, started_at_s: float) -> None:
        self._started_at_s = started_at_s
        self._windows = [(rule, _window(rule)) for rule in rules]

    def take(self, tallies: Tallies, at_s: float) -> None:
        """Take what has ended since the last call."""
        for _, window in self._windows:
            window.take(tallies, at_s)

    def breach(self, now_s: float) -> dict[str, Any] | None:
        """Return the verdict of the first rule that holds now, shaped like one of `Objective.judge`; else None."""
        for rule, window in self._windows:
            if now_s - self._started_at_s < rule.seconds:
                continue
            section = window.section(now_s)
            value, n = rule.condition.value(section)
            if value is not None and HOLDS[rule.condition.op](value, rule.condition.limit):
                wanted = replace(rule.condition, op=_OPPOSITE[rule.condition.op])
                verdict = wanted.judge(section)
                why = verdict["why"] if n else "nothing ended in that time"
                return {**verdict, "text": f"--abort-on {rule.text}", "value": value, "n": n, "met": False, "why": why}
        return None


def _window(rule: Rule) -> Recent:
    condition = rule.condition
    wanted = {} if condition.statistic is None else {condition.metric: (condition.statistic,)}
    return Recent(rule.seconds, wanted, scope=condition.scope)

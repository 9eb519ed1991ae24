"""Step labels: in which part of a run a request started, and what of a run is not measured.

No I/O, no clock. A label is None in a plain run, `warmup`, a level such as `50`, with rounds `50#2` (level 50, round
2), and `50#2~settle` while that step settles. Warm-up and settling are recorded like everything else, but stay out of
percentiles and rates, and the summary says how much that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llmload.metrics.ledger import Ledger
from llmload.metrics.tally import Tallies

WARMUP = "warmup"
_SETTLE = "~settle"


def step_label(level: float, round_: int | None = None) -> str:
    """Return the label of a step.

    >>> step_label(50), step_label(0.5, 2)
    ('50', '0.5#2')
    """
    return f"{level:g}" if round_ is None else f"{level:g}#{round_}"


def level_of(step: str | None) -> float | None:
    """Return the level of a step's label, settling or not; None of what is no step.

    >>> level_of("50#2~settle")
    50.0
    """
    text = (step or "").removesuffix(_SETTLE).partition("#")[0]
    try:
        return float(text)
    except ValueError:
        return None


def whole_step(step: str | None) -> str | None:
    """Return the label of a step in all its rounds, settling or not; of what is no step the label itself.

    >>> whole_step("50#2~settle"), whole_step("warmup")
    ('50', 'warmup')
    """
    return None if step is None else step.removesuffix(_SETTLE).partition("#")[0]


def settling(label: str) -> str:
    """Return the label of the time in which a step settles."""
    return label + _SETTLE


def is_settling(step: str | None) -> bool:
    return step is not None and step.endswith(_SETTLE)


def is_measured(step: str | None) -> bool:
    """Return whether requests that started in this part of a run count."""
    return step != WARMUP and not is_settling(step)


def excluded(tallies: Tallies, run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the headline leaves out, or None where it leaves out nothing.

    `ledger` counts the requests of all parts that are not measured; `parts` has, for `warmup` and `settling`, their
    `requests` (started), `output_tokens` of every outcome, and `seconds`, None where the run broke off in it.

    Args:
        tallies: of all finished completions.
        run: read here: `phases`, as `swarm.phases` wrote them.
    """
    phases = [one for one in run.get("phases") or () if not is_measured(one["step"])]
    labels = [step for step in tallies.steps() if not is_measured(step)] + [one["step"] for one in phases]
    if not labels:
        return None
    groups = {WARMUP: (WARMUP,), "settling": tuple(dict.fromkeys(filter(is_settling, labels)))}
    whole = step_ledger(tallies, run, labels)
    parts = {name: _part(tallies, run, steps) for name, steps in groups.items() if set(steps) & set(labels)}
    return {"ledger": {**whole.to_wire(), "in_flight": whole.in_flight}, "parts": parts}


def started_in(part: Mapping[str, Any] | None) -> int:
    """Return how many requests started in what `excluded` returned."""
    return int(part["ledger"]["started"]) if part else 0


def _part(tallies: Tallies, run: Mapping[str, Any], labels: Iterable[str | None]) -> dict[str, Any]:
    counts = tallies.of_steps(labels).counts
    spans = [phase_s(one) for one in phases_of(run, labels)]
    return {
        "requests": step_ledger(tallies, run, labels).started,
        "output_tokens": sum(counts[f"output_tokens_{outcome}"] for outcome in ("ok", "failed", "cancelled")),
        "seconds": sum(span for span in spans if span is not None) if spans and None not in spans else None,
    }


def step_ledger(tallies: Tallies, run: Mapping[str, Any], labels: Iterable[str | None]) -> Ledger:
    """Return the ledger of the requests that started in these parts of a run.

    How many started is known from the reports of the processes, which can be older than the last completions: it is at
    least what ended.
    """
    labels = set(labels)
    counts = tallies.of_steps(labels).counts
    ledger = Ledger(0, counts["ok"], counts["failed"], counts["cancelled"])
    known = {one["step"]: one.get("started") or 0 for one in phases_of(run, labels)}
    ledger.started = max(sum(known.values()), ledger.ended)
    return ledger


def phases_of(run: Mapping[str, Any], labels: Iterable[str | None]) -> Iterator[Mapping[str, Any]]:
    """Yield the phases of a run that carry one of these labels, in the order of time."""
    wanted = set(labels)
    yield from (one for one in run.get("phases") or () if one["step"] in wanted)


def phase_s(phase: Mapping[str, Any]) -> float | None:
    """Return how long a phase took, seconds; None where its end is not recorded."""
    return None if phase.get("to") is None else max(0.0, float(phase["to"]) - float(phase["from"]))


def measured_from(run: Mapping[str, Any]) -> float | None:
    """Return when the warm-up ended, unix seconds; None where there was none.

    Infinity where the run ended within it: nothing was measured.
    """
    ends = [one["to"] for one in phases_of(run, (WARMUP,))]
    if not ends:
        return None
    return float("inf") if ends[-1] is None else float(ends[-1])

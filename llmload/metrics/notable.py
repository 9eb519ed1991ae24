"""One request as a report shows it: what became of it and when its tokens came, in bounded size.

No I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from llmload.records import Completion

MARKS = 150
"""Token arrivals that are kept of one request: the first, the last, and others evenly between."""

TEXT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Notable:
    """A request worth showing. Times are seconds from its origin; None means the same as in `Completion`."""

    id: str
    scenario: str
    model: str
    step: str | None
    prompt: str | None
    worker: str
    started_unix_ns: int
    outcome: str
    kind: str | None
    status: int | None
    message: str | None
    finish_reason: str | None
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    closed_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    token_events: int
    marks_s: tuple[float, ...]
    """Arrivals of tokens, at most `MARKS` of them."""


_FIELDS = tuple(name for name in Notable.__dataclass_fields__ if name != "marks_s")
_TEXTS = ("id", "scenario", "model", "step", "prompt", "worker", "kind", "message", "finish_reason")


def notable(completion: Completion) -> Notable:
    """Return what a report shows of a completion."""
    values = {name: getattr(completion, name) for name in _FIELDS}
    for name in _TEXTS:
        if values[name] is not None:
            values[name] = str(values[name])[:TEXT_CHARS]
    return Notable(**values, marks_s=_marks_s(completion))


def _marks_s(completion: Completion) -> tuple[float, ...]:
    if completion.ttft_s is None:
        return ()
    first_us = round(completion.ttft_s * 1e6)
    arrivals_us = list(accumulate(completion.gaps_us, initial=first_us))
    if len(arrivals_us) > MARKS:
        last = len(arrivals_us) - 1
        arrivals_us = [arrivals_us[index * last // (MARKS - 1)] for index in range(MARKS)]
    return tuple(at / 1e6 for at in arrivals_us)

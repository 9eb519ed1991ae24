"""One objective on a run, such as `chat: p95(ttft) < 800ms`, as a value that judges a section of a summary.

No I/O, no clock. What has no samples is not met, whatever the limit: a gate that measured nothing must not open.
`objectives` reads the text form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from llmload.metrics.definitions import BY_NAME, METRICS

Op = Literal["<", "<=", ">", ">="]
Section = Mapping[str, Any]
"""A summary, or a part of one that is built alike: `metrics`, `throughput`, `ledger`, and `goodput` where it is set."""

HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}

UNITS: dict[str, str] = {row.name: row.unit for row in METRICS} | {"requests": "requests"}
"""Every name an objective can be about, and its unit."""

_LEDGER = ("error_rate", "success_rate", "cancelled_rate", "requests")
_GOODPUT = {"goodput": "share", "goodput_rate": "rate"}


@dataclass(frozen=True, slots=True)
class Scope:
    """What part of a run an objective is about; all None is the whole run."""

    scenario: str | None = None
    model: str | None = None
    step: str | None = None

    def __str__(self) -> str:
        """As it may be written: a scenario alone is its name."""
        given = {"scenario": self.scenario, "model": self.model, "step": self.step}
        if self.scenario is not None and self == Scope(self.scenario):
            return _quoted(self.scenario)
        return ", ".join(f"{name}={_quoted(value)}" for name, value in given.items() if value is not None)

    def __bool__(self) -> bool:
        return self != Scope()


@dataclass(frozen=True, slots=True)
class Objective:
    """One limit.

    Args:
        text: as written, with its scope.
        scope: what it is about.
        metric: a name of `UNITS`.
        statistic: `mean`, `min`, `max`, `n` or `p95` … of a per-request metric; None of a number of the run.
        op: how the value must stand to the limit.
        limit: in the metric's unit: seconds, shares from 0 to 1, tokens per second ...
    """

    text: str
    scope: Scope
    metric: str
    statistic: str | None
    op: Op
    limit: float

    @property
    def unit(self) -> str:
        return "samples" if self.statistic == "n" else UNITS[self.metric]

    @property
    def percentile(self) -> float | None:
        """The NN of `pNN`, None for another statistic."""
        return percentile_of(self.statistic)

    def value(self, section: Section) -> tuple[float | None, int]:
        """Return the value in a section of a summary and the number of samples behind it."""
        if self.statistic is not None:
            row = section["metrics"][self.metric]
            return (row.get(self.statistic) if row["n"] else None), row["n"]
        ledger = section["ledger"]
        if self.metric in _LEDGER:
            return _of_ledger(self.metric, ledger)
        if self.metric in _GOODPUT:
            goodput = section.get("goodput") or {}
            return goodput.get(_GOODPUT[self.metric]), goodput.get("started", 0)
        return section["throughput"].get(self.metric), ledger["ok"]

    def holds(self, section: Section) -> bool:
        """Whether a section of a summary meets it; without samples nothing does."""
        value, n = self.value(section)
        return value is not None and n > 0 and HOLDS[self.op](value, self.limit)

    def judge(self, section: Section | None) -> dict[str, Any]:
        """Return the verdict, JSON-ready; None is a section that the run does not have."""
        value, n = (None, 0) if section is None else self.value(section)
        value = value if n else None
        return {
            "text": self.text,
            "scope": str(self.scope) or None,
            "metric": self.metric,
            "statistic": self.statistic,
            "op": self.op,
            "limit": self.limit,
            "unit": self.unit,
            "value": value,
            "n": n,
            "met": value is not None and HOLDS[self.op](value, self.limit),
            "why": self._why(value, n, (section or {}).get("ledger", {}).get("cancelled", 0)),
        }

    def _why(self, value: float | None, n: int, cancelled: int) -> str:
        if value is None:
            if not n and self.metric in _GOODPUT:
                return "no samples: nothing was started, or no --goodput was given"
            if n:
                return f"the summary has no {self.statistic or self.metric} ({BY_NAME[self.metric].missing_when})"
            return "no samples"
        few = self.percentile is not None and n * (100 - self.percentile) < 100 and self.percentile < 100
        note = f"; only {n:,} samples, so that {self.statistic} is the largest of them" if few else ""
        if cancelled and self.statistic not in (None, "n") and UNITS[self.metric] == "s":
            note += f"; how long {cancelled:,} cut-off requests would have taken is not in it"
        return f"it was {shown(value, self.unit, beside=self.limit)}{note}"


def percentile_of(statistic: str | None) -> float | None:
    """Return 95.0 for `p95`, None for what is no percentile."""
    return float(statistic[1:]) if statistic is not None and statistic[:1] == "p" else None


def shown(value: float, unit: str, *, beside: float | None = None) -> str:
    """Return a value as a person reads it, e.g. `612 ms` or `0.4 %`.

    Four digits; more where it would look like the limit `beside` it without being it.
    """
    scale, name = {"s": (1000.0, "ms"), "share": (100.0, "%")}.get(unit, (1.0, unit))
    for digits in range(4, 16):
        text = f"{value * scale:.{digits}g}"
        if beside is None or value == beside or text != f"{beside * scale:.{digits}g}":
            break
    text = f"{float(text):,.0f}" if "e+" in text else text
    return f"{text} {name}"


def _of_ledger(name: str, ledger: Mapping[str, int]) -> tuple[float | None, int]:
    """Rates are of what was answered: a request that we cut off is neither good nor bad."""
    ok, failed, cancelled = ledger["ok"], ledger["failed"], ledger["cancelled"]
    started = ledger.get("started", ok + failed + cancelled)
    part, whole = {
        "error_rate": (failed, ok + failed),
        "success_rate": (ok, ok + failed),
        "cancelled_rate": (cancelled, started),
        "requests": (started, 1),
    }[name]
    return (float(Fraction(part, whole)) if whole else None), started if name == "requests" else whole


def _quoted(value: str) -> str:
    return f'"{value}"' if any(char in ' ,;:="' for char in value) else value

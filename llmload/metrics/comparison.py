"""Two sides, each of one run or of several rounds, compared metric by metric.

Pure maths, no I/O, no clock. docs/compare.md has the method and what its intervals are worth.

One run a side: every pair of the two confidence distributions gives a difference and a ratio. Several: a run is one
sample, its statistic the value; the spread between runs, pooled over both sides, makes the interval (Student's t), and
the doubt within the runs is its least width. Percentiles are each run's own, never those of runs thrown together: what
differs from run to run would disappear in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from llmload.metrics.bootstrap import Estimate, as_shared, bounds
from llmload.metrics.definitions import BY_NAME, METRICS, Metric
from llmload.metrics.differences import differences
from llmload.metrics.evidence import GOODPUTS, RATES, SHARES, STATISTICS, Evidence, Key
from llmload.metrics.goodput import limits_text
from llmload.metrics.quantiles import t_quantile
from llmload.metrics.series import Floats

SCHEMA = "llmload.comparison/1"
CONFIDENCE = 0.95

Verdict = Literal["better", "worse", "differs", "no difference shown", "not comparable"]
"""`differs` is of what is neither good nor bad, such as the length of prompts."""

NEUTRAL = {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "burst_share"}
KEYS: tuple[Key, ...] = (
    *((row.name, statistic) for row in METRICS if row.scope == "request" for statistic in STATISTICS),
    *((name, "") for name in dict.fromkeys((*RATES, *SHARES, *GOODPUTS))),
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a comparison knows of a run: its name, the content of its run.json, its summary and its evidence."""

    name: str
    about: Mapping[str, Any]
    summary: Mapping[str, Any]
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Change:
    """From base to new: the difference in the metric's unit, and relative to base where base is above 0."""

    value: float
    low: float
    high: float
    relative: tuple[float, float, float] | None
    """Value and both ends, 0.1 for 10 % more."""

    def to_dict(self) -> dict[str, Any]:
        relative = None if self.relative is None else dict(zip(("value", "low", "high"), self.relative, strict=True))
        return {"delta": {"value": self.value, "low": self.low, "high": self.high}, "relative": relative}


def compare(base: Sequence[Facts], new: Sequence[Facts], *, confidence: float = CONFIDENCE) -> dict[str, Any]:
    """Return the comparison of two sides, JSON-ready; every metric that either side has is a row."""
    keys = [key for key in KEYS if any(_has(one.evidence, key) for one in (*base, *new))]
    return {
        "schema": SCHEMA,
        "confidence": confidence,
        "base": [_run(one) for one in base],
        "new": [_run(one) for one in new],
        "rows": [_row(key, base, new, confidence) for key in keys],
        "warnings": differences(base, new),
    }


def _has(evidence: Evidence, key: Key) -> bool:
    return bool(evidence.counts.get(key[0])) or key in evidence.found


def _run(one: Facts) -> dict[str, Any]:
    run, ledger = one.summary["run"], one.summary["ledger"]
    kept = {name: run[name] for name in ("id", "started_at", "ended_at", "valid")}
    return {"name": one.name, **kept, "ok": ledger["ok"], "failed": ledger["failed"]}


def _row(key: Key, base: Sequence[Facts], new: Sequence[Facts], confidence: float) -> dict[str, Any]:
    metric, statistic = BY_NAME[key[0]], key[1]
    row: dict[str, Any] = {
        "metric": metric.name, "statistic": statistic or None, "label": metric.label, "unit": metric.unit,
        "higher_is_better": None if metric.name in NEUTRAL else metric.higher_is_better,
        "base": None, "new": None, "delta": None, "relative": None,
    }  # fmt: skip
    sides = [_estimates(key, side) for side in (base, new)]
    if metric.name in GOODPUTS and (why := _other_limits((*base, *new))):
        sides = [why, why]
    for name, side in zip(("base", "new"), sides, strict=True):
        if not isinstance(side, str):
            row[name] = _side(side, metric, confidence)
    missing = next((side for side in sides if isinstance(side, str)), None)
    if missing is not None:
        return {**row, "verdict": "not comparable", "why": missing}
    if metric.name in SHARES:
        sides = [shared(side, [*sides[0], *sides[1]]) for side in sides]  # type: ignore[arg-type]
    change = change_between(sides[0], sides[1], confidence, as_ratio=metric.unit != "share")  # type: ignore[arg-type]
    return {**row, **change.to_dict(), "verdict": verdict(change, metric), "why": None}


def _estimates(key: Key, side: Sequence[Facts]) -> list[Estimate] | str:
    """Return the estimates of every run of a side, or why there is none."""
    found = []
    for one in side:
        estimate = one.evidence.found.get(key)
        if estimate is None:
            n = one.evidence.counts.get(key[0], 0)
            return f"{one.name} has none" if not n else f"{one.name} keeps no estimate of it"
        if isinstance(estimate, str):
            return f"{one.name} has {estimate}"
        found.append(estimate)
    return found


def _other_limits(runs: Sequence[Facts]) -> str | None:
    """Return why goodputs cannot be compared: what was good in one run was not in another."""
    limits = [(one.name, (one.summary["goodput"] or {}).get("objectives")) for one in runs]
    first, other = limits[0], next((one for one in limits if one[1] != limits[0][1]), None)
    if other is None:
        return None
    shown = [f"{name} {limits_text(its) if its else 'none'}" for name, its in (first, other)]
    return f"limits differ ({', '.join(shown)}): judge both by the same with --goodput"


def shared(side: Sequence[Estimate], runs: Sequence[Estimate]) -> list[Estimate]:
    """Return a side's shares, those of 0 or 1 with the doubt of the run of both sides whose failures are most alike."""
    least = min((one.effective / one.n for one in runs if 0 < one.value < 1), default=1.0)
    return [one if 0 < one.value < 1 else as_shared(one, least) for one in side]


def _side(runs: Sequence[Estimate], metric: Metric, confidence: float) -> dict[str, Any]:
    low, high = runs[0].interval(confidence) if len(runs) == 1 else (None, None)
    return {
        "value": pooled_value(runs, as_ratio=metric.unit != "share"),
        "low": low,
        "high": high,
        "n": sum(one.n for one in runs),
        "effective": sum(one.effective for one in runs),
        "rounds": [one.value for one in runs],
    }


def pooled_value(runs: Sequence[Estimate], *, as_ratio: bool) -> float:
    """Return the middle of several rounds: the geometric mean, of shares and of what is not above 0 the mean."""
    values = np.array([one.value for one in runs])
    if len(values) == 1:
        return float(values[0])
    return float(np.exp(np.log(values).mean()) if as_ratio and (values > 0).all() else values.mean())


def change_between(
    base: Sequence[Estimate], new: Sequence[Estimate], confidence: float, *, as_ratio: bool = True
) -> Change:
    """Return the change from one side to the other.

    Args:
        base, new: one estimate a run.
        confidence: 0 to 1.
        as_ratio: whether a ratio makes sense: not of shares, which may be 0.
    """
    if len(base) == len(new) == 1:
        return _of_pairs(base[0], new[0], confidence, as_ratio)
    grids = [one.grid for one in (*base, *new)]
    logs = as_ratio and all(grid[0] > 0 for grid in grids) and all(one.value > 0 for one in (*base, *new))
    middle, half = _of_rounds(base, new, confidence, logs=logs)
    was, now = pooled_value(base, as_ratio=logs), pooled_value(new, as_ratio=logs)
    if not logs:
        return Change(now - was, middle - half, middle + half, None)
    low, high = float(np.expm1(middle - half)), float(np.expm1(middle + half))
    return Change(now - was, low * was, high * was, (now / was - 1, low, high))


def _of_pairs(base: Estimate, new: Estimate, confidence: float, as_ratio: bool) -> Change:
    low, high = bounds(np.subtract.outer(new.grid, base.grid).ravel(), confidence)
    relative = None
    if as_ratio and base.grid[0] > 0 and base.value > 0:
        ends = bounds(np.divide.outer(new.grid, base.grid).ravel() - 1, confidence)
        relative = (new.value / base.value - 1, *ends)
    return Change(new.value - base.value, low, high, relative)


def _of_rounds(
    base: Sequence[Estimate], new: Sequence[Estimate], confidence: float, *, logs: bool
) -> tuple[float, float]:
    """Return the middle and half the width of the interval of new - base, of logarithms or as they are."""
    means, between, within, freedom = [], 0.0, 0.0, len(base) + len(new) - 2
    for side in (base, new):
        values = _scale(np.array([one.value for one in side]), logs)
        means.append(float(values.mean()))
        between += float(((values - values.mean()) ** 2).sum())
        within += sum(float(np.var(_scale(one.grid, logs))) for one in side) / len(side) ** 2
    level = 1 - (1 - confidence) / 2
    spread = (between / freedom * (1 / len(base) + 1 / len(new))) ** 0.5 * t_quantile(level, freedom)
    return means[1] - means[0], max(spread, within**0.5 * t_quantile(level, None))


def _scale(values: Floats, logs: bool) -> Floats:
    return np.log(values) if logs else values


def verdict(change: Change, metric: Metric) -> Verdict:
    """Return what an interval says: a difference is shown when all of it lies on one side of 0."""
    low, high = change.relative[1:] if change.relative else (change.low, change.high)
    if low <= 0 <= high:
        return "no difference shown"
    if metric.name in NEUTRAL:
        return "differs"
    return "better" if (low > 0) == metric.higher_is_better else "worse"

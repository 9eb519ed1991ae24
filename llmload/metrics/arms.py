"""The arms of an A/B run, compared in pairs: what two arms made of the same prompt, one after the other.

Pure maths, no I/O, no clock. An arm is a scenario; a pair is the n-th time that a worker sent the same prompt with each
of two arms. A pair has the prompt and the minute in common, so that its ratio is free of both; the median ratio and its
interval (`bootstrap`, in the order of time) are what is reported.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import expm1, log
from typing import Any

import numpy as np

from llmload.metrics.bootstrap import Estimate, TooFew, estimate
from llmload.metrics.comparison import Change, change_between, verdict
from llmload.metrics.definitions import BY_NAME, Metric
from llmload.metrics.seconds import ended_unix_ns
from llmload.metrics.series import Series
from llmload.metrics.steps import is_measured
from llmload.records import Completion

SCHEMA = "llmload.arms/1"
FIRST_TEXT = Metric(
    "first_text_s",
    "first text",
    "s",
    "time until a reader sees something: of an answer that is not streamed, all of it",
    "streamed: ttft_s; not streamed: e2e_s",
    "as TTFT, or as E2E",
)
PAIRED = (FIRST_TEXT, *(BY_NAME[name] for name in ("ttft_s", "tpot_s", "e2e_s", "output_tokens")))
RATE = BY_NAME["request_throughput"]

Pair = tuple[str, str, int]
"""Worker, prompt and how many times the arm had sent it before."""


class Arm:
    """What one arm has done."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcomes: Counter[str] = Counter()
        self.pairs: dict[Pair, Completion] = {}
        self._busy_s: list[float] = []

    def fill(self, completions: Sequence[Completion]) -> None:
        """Take the arm's completions, in the order of their starts."""
        seen: Counter[tuple[str, str]] = Counter()
        until_ns = 0
        for one in completions:
            self.outcomes[one.outcome] += 1
            if one.prompt is not None:
                place = (one.worker, one.prompt)
                self.pairs[(*place, seen[place])] = one
                seen[place] += 1
            ended_ns = ended_unix_ns(one)
            if one.outcome == "ok":
                self._busy_s.append(max(0, ended_ns - max(one.started_unix_ns, until_ns)) / 1e9)
            until_ns = max(until_ns, ended_ns)

    def seconds_each(self, concurrent: int) -> Estimate | None:
        """Return the seconds in which the arm had a request under way, for each that ended ok: its rate's inverse.

        Requests that were sent at the same time share their seconds: together they are one sample, where there are
        enough of them.
        """
        groups = np.array_split(np.array(self._busy_s), max(len(self._busy_s) // concurrent, 1))
        for values in ([group.mean() for group in groups], self._busy_s):
            with suppress(TooFew):
                return estimate(Series(values), "mean") if sum(self._busy_s) else None
        return None

    def shown(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        ok, busy_s = self.outcomes["ok"], sum(self._busy_s)
        return {
            "name": self.name,
            "settings": dict(settings),
            **{outcome: self.outcomes[outcome] for outcome in ("ok", "failed", "cancelled")},
            "request_throughput": ok / busy_s if busy_s else None,
        }


def compare_arms(
    completions: Iterable[Completion], settings: Mapping[str, Mapping[str, Any]], *, confidence: float = 0.95
) -> dict[str, Any]:
    """Return the comparison of a run's arms, JSON-ready: each with the first.

    Args:
        completions: of the run, in any order.
        settings: what distinguishes each arm, by name, in the order of the arms; empty: every scenario is an arm.
        confidence: of the intervals, 0 to 1.
    """
    sent: dict[str, list[Completion]] = defaultdict(list)
    for one in completions:
        if is_measured(one.step) and (not settings or one.scenario in settings):
            sent[one.scenario].append(one)
    arms = [Arm(name) for name in (settings or sorted(sent))]
    for arm in arms:
        arm.fill(sorted(sent[arm.name], key=lambda one: (one.started_unix_ns, one.id)))
    return {
        "schema": SCHEMA,
        "confidence": confidence,
        "arms": [arm.shown(settings.get(arm.name, {})) for arm in arms],
        "comparisons": [_compare(arms[0], arm, settings, confidence) for arm in arms[1:]],
    }


def _compare(base: Arm, new: Arm, settings: Mapping[str, Mapping[str, Any]], confidence: float) -> dict[str, Any]:
    both = sorted(base.pairs.keys() & new.pairs.keys(), key=lambda key: base.pairs[key].started_unix_ns)
    pairs = [(base.pairs[key], new.pairs[key]) for key in both]
    good = [pair for pair in pairs if pair[0].outcome == pair[1].outcome == "ok"]
    rows = [_rate(base, new, settings, confidence), *(_paired(metric, good, confidence) for metric in PAIRED)]
    return {
        "base": base.name,
        "new": new.name,
        "pairs": len(good),
        "left_out": len(pairs) - len(good),
        "rows": [row for row in rows if row["base"] is not None or row["new"] is not None],
    }


def _value(one: Completion, metric: Metric) -> float | None:
    if metric is FIRST_TEXT:
        return one.ttft_s if one.stream else one.e2e_s
    value: float | None = getattr(one, metric.name)
    return value


def _paired(metric: Metric, pairs: Sequence[tuple[Completion, Completion]], confidence: float) -> dict[str, Any]:
    values = [(_value(was, metric), _value(now, metric)) for was, now in pairs]
    sides = [[pair[at] for pair in values if pair[at] is not None] for at in (0, 1)]
    row = _row(metric, "p50", *(Series(side).percentile(50) if side else None for side in sides))  # type: ignore[arg-type]
    logs = list(_ratios(values))
    try:
        found = estimate(Series(logs), "p50") if logs else None
    except TooFew as error:
        return {**row, "why": f"{error} (pairs)"}
    if found is None:
        return {**row, "why": "one of the arms has none"}
    low, high = found.interval(confidence)
    relative = (expm1(found.value), expm1(low), expm1(high))
    base = row["base"]["value"]
    change = Change(relative[0] * base, relative[1] * base, relative[2] * base, relative)
    return {**row, **change.to_dict(), "n": len(logs), "verdict": verdict(change, metric), "why": None}


def _ratios(values: Iterable[tuple[float | None, float | None]]) -> Iterator[float]:
    for was, now in values:
        if was is not None and now is not None and was > 0 and now > 0:
            yield log(now / was)


def _rate(base: Arm, new: Arm, settings: Mapping[str, Mapping[str, Any]], confidence: float) -> dict[str, Any]:
    """A rate has no pairs: it is of all requests of an arm."""
    was, now = (arm.seconds_each(settings.get(arm.name, {}).get("concurrent", 1)) for arm in (base, new))
    rates = [arm.shown({})["request_throughput"] for arm in (base, new)]
    row = _row(RATE, None, *rates)
    if was is None or now is None:
        return {**row, "why": "too few requests"}
    change = change_between([_inverse(was)], [_inverse(now)], confidence)
    return {**row, **change.to_dict(), "n": was.n + now.n, "verdict": verdict(change, RATE), "why": None}


def _inverse(one: Estimate) -> Estimate:
    return Estimate(1 / one.value, one.n, one.effective, (1 / np.maximum(one.grid, 1e-9))[::-1])


def _row(metric: Metric, statistic: str | None, base: float | None, new: float | None) -> dict[str, Any]:
    return {
        "metric": metric.name,
        "statistic": statistic,
        "label": metric.label,
        "unit": metric.unit,
        "base": None if base is None else {"value": base},
        "new": None if new is None else {"value": new},
        "delta": None,
        "relative": None,
        "n": 0,
        "verdict": "not comparable",
        "why": None,
    }

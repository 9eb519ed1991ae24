"""What ended in the last seconds, built like a section of a summary.

No I/O, no clock: times are given. Holds the counts and the few histograms that are asked for, a part a report, so that
looking each second at the last minute costs a master little.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmload.metrics.definitions import metric
from llmload.metrics.histogram import Histogram
from llmload.metrics.objective import Scope, percentile_of
from llmload.metrics.tally import Tallies

_RATES = {
    "request_throughput": ("ok",),
    "output_throughput": ("output_tokens_ok",),
    "input_throughput": ("input_tokens_ok",),
    "total_throughput": ("output_tokens_ok", "input_tokens_ok"),
    "served_throughput": ("output_tokens_ok", "output_tokens_failed", "output_tokens_cancelled"),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """What one report says had ended, of one scenario, model and step."""

    at_s: float
    counts: Mapping[str, int]
    stamps: Mapping[str, int]
    histograms: Mapping[str, Histogram]


class Recent:
    """A window over finished completions.

    Args:
        seconds: how long it is.
        statistics: what is asked of which per-request metric, e.g. `{"ttft_s": ("p50", "p95")}`.
        scope: which completions are looked at; None is all.
    """

    def __init__(self, seconds: float, statistics: Mapping[str, Sequence[str]], *, scope: Scope | None = None) -> None:
        self.seconds = seconds
        self._statistics, self._scope = dict(statistics), scope or Scope()
        self._parts: deque[_Part] = deque()

    def take(self, tallies: Tallies, at_s: float) -> None:
        """Take what has ended since the last call."""
        scope = self._scope
        for (scenario, model, step), tally in tallies.by_key.items():
            if (scope.scenario or scenario, scope.model or model, scope.step or step) == (scenario, model, step):
                held = {name: tally.histograms[name] for name in self._statistics if name in tally.histograms}
                self._parts.append(_Part(at_s, tally.counts, tally.stamps, held))
        self._forget(at_s)

    def _forget(self, now_s: float) -> None:
        while self._parts and self._parts[0].at_s <= now_s - self.seconds:
            self._parts.popleft()

    def section(self, now_s: float, *, seconds: float | None = None) -> dict[str, Any]:
        """Return `ledger`, `throughput`, `goodput`, `metrics` and `stamps` of what ended in the window.

        Args:
            now_s: its end; what is older than its begin is forgotten.
            seconds: what rates are divided by; None is the whole window. Less while a run is younger than that.
        """
        seconds = seconds or self.seconds
        self._forget(now_s)
        counts: Counter[str] = Counter()
        stamps: Counter[str] = Counter()
        for part in self._parts:
            counts.update(part.counts)
            stamps.update(part.stamps)
        ledger = {outcome: counts[outcome] for outcome in ("ok", "failed", "cancelled")}
        ended = sum(ledger.values())
        share = counts["good"] / ended if ended else None
        return {
            "ledger": ledger,
            "throughput": {name: sum(counts[one] for one in summed) / seconds for name, summed in _RATES.items()},
            "goodput": {"share": share, "rate": counts["good"] / seconds, "started": ended},
            "metrics": {name: self._distribution(name) for name in self._statistics},
            "stamps": dict(stamps),
        }

    def _distribution(self, name: str) -> dict[str, Any]:
        merged = Histogram(metric(name).ticks_per_unit)
        for part in self._parts:
            if name in part.histograms:
                merged.merge(part.histograms[name])
        row: dict[str, Any] = {"n": merged.n}
        for statistic in self._statistics[name]:
            percentile = percentile_of(statistic)
            if percentile is not None:
                row[statistic] = merged.percentile(percentile)
            elif statistic != "n":
                row[statistic] = getattr(merged, statistic)
        return row

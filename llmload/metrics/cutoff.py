"""What cut-off requests mean for an objective on latency.

No I/O, no clock. A request that hung until the run was over is in no percentile of the answered ones, so that a server
which stopped answering would look as quick as before (TMO-04). Whatever had been under way for longer than a limit
without a first token, or an end, is a value above that limit; what was cut off earlier tells nothing.
"""

from __future__ import annotations

from typing import Any

from llmload.metrics.histogram import Histogram
from llmload.metrics.objective import HOLDS, Objective, shown
from llmload.metrics.tally import Tally

_MISSING = {
    "ttft_s": ("cut_ttft_s", "a first token"),
    "ttft_intended_s": ("cut_ttft_s", "a first token"),
    "e2e_s": ("cut_e2e_s", "an end"),
    "e2e_intended_s": ("cut_e2e_s", "an end"),
    "closed_s": ("cut_e2e_s", "an end"),
}


def with_cut_off(objective: Objective, verdict: dict[str, Any], tally: Tally) -> dict[str, Any]:
    """Return the verdict with what was cut off beyond the limit counted among its samples.

    Args:
        objective: judged already.
        verdict: by the answered requests alone.
        tally: of the same requests.
    """
    name, what = _MISSING.get(objective.metric, ("", ""))
    cut = tally.histograms.get(name)
    if cut is None or not verdict["met"] or objective.op not in ("<", "<=") or objective.statistic in ("n", "min"):
        return verdict
    beyond = cut.at_least(objective.limit)
    merged = Histogram(beyond.ticks_per_unit)
    merged.merge(beyond)
    merged.merge(tally.histograms[objective.metric])
    value = statistic_of(objective, merged)
    if not beyond.n or value is None or HOLDS[objective.op](value, objective.limit):
        return verdict
    limit, least = shown(objective.limit, "s"), shown(value, "s", beside=objective.limit)
    why = f"it was at least {least}: {beyond.n:,} requests had been without {what} for {limit} when they were cut off"
    return {**verdict, "value": value, "n": merged.n, "met": False, "why": why}


def statistic_of(objective: Objective, histogram: Histogram | None) -> float | None:
    """Return the objective's statistic of some samples; None where there are none."""
    if histogram is None or not histogram.n:
        return None
    if objective.percentile is not None:
        return histogram.percentile(objective.percentile)
    return float(getattr(histogram, str(objective.statistic)))

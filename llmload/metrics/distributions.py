"""The distribution of every per-request metric of a tally, as a summary shows it.

No I/O, no clock. What is undefined is None with n = 0, never 0.
"""

from __future__ import annotations

from typing import Any

from llmload.metrics.definitions import REQUEST_METRICS
from llmload.metrics.histogram import Histogram
from llmload.metrics.tally import Tally

PERCENTILES = (50, 90, 95, 99)


def summarise_metrics(tally: Tally) -> dict[str, dict[str, Any]]:
    """Return n, missing, mean, min, percentiles, max and unit of every per-request metric, in its unit.

    `n` counts samples (of ITL: gaps), `missing` ok completions without one.
    """
    return {
        metric.name: {
            **_distribution(tally.histograms.get(metric.name) or Histogram(metric.ticks_per_unit)),
            "missing": tally.missing[metric.name],
            "unit": metric.unit,
        }
        for metric in REQUEST_METRICS
    }


def _distribution(histogram: Histogram) -> dict[str, Any]:
    percentiles = histogram.percentiles(PERCENTILES)
    return {
        "n": histogram.n,
        "mean": histogram.mean,
        "min": histogram.min,
        **{f"p{p}": value for p, value in zip(PERCENTILES, percentiles, strict=True)},
        "max": histogram.max,
        "clamped": histogram.clamped,
    }

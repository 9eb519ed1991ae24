"""Requests that hung until they were cut off, and what that means for objectives on latency."""

from __future__ import annotations

from typing import Any

import pytest

from llmload.metrics.histogram import Histogram
from llmload.metrics.judgement import judge_run
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion


def completion(**fields: Any) -> Completion:
    defaults = {"id": "1", "scenario": "chat", "model": "m", "worker": "w", "started_unix_ns": 0, "outcome": "ok"}
    return Completion(**{**defaults, **fields})


def hung(cut_s: float, **fields: Any) -> Completion:
    return completion(outcome="cancelled", cut_s=cut_s, **fields)


QUICK = [completion(ttft_s=0.05, e2e_s=0.2, closed_s=0.2)] * 90


def verdict_on(text: str, *rows: Completion) -> dict[str, Any]:
    tallies = Tallies.from_wire(Tallies([*QUICK, *rows]).to_wire())
    run = {"settings": {"slo": [text]}}
    (verdict,) = judge_run(tallies, run, summarise(tallies, {})) or ()
    return verdict


@pytest.mark.parametrize(
    ("text", "rows", "met", "n"),
    [
        ("p95(ttft) < 1s", [hung(40.0)] * 10, False, 100),
        ("p95(ttft) < 1s", [hung(40.0)] * 4, True, 90),
        ("p90(ttft) < 1s", [hung(40.0)] * 10, True, 90),
        ("p95(ttft) < 1s", [hung(0.4)] * 10, True, 90),
        ("p95(ttft) < 1s", [hung(40.0, ttft_s=0.06)] * 10, True, 90),
        ("p95(ttft) < 1s", [hung(40.0, stream=False)] * 10, True, 90),
        ("p95(e2e) < 1s", [hung(40.0, ttft_s=0.06)] * 10, False, 100),
        ("chat: max(e2e) < 1s", [hung(40.0)], False, 91),
        ("mean(e2e) < 1s", [hung(90.0)], False, 91),
        ("other: max(e2e) < 1s", [hung(90.0)], False, 0),
        ("min(e2e) < 1s", [hung(90.0)], True, 90),
        ("p95(e2e) > 0.1s", [hung(90.0)] * 10, True, 90),
        ("max(ttft) < 1s", [completion(outcome="failed", kind="timeout_total")], True, 90),
    ],
)
def test_what_hung_beyond_the_limit_counts_against_it(text: str, rows: list[Completion], met: bool, n: int) -> None:
    """TMO-04: 10 of 100 without a first token for 40 s are no p95 below 1 s; what was cut off early tells nothing."""
    verdict = verdict_on(text, *rows)
    assert (verdict["met"], verdict["n"]) == (met, n)


def test_the_verdict_says_so() -> None:
    """The value is a lower bound, and the reason says of how many requests."""
    verdict = verdict_on("p95(ttft) < 1s", *[hung(40.0)] * 10)
    assert verdict["value"] == pytest.approx(40.0, rel=0.001)
    assert verdict["why"].endswith("10 requests had been without a first token for 1000 ms when they were cut off")


def test_estimated_tokens_are_said() -> None:
    """An objective on speed or throughput that rests on estimates says of how many answers."""
    rows = [completion(output_tokens=10, tpot_s=0.01, usage_source="estimate")] * 3
    assert verdict_on("p50(tpot) < 1s", *rows)["why"] == "it was 10 ms; output tokens of 3 answers are estimates"
    assert "estimates" not in verdict_on("p50(e2e) < 1s", *rows)["why"]


def test_a_histogram_from_a_value_on() -> None:
    """Counts of the buckets from that value on."""
    histogram = Histogram(1_000_000)
    for value_s in (0.1, 0.5, 1.0, 1.0, 40.0):
        histogram.record(value_s)
    part = histogram.at_least(1.0)
    assert (part.n, part.min) == (3, pytest.approx(1.0, rel=0.001))
    assert part.max == pytest.approx(40.0, rel=0.001)
    assert histogram.at_least(41.0).n == 0
    assert histogram.at_least(0.0).n == 5

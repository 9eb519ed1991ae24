"""Step labels, and what of a run is not measured: warm-up and settling are recorded, said, and left out."""

from llmload.metrics.steps import is_measured, is_settling, level_of, settling, step_label
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.reports.text import render
from tests.test_summary import T0_S, at

WARM = {"step": "warmup", "from": T0_S, "to": T0_S + 2.5, "started": 3}


def summary_of(*completions, **run):
    return summarise(Tallies(completions), run)


def test_labels_say_level_round_and_settling():
    """A label is a level, its round where there are several, and a mark while the step settles."""
    assert [step_label(50), step_label(0.5), step_label(50, 2), settling("50#2")] == [
        "50",
        "0.5",
        "50#2",
        "50#2~settle",
    ]
    assert [is_settling(step) for step in (None, "warmup", "50", "50~settle")] == [False, False, False, True]
    assert [is_measured(step) for step in (None, "warmup", "50", "50#2", "50#2~settle")] == [
        True, False, True, True, False,
    ]  # fmt: skip
    assert [level_of(step) for step in ("50", "0.5#2", "50#2~settle", "warmup", None)] == [50, 0.5, 50, None, None]


def test_the_longest_hold_of_stages_is_the_steady_part():
    """Rates are those of the hold, and say so."""
    rows = [at(second, e2e_s=0.5, closed_s=0.5, output_tokens=40) for second in range(20)]
    run = {"steady_from": T0_S + 5.2, "steady_to": T0_S + 15, "steady_users": 50.0, "stopped_at": T0_S + 20}
    window = summary_of(*rows, **run)["throughput"]["steady"]["window"]
    assert (window["from"], window["to"]) == (T0_S + 6, T0_S + 15)
    assert window["definition"] == "whole seconds of the longest time at one number of users, 50"


def test_a_cold_start_is_recorded_but_not_measured():
    """LOAD-07: the first answer takes 20 s, the others 0.5 s: percentiles do not know the first, the ledger does."""
    cold = at(0, step="warmup", ttft_s=20.0, e2e_s=20.5, closed_s=20.5, output_tokens=10)
    warm = [at(second, ttft_s=0.5, e2e_s=0.9, closed_s=0.9, output_tokens=10) for second in range(3, 13)]
    summary = summary_of(cold, *warm, phases=[WARM], started=12)
    assert summary["ledger"]["ok"] == 11
    assert (summary["metrics"]["ttft_s"]["n"], summary["metrics"]["ttft_s"]["max"]) == (10, 0.5)
    assert summary["scenarios"]["chat"]["metrics"]["ttft_s"]["n"] == 10
    assert summary["excluded"] == {
        "ledger": {"started": 3, "ok": 1, "failed": 0, "cancelled": 0, "in_flight": 2},
        "parts": {"warmup": {"requests": 3, "output_tokens": 10, "seconds": 2.5}},
    }
    assert "warm-up: 3 requests in 2.5 s left out of latencies and rates" in render(summary)


def test_without_a_warm_up_nothing_is_left_out():
    """A plain run says nothing of it."""
    summary = summary_of(at(0, ttft_s=0.5, e2e_s=0.9), started=1)
    assert summary["excluded"] is None
    assert "left out" not in render(summary)


def test_the_steady_window_begins_after_the_warm_up():
    """STAT-05: tokens that arrive in the window count, also those of a request that started in the warm-up."""
    late = at(1, step="warmup", e2e_s=3.5, closed_s=3.5, output_tokens=70)
    steady = [at(second, ttft_s=0.1, e2e_s=0.5, closed_s=0.5, output_tokens=40) for second in range(4, 13)]
    run = {"phases": [WARM], "steady_from": T0_S + 0.5, "stopped_at": T0_S + 13, "started": 10}
    throughput = summary_of(late, *steady, **run)["throughput"]
    assert throughput["steady"]["window"]["from"] == T0_S + 3
    assert throughput["steady"]["output_throughput"] == (70 + 9 * 40) / 10
    assert throughput["whole"]["output_throughput"] == 9 * 40 / 8.5
    assert throughput["peak_output_throughput"] == 70 + 40 >= throughput["steady"]["output_throughput"]


def test_a_run_that_ends_within_its_warm_up_measures_nothing():
    """No rate and no percentile, and the reason."""
    summary = summary_of(
        at(1, step="warmup", ttft_s=0.1, e2e_s=0.5, output_tokens=4),
        phases=[{**WARM, "to": None}], steady_from=T0_S, stopped_at=T0_S + 9, started=1,
    )  # fmt: skip
    assert summary["throughput"]["steady_missing"] == "the run ended within its warm-up"
    assert summary["throughput"]["request_throughput"] is None
    assert summary["metrics"]["e2e_s"]["p50"] is None
    assert summary["excluded"]["parts"]["warmup"]["seconds"] is None

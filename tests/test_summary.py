"""The summary of a run, its throughput windows, its verdict and its warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.metrics.verdict import client_verdict
from llmload.records import Completion

T0_S = 1_800_000_000
T0 = T0_S * 10**9
RUN = {"id": "r", "started_at": T0_S, "ended_at": T0_S + 60, "ended_by": "time", "valid": True}


def completion(**fields: Any) -> Completion:
    defaults = {
        "id": "1",
        "scenario": "chat",
        "model": "m",
        "worker": "w",
        "started_unix_ns": T0,
        "outcome": "ok",
    }
    return Completion(**{**defaults, **fields})


def summary_of(*completions: Completion, **run: Any) -> dict[str, Any]:
    return summarise(Tallies(completions), {**RUN, "started": len(completions), **run})


def at(start_s: float, **fields: Any) -> Completion:
    """A completion that starts `start_s` seconds after T0."""
    return completion(started_unix_ns=T0 + round(start_s * 1e9), **fields)


def test_a_metric_stands_beside_its_number_of_samples() -> None:
    """Mean, percentiles and max of 100 TTFTs of 1 to 100 ms, by nearest rank."""
    row = summary_of(*[completion(ttft_s=i / 1000) for i in range(1, 101)], completion())["metrics"]["ttft_s"]
    assert (row["n"], row["missing"], row["unit"], row["max"], row["min"]) == (100, 1, "s", 0.1, 0.001)
    assert row["mean"] == pytest.approx(0.0505)
    expected = {"p50": 0.050, "p90": 0.090, "p95": 0.095, "p99": 0.099}
    assert {p: row[p] for p in expected} == pytest.approx(expected, rel=0.001)


def test_all_failed_has_no_latency_and_valid_json() -> None:
    """20 timeouts: every metric has n = 0 and None, and the JSON holds no NaN (TMO-07, TOK-08)."""
    rows = [completion(outcome="failed", kind="timeout_total", message="too late", closed_s=1.0) for _ in range(20)]
    summary = summary_of(*rows)
    json.dumps(summary, allow_nan=False)
    for row in summary["metrics"].values():
        assert (row["n"], row["missing"], row["mean"], row["p50"], row["max"]) == (0, 0, None, None, None)
    assert summary["failures"] == [
        {"kind": "timeout_total", "status": None, "count": 20, "example": "too late", "where": []}
    ]
    assert summary["throughput"]["request_throughput"] == 0.0
    assert "No request ended ok, so there are no latencies." in summary["warnings"]


def test_an_empty_run_has_a_summary() -> None:
    """Nothing was sent: no window, no rate, no ledger but zeros, and valid JSON."""
    summary = summarise(Tallies(), {})
    json.dumps(summary, allow_nan=False)
    assert summary["ledger"] == {"started": 0, "ok": 0, "failed": 0, "cancelled": 0, "in_flight": 0}
    assert (summary["throughput"]["window"], summary["throughput"]["output_throughput"]) == (None, None)


def test_each_speed_has_its_own_name() -> None:
    """One request of 900 + 100 tokens in 3 s: output 33.3 and total 333.3 tokens/s, decode 49.5 (TOK-12)."""
    summary = summary_of(
        completion(
            ttft_s=1.0, e2e_s=3.0, closed_s=3.0, gaps_us=(2_000_000,), tpot_s=2 / 99, output_tps=49.5,
            input_tokens=900, output_tokens=100,
        )
    )  # fmt: skip
    throughput = summary["throughput"]
    assert throughput["output_throughput"] == pytest.approx(100 / 3)
    assert throughput["input_throughput"] == pytest.approx(300)
    assert throughput["total_throughput"] == pytest.approx(1000 / 3)
    assert throughput["request_throughput"] == pytest.approx(1 / 3)
    assert summary["metrics"]["output_tps"]["p50"] == 49.5


def test_the_peak_is_not_below_the_mean() -> None:
    """20 tokens in 0.4 s: the mean is 50 tokens/s, and so is the peak (STAT-06)."""
    row = completion(ttft_s=0.1, gaps_us=(100_000,) * 3, e2e_s=0.4, closed_s=0.4, output_tokens=20)
    throughput = summary_of(row)["throughput"]
    assert throughput["output_throughput"] == pytest.approx(50)
    assert throughput["peak_output_throughput"] == pytest.approx(50)


def test_steady_and_whole_windows_stand_side_by_side() -> None:
    """10 s of ramp, 20 s steady, 15 s of drain: the steady rate is not diluted (STAT-05)."""
    ramp = [at(second, ttft_s=0.2, e2e_s=0.5, closed_s=0.5, output_tokens=5) for second in range(10)]
    steady = [at(second, ttft_s=0.2, e2e_s=0.5, closed_s=0.5, output_tokens=40) for second in range(10, 30)]
    cut = at(30, outcome="cancelled", ttft_s=0.2, e2e_s=0.5, closed_s=15.0, output_tokens=30)
    throughput = summary_of(*ramp, *steady, cut, steady_from=T0_S + 9.3, stopped_at=T0_S + 30.4)["throughput"]
    assert throughput["steady"]["window"] == {
        "from": T0_S + 10,
        "to": T0_S + 30,
        "seconds": 20,
        "definition": "whole seconds from the end of spawning to the stop",
    }
    assert (throughput["steady"]["output_throughput"], throughput["steady"]["request_throughput"]) == (40, 1)
    assert throughput["output_throughput"] == 40
    assert throughput["whole"]["window"]["seconds"] == 45
    assert throughput["whole"]["output_throughput"] == pytest.approx(850 / 45)
    assert throughput["whole"]["served_throughput"] == pytest.approx(880 / 45)
    assert throughput["peak_output_throughput"] == 40


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ({}, "the end of spawning is not recorded"),
        ({"steady_from": T0_S}, "the stop of the load is not recorded"),
        ({"steady_from": T0_S + 0.5, "stopped_at": T0_S + 1.4}, "less than one whole second"),
    ],
)
def test_without_a_steady_window_the_whole_run_is_shown(run: dict[str, Any], reason: str) -> None:
    """The steady window is null with a reason, and the headline is that of the whole run."""
    throughput = summary_of(completion(e2e_s=2.0, closed_s=2.0, output_tokens=4), **run)["throughput"]
    assert throughput["steady"] is None
    assert throughput["steady_missing"].startswith(reason)
    assert throughput["window"]["definition"] == "from the first start to the last end of a request"
    assert throughput["output_throughput"] == 2.0


def test_unknown_prompt_tokens_have_no_rate() -> None:
    """Without usage the input throughput is missing, not 0 (rule 4)."""
    throughput = summary_of(completion(e2e_s=2.0, closed_s=2.0, output_tokens=4))["throughput"]
    assert (throughput["input_throughput"], throughput["total_throughput"]) == (None, None)


def test_the_ledger_balances_with_requests_that_have_no_end() -> None:
    """Ten started and three ended leave seven in flight, and a warning (rule 1)."""
    rows = [completion(), completion(outcome="failed", kind="empty"), completion(outcome="cancelled")]
    summary = summary_of(*rows, started=10)
    assert summary["ledger"] == {"started": 10, "ok": 1, "failed": 1, "cancelled": 1, "in_flight": 7}
    assert "7 of 10 (70.0%) started requests have no recorded end." in summary["warnings"]


def test_what_ended_has_started() -> None:
    """A started count that is older than the last completions is raised to them."""
    assert summary_of(completion(), completion(), started=1)["ledger"]["started"] == 2


def test_a_run_without_an_end_is_not_valid() -> None:
    """Its numbers are given, and the reason why they are not a whole run's."""
    run = summary_of(completion(), ended_at=None, valid=None)["run"]
    assert (run["valid"], run["ended_by"], run["ended_at"]) == (False, None, None)
    assert run["reasons"] == ["the end of the run is not recorded"]


def test_failures_come_by_number() -> None:
    """Kinds are told apart by status, the most frequent first."""
    statuses = [503, 429, 429]
    rows = [completion(outcome="failed", kind="http_status", status=s, message=f"m{s}") for s in statuses]
    assert [(row["status"], row["count"]) for row in summary_of(*rows)["failures"]] == [(429, 2), (503, 1)]


def test_scenarios_have_their_own_numbers() -> None:
    """A quick and a slow scenario are not averaged away."""
    scenarios = summary_of(completion(scenario="a", e2e_s=1.0), completion(scenario="b", e2e_s=9.0))["scenarios"]
    assert {name: row["metrics"]["e2e_s"]["max"] for name, row in scenarios.items()} == {"a": 1.0, "b": 9.0}


def test_doubtful_numbers_are_called_so() -> None:
    """Estimated tokens, suspect usage, buffered streams and upper bounds each have a sentence (TOK-09, TOK-11)."""
    warnings = summary_of(
        completion(output_tokens=3, usage_source="estimate", usage_suspect=True, burst_share=1.0),
        completion(output_tokens=3, usage_source="server", ttft_is_bound=True, malformed_events=2),
        client={"lag_p99_s": 0.001, "cpu_percent_max": 95.0},
    )["warnings"]
    assert warnings == [
        "Output tokens of 1 of 2 (50.0%) ok completions are estimated, because the server sent no usable usage; "
        "TPOT and tok/s of those are estimates too.",
        "The usage of 1 completions contradicts what was received.",
        "1 of 2 (50.0%) ok streams were buffered on their way (over 80 % bursts), so ITL and TPOT are not presented.",
        "TTFT of 1 completions is an upper bound, and TPOT a lower one: the first token shared a read with later ones.",
        "2 events could not be understood and were skipped.",
    ]


def test_answers_that_are_not_streamed_have_no_tokens_per_event() -> None:
    """Their tokens came in no event: beside a stream of one token an event nothing is said."""
    stream = completion(output_tokens=2, token_events=2, usage_source="server")
    whole = completion(stream=False, output_tokens=200, usage_source="server")
    summary = summary_of(stream, whole, client={"lag_p99_s": 0.0001, "cpu_percent_max": 20.0})
    assert (summary["stream"]["tokens_per_event"], summary["warnings"]) == (1.0, [])
    packed = summary_of(completion(output_tokens=6, token_events=2, usage_source="server"), whole)
    assert "An event carried 3.0 tokens: ITL is per event, and TPOT a lower bound." in packed["warnings"]


def test_repeated_prompts_are_told() -> None:
    """11 of 100 prompts that came twice are a warning, 10 are none (DAT-01)."""
    sentence = "11 of 100 (11.0%) prompts were repeats, which a server can answer from its prefix cache."
    assert sentence in summary_of(completion(), prompts_served=100, prompts_repeated=11)["warnings"]
    few = summary_of(completion(), prompts_served=100, prompts_repeated=10)["warnings"]
    assert not any("repeats" in warning for warning in few)


def test_requests_that_were_sent_again_are_told() -> None:
    """A reconnect is no failure, but it is never silent (HTTP-14)."""
    summary = summary_of(completion(reused=False, reconnects=1), completion(reused=True))
    assert summary["connections"] == {"new": 1, "reused": 1, "stale": 1}
    assert (
        "1 requests were sent again, because the server had ended the kept connection without a word."
        in (summary["warnings"])
    )


def test_a_clean_run_has_no_warning() -> None:
    """Nothing to doubt, nothing said."""
    good = completion(ttft_s=0.1, gaps_us=(20_000,), e2e_s=0.12, closed_s=0.13, output_tokens=2, usage_source="server")
    assert summary_of(good, client={"lag_p99_s": 0.0001, "cpu_percent_max": 20.0})["warnings"] == []


def test_without_a_client_record_the_lag_of_requests_is_used() -> None:
    """A run that broke off still judges its client, but not as `server`: CPU is unknown."""
    rows = [completion(ttft_s=0.1, client_lag_s=0.09)]
    assert summary_of(*rows)["client"]["verdict"] == "client"
    assert summary_of(completion(ttft_s=0.1, client_lag_s=0.0001))["client"]["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("lag_s", "cpu", "itl_s", "ttft_s", "verdict"),
    [
        (0.001, 40.0, 0.020, 0.300, "server"),
        (0.006, 40.0, 0.020, 0.300, "mixed"),
        (0.005, 40.0, 0.020, 0.300, "server"),
        (0.031, 40.0, 0.020, 0.300, "client"),
        (0.031, 40.0, None, 0.300, "client"),
        (0.007, 40.0, None, 0.300, "mixed"),
        (0.001, 90.0, 0.020, 0.300, "client"),
        (None, 90.0, None, None, "client"),
        (0.001, 75.0, 0.020, 0.300, "mixed"),
        (0.001, None, 0.020, 0.300, "unknown"),
        (None, 40.0, 0.020, 0.300, "unknown"),
        (0.001, 40.0, None, None, "unknown"),
    ],
)
def test_the_client_is_judged_by_lag_and_cpu(
    lag_s: float | None, cpu: float | None, itl_s: float | None, ttft_s: float | None, verdict: str
) -> None:
    """The documented limits: 90 and 75 % CPU, a tenth and a fiftieth of TTFT, a quarter of ITL (LOAD-03)."""
    assert client_verdict(lag_s, cpu, itl_s, ttft_s)[0] == verdict


@pytest.mark.parametrize(
    ("delay_s", "verdict"), [(None, "server"), (0.029, "server"), (0.031, "mixed"), (0.149, "mixed"), (0.151, "client")]
)
def test_an_open_loop_is_judged_by_its_send_delay(delay_s: float | None, verdict: str) -> None:
    """LOAD-03: what the client added to the latency from the intended start, a tenth and a half of TTFT."""
    found = client_verdict(0.001, 40.0, 0.020, 0.300, kernel_stamps=True, send_delay_p95_s=delay_s)
    assert found[0] == verdict
    assert ("send delay" in found[1]) == (verdict != "server")


@pytest.mark.parametrize(("delay_s", "verdict"), [(0.009, "server"), (0.011, "mixed"), (None, "mixed")])
def test_reads_themselves_say_more_than_the_loop(delay_s: float | None, verdict: str) -> None:
    """Where the delay of reads is known it decides whether tokens share reads; a loop that was late now and then does
    not matter as long as reads came before the next token."""
    found = client_verdict(0.031, 40.0, 0.020, 0.300, kernel_stamps=True, read_delay_p50_s=delay_s)
    assert found[0] == verdict
    assert ("bytes waited 11.0 ms" in found[1]) == (delay_s == 0.011)


@pytest.mark.parametrize(
    ("lag_s", "cpu", "verdict"), [(0.019, 40.0, "server"), (0.031, 40.0, "mixed"), (0.001, 91.0, "client")]
)
def test_lag_counts_less_where_the_kernel_stamps(lag_s: float, cpu: float, verdict: str) -> None:
    """A stamp of the kernel does not wait for the loop: only beyond a whole ITL do tokens share reads."""
    assert client_verdict(lag_s, cpu, 0.020, 0.300, kernel_stamps=True)[0] == verdict

"""The text report, as a terminal shows it."""

from __future__ import annotations

from typing import Any

from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion
from llmload.reports.text import WIDTH, render

T0_S = 1_800_000_000
RUN = {
    "id": "20270115T080000Z-3f9a",
    "started_at": T0_S,
    "ended_at": T0_S + 60,
    "ended_by": "time",
    "valid": True,
    "client": {"lag_p99_s": 0.001, "cpu_percent_max": 40.0},
    "targets": {"Chat": "http://h:1/v1/chat/completions"},
    "settings": {"model": "m", "max_tokens": 128, "stream": True},
    "locust": {"num_users": 20},
}


def completion(**fields: Any) -> Completion:
    defaults = {
        "id": "1", "scenario": "chat", "model": "m", "worker": "w", "started_unix_ns": T0_S * 10**9, "outcome": "ok",
    }  # fmt: skip
    return Completion(**{**defaults, **fields})


GOOD = completion(
    ttft_s=0.3,
    ttfa_s=0.3,
    tpot_s=0.02,
    e2e_s=0.34,
    closed_s=0.5,
    output_tps=50.0,
    gaps_us=(20_000, 20_000),
    input_tokens=10,
    output_tokens=3,
    usage_source="server",
    finish_reason="stop",
    send_delay_s=0.0004,
)


def text_of(*completions: Completion, **run: Any) -> str:
    return render(summarise(Tallies(completions), {**RUN, "started": len(completions), **run}))


def test_the_report_of_one_request() -> None:
    """Every line of the report of one clean request."""
    assert (
        text_of(GOOD)
        == """\
run 20270115T080000Z-3f9a: valid
client: the latency shown is the server's (p99 loop lag 1.0 ms, CPU at most 40 % of a core)
load: 20 users, model m, at most 128 tokens, streamed → http://h:1/v1/chat/completions
from 2027-01-15T08:00:00.000+00:00 to 2027-01-15T08:01:00.000+00:00, ended by time

requests: 1 started, 1 ok, 0 failed, 0 cancelled, 0 in flight

throughput                 req/s   output tok/s    input tok/s    total tok/s   served tok/s
steady                         -              -              -              -              -
whole run                   2.00           6.00          20.00          26.00           6.00
peak: 6.00 output tok/s in the best second
steady: none, the end of spawning is not recorded: not all users were running, or the run broke off
whole run: 08:00:00 to 08:00:00 UTC, 0.500 s: from the first start to the last end of a request

latency, ms                n       mean        p50        p90        p95        p99        max
TTFT                       1      300.0      300.0      300.0      300.0      300.0      300.0
TTFA                       1      300.0      300.0      300.0      300.0      300.0      300.0
ITL                        2      20.00      20.00      20.00      20.00      20.00      20.00
TPOT                       1      20.00      20.00      20.00      20.00      20.00      20.00
E2E                        1      340.0      340.0      340.0      340.0      340.0      340.0
send delay                 1       0.40       0.40       0.40       0.40       0.40       0.40
TTFT = arrival of first token - origin
ITL = arrival of token event i+1 - arrival of token event i (TTFT is no gap)
TPOT = (arrival of last token - arrival of first token) / (n - 1)
E2E = arrival of last token - origin
n = output tokens of the request; origin = first byte sent - DNS - connect - TLS

per request                n       mean        p50        p90        p95        p99        max
output tok/s               1      50.00      50.00      50.00      50.00      50.00      50.00
input tokens               1      10.00      10.00      10.00      10.00      10.00      10.00
output tokens              1       3.00       3.00       3.00       3.00       3.00       3.00
output tokens: 1 counted by the server
finish reasons: 1 stop"""
    )


def test_a_run_without_a_good_answer_still_has_a_report() -> None:
    """20 timeouts: a dash and n = 0 for each latency, the kind with an example (TMO-07)."""
    text = text_of(
        *[completion(outcome="failed", kind="timeout_total", message="late", closed_s=1.0) for _ in range(20)]
    )
    assert "TTFT                       0          -          -          -          -          -          -" in text
    assert "      20 timeout_total        late" in text
    assert "! No request ended ok, so there are no latencies." in text


def test_a_client_that_was_the_bottleneck_is_named_first() -> None:
    """The second line shouts it (rule 8)."""
    text = text_of(GOOD, client={"lag_p99_s": 0.5, "cpu_percent_max": 99.0}, valid=False, reasons=["a worker was lost"])
    assert text.splitlines()[0] == "run 20270115T080000Z-3f9a: NOT VALID; a worker was lost"
    assert text.splitlines()[1].startswith("client: THE CLIENT WAS THE BOTTLENECK")


def test_estimates_are_marked() -> None:
    """Tokens that no server counted are called ESTIMATED beside those that one did."""
    text = text_of(GOOD, completion(output_tokens=5, usage_source="estimate"))
    assert "output tokens: 1 ESTIMATED, 1 counted by the server" in text


def test_scenarios_stand_side_by_side() -> None:
    """One line each when there are several, none when there is one."""
    text = text_of(GOOD, completion(scenario="rag", outcome="failed", kind="http_status", status=429))
    assert "chat                      1         0         0     300.0     300.0     20.00     340.0" in text
    assert "rag                       0         1         0         -" in text
    assert "       1 http_status 429      -" in text
    assert "scenario" not in text_of(GOOD)


def test_no_line_is_wider_than_a_terminal() -> None:
    """Long messages, kinds, scenario names and reasons are wrapped or cut, and control characters are blanked."""
    long = "\x1b[31mword " * 50 + "x" * 300
    text = text_of(
        GOOD,
        completion(scenario="s" * 80, outcome="failed", kind="provider_error", message=long),
        completion(finish_reason="f" * 80, e2e_s=3_599.0, ttft_s=3_599.0, output_tokens=10**9, burst_share=0.9),
        steady_from=T0_S + 1,
        stopped_at=T0_S + 59,
        valid=False,
        reasons=[long],
    )
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\x1b" not in text

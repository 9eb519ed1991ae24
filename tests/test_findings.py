"""Findings: where each must be made, and where it must not."""

from llmload.metrics.details import Details
from llmload.metrics.findings import findings
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion

T0_NS = 1_800_000_000 * 10**9


def completion(at_s, *, number=[0], ttft_s=0.2, itl_ms=20, tokens=10, outcome="ok", **more):  # noqa: B006
    """One completion that starts so many seconds into the run."""
    number[0] += 1
    fields = {
        "id": f"f-w-{number[0]}", "scenario": "chat", "model": "m", "worker": "w", "outcome": outcome,
        "started_unix_ns": T0_NS + round(at_s * 1e9), "closed_s": 0.05,
    }  # fmt: skip
    if outcome == "ok":
        e2e_s = ttft_s + (tokens - 1) * itl_ms / 1e3
        fields.update(
            ttft_s=ttft_s, e2e_s=e2e_s, closed_s=e2e_s, gaps_us=(itl_ms * 1000,) * (tokens - 1), output_tokens=tokens,
            token_events=tokens, tpot_s=itl_ms / 1e3, input_tokens=100, burst_share=0.0, finish_reason="length",
            usage_source="server",
        )  # fmt: skip
    return Completion(**{**fields, **more})


def found(completions, **run):
    """Return the names of what is found."""
    info = {"started": len(completions), "client": {"lag_p99_s": 0.001, "cpu_percent_max": 20.0}, **run}
    return [one.name for one in findings(summarise(Tallies(completions), info), Details(completions))]


def climb(ttft_s=lambda _: 0.2, itl_ms=lambda _: 20):
    """A run in which each second one more request starts than in the second before."""
    return [
        completion(second + part / (second + 1), ttft_s=ttft_s(second), itl_ms=itl_ms(second))
        for second in range(40)
        for part in range(second + 1)
    ]


STEADY = [completion(second / 10) for second in range(300)]


def test_an_ordinary_run_has_no_findings():
    """A steady load, and one that grows without harm, say nothing."""
    assert found(STEADY) == []
    assert found(climb()) == []


def test_a_growing_ttft_with_a_steady_itl_is_a_queue():
    """TTFT that grows tenfold with the requests in flight is queueing; ITL that grows is not."""
    assert found(climb(ttft_s=lambda second: 0.1 + second / 20)) == ["queueing"]
    assert found(climb(itl_ms=lambda second: 20 + second)) == ["slow_generation"]


def test_a_flat_rate_of_answers_under_a_growing_load_is_a_quota():
    """Refusals at a flat ok rate while more and more is asked are a quota; at a steady load they are refusals."""
    refused = {"outcome": "failed", "kind": "http_status", "status": 429}
    growing = [
        completion(second + part / 100, **(refused if part >= 10 else {}))
        for second in range(30)
        for part in range(12 + 3 * second)
    ]
    steady = STEADY + [completion(second / 3, outcome="failed", kind="http_status", status=429) for second in range(90)]
    info = {"client": {"lag_p99_s": 0.001, "cpu_percent_max": 20.0}, "started": len(growing)}
    titles = [
        [one.title for one in findings(summarise(Tallies(rows), info), Details(rows)) if one.name == "quota"]
        for rows in (growing, steady, STEADY)
    ]
    assert titles == [["A quota was reached"], ["The server refused requests with 429"], []]


def test_streams_that_come_in_bursts_are_buffered():
    """A tenth of buffered streams is a finding, a twentieth is none."""
    buffered = [completion(second / 10, burst_share=0.95) for second in range(300)]
    assert found(STEADY[:270] + buffered[:40]) == ["buffering"]
    assert found(STEADY[:285] + buffered[:15]) == []


def test_cached_prompts_and_repetitions_flatter():
    """Half of the prompt tokens from a cache, or half of the prompts repeated; 5 % are not worth a word."""
    assert found([completion(second / 10, cached_tokens=50) for second in range(300)]) == ["cache"]
    assert found(STEADY, prompts_served=300, prompts_repeated=150) == ["cache"]
    assert found([completion(second / 10, cached_tokens=5) for second in range(300)]) == []


def test_answers_that_stop_early_make_a_lighter_load():
    """10 tokens of at most 128 that the model ended itself; not where the limit ended them."""
    stopped = [completion(second / 10, finish_reason="stop") for second in range(300)]
    assert found(stopped, settings={"max_tokens": 128}) == ["early_endings"]
    assert found(stopped, settings={"max_tokens": 12}) == []
    assert found(STEADY, settings={"max_tokens": 128}) == []


def test_a_client_at_its_limit_comes_first():
    """The client's own fault is the first finding."""
    assert found(STEADY, client={"lag_p99_s": 0.001, "cpu_percent_max": 97.0}) == ["client_limit"]


def test_an_open_loop_that_falls_short_says_so():
    """Arrivals that were not sent are a finding; a schedule that was kept is none."""
    counts = {"offered": 300, "sent": 290, "not_sent": {"cap": 10}, "planned": 300, "rate": 10.0, "seconds": 30.0}
    assert found(STEADY, arrivals=counts) == ["open_loop_shortfall"]
    assert found(STEADY, arrivals={**counts, "sent": 300, "not_sent": {}}) == []

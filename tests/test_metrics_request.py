"""Metrics of one request, exact values from made-up timelines."""

from __future__ import annotations

from typing import Any

import pytest

from llmload.metrics.request import measure
from llmload.records import Completion
from llmload.stamps import Stamps
from llmload.timeline import Delta, Timeline, Usage

MS = 1_000_000


def timeline(*events: tuple[int, Delta], usage: Usage | None = None) -> Timeline:
    """Events as (arrival in ms, delta); events of one arrival shared a read."""
    line = Timeline()
    for at, delta in events:
        line.add(delta, at * MS)
    if usage is not None:
        line.add(Delta(usage=usage), events[-1][0] * MS)
    return line


def measured(line: Timeline, stamps: Stamps | None = None, **options: Any) -> dict[str, Any]:
    options = {"stream": True, "open_loop": False, **options}
    return measure(stamps or Stamps(asked_ns=0, sent_ns=0), line, **options)


A = Delta(answer="A")


@pytest.mark.parametrize("role", [Delta(), Delta(answer="", reasoning="")])
def test_ttft_is_first_text_and_not_the_role_chunk(role: Delta) -> None:
    """A role-only chunk at 10 ms and text at 910 ms make a TTFT of 910 ms (TOK-01)."""
    assert measured(timeline((10, role), (910, A)))["ttft_s"] == 0.910


def test_reasoning_is_a_token_and_not_the_answer() -> None:
    """Reasoning at 50 ms and an answer at 150 ms give TTFT 50 ms and TTFA 150 ms (TOK-02)."""
    result = measured(timeline((50, Delta(reasoning="Hm")), (150, A)))
    assert (result["ttft_s"], result["ttfa_s"]) == (0.050, 0.150)


def test_no_token_leaves_every_token_metric_missing() -> None:
    """An answer without text has None, never 0, for all that needs a token (TOK-03)."""
    stamps = Stamps(asked_ns=0, sent_ns=0, headers_ns=1 * MS, first_byte_ns=2 * MS, closed_ns=5 * MS)
    result = measured(timeline((3, Delta()), (4, Delta(done=True))), stamps)
    missing = (
        "ttft_s",
        "ttfa_s",
        "tpot_s",
        "e2e_s",
        "output_tps",
        "output_tokens",
        "usage_source",
        "burst_share",
    )
    assert {name: result[name] for name in missing} == dict.fromkeys(missing)
    assert (result["gaps_us"], result["token_events"], result["closed_s"]) == ((), 0, 0.005)


def test_a_chunk_is_not_a_token() -> None:
    """Four chunks of five tokens at 100 ms each have 20 tokens and a TPOT of 300 ms / 19 (TOK-04)."""
    chunks = [(at, Delta(answer="12345")) for at in (100, 200, 300, 400)]
    result = measured(timeline(*chunks, usage=Usage(input_tokens=7, output_tokens=20)))
    assert (result["output_tokens"], result["token_events"], result["usage_source"]) == (20, 4, "server")
    assert result["tpot_s"] == pytest.approx(0.3 / 19)
    assert result["output_tokens"] / result["e2e_s"] == 20 / 0.4
    assert result["gaps_us"] == (100_000, 100_000, 100_000)


def test_one_token_has_no_tpot() -> None:
    """TPOT of one token, or of two in one chunk, is missing and not infinite (TOK-08)."""
    one = measured(timeline((100, A), usage=Usage(output_tokens=1)))
    two = measured(timeline((100, Delta(answer="A B")), usage=Usage(output_tokens=2)))
    for result in (one, two):
        assert (result["tpot_s"], result["output_tps"], result["gaps_us"]) == (None, None, ())
    assert (one["ttft_s"], one["e2e_s"]) == (0.1, 0.1)


def test_all_chunks_in_one_read_are_a_buffered_stream() -> None:
    """60 chunks in one read have a burst share of 1, no gap, and no TPOT (TOK-09)."""
    result = measured(timeline(*[(16_500, A)] * 60, usage=Usage(output_tokens=60)))
    assert (result["burst_share"], result["coalesced_events"], result["token_events"]) == (1.0, 59, 60)
    assert (result["gaps_us"], result["events_per_read"], result["tpot_s"]) == ((), (60,), None)
    assert result["ttft_is_bound"]


@pytest.mark.parametrize(("share", "buffered"), [(None, False), (0.8, False), (0.81, True)])
def test_above_80_percent_bursts_a_stream_is_buffered(share: float | None, buffered: bool) -> None:
    """The limit itself is not yet buffered, and a stream without a share never is."""
    completion = Completion(
        id="1", scenario="s", model="m", worker="w", started_unix_ns=0, outcome="ok", burst_share=share
    )
    assert completion.buffered is buffered


def test_decode_speed_leaves_out_the_first_token() -> None:
    """1 s of TTFT and 100 tokens over 2 s decode at 99 / 2 = 49.5 tokens/s (TOK-12)."""
    ends = timeline((1000, A), (3000, A), usage=Usage(input_tokens=900, output_tokens=100))
    result = measured(ends)
    assert result["output_tps"] == pytest.approx(49.5)
    assert (result["e2e_s"], result["input_tokens"]) == (3.0, 900)


def test_phases_of_the_start_are_told_apart() -> None:
    """Connect of 200 ms is in TTFT, 30 ms of waiting in the client is in the send delay (TOK-15)."""
    stamps = Stamps(
        asked_ns=0,
        sent_ns=230 * MS,
        headers_ns=330 * MS,
        first_byte_ns=331 * MS,
        closed_ns=340 * MS,
        pool_wait_ns=30 * MS,
        dns_ns=20 * MS,
        connect_ns=80 * MS,
        tls_ns=100 * MS,
        reused=False,
    )
    result = measured(timeline((332, A)), stamps)
    expected = {
        "pool_wait_s": 0.030,
        "send_delay_s": 0.030,
        "dns_s": 0.020,
        "connect_s": 0.080,
        "tls_s": 0.100,
        "headers_s": 0.300,
        "first_byte_s": 0.301,
        "ttft_s": 0.302,
        "closed_s": 0.310,
        "ttft_intended_s": None,
    }
    assert {name: result[name] for name in expected} == expected


def test_a_reused_connection_has_no_set_up() -> None:
    """Phases that did not happen are missing, and TTFT counts from the first byte sent (TOK-15)."""
    result = measured(timeline((332, A)), Stamps(asked_ns=0, sent_ns=230 * MS, reused=True))
    assert [result[name] for name in ("dns_s", "connect_s", "tls_s")] == [None, None, None]
    assert (result["ttft_s"], result["send_delay_s"]) == (0.102, 0.230)


def test_open_loop_adds_the_send_delay() -> None:
    """In an open loop latency is also given from the intended start."""
    result = measured(timeline((900, A)), Stamps(asked_ns=100 * MS, sent_ns=600 * MS), open_loop=True)
    assert (result["send_delay_s"], result["ttft_s"]) == (0.5, 0.3)
    assert (result["ttft_intended_s"], result["e2e_intended_s"]) == (0.8, 0.8)


def test_nothing_sent_has_no_times() -> None:
    """A request that never left has no latency and no send delay."""
    result = measured(Timeline(), Stamps(asked_ns=5), open_loop=True)
    assert {value for name, value in result.items() if name.endswith("_s")} == {None}


def test_an_answer_in_one_piece_has_only_e2e() -> None:
    """Without a stream there is latency, but no TTFT, ITL or TPOT (TOK-16)."""
    result = measured(timeline((800, A), usage=Usage(output_tokens=40)), stream=False)
    assert (result["e2e_s"], result["output_tokens"]) == (0.8, 40)
    assert [result[name] for name in ("ttft_s", "ttfa_s", "tpot_s", "output_tps")] == [None] * 4
    assert "gaps_us" not in result


def test_ttft_is_no_gap() -> None:
    """5 s, then 20 ms and 20 ms, make two gaps of 20 ms (TOK-17)."""
    assert measured(timeline((5000, A), (5020, A), (5040, A)))["gaps_us"] == (20_000, 20_000)


def test_gaps_add_up_to_last_minus_first() -> None:
    """Rounding to microseconds does not drift: 1,000 gaps of 20.0006 ms are 20,000.6 ms."""
    line = Timeline()
    for i in range(1001):
        line.add(A, i * 20_000_600)
    gaps = measured(line)["gaps_us"]
    assert (sum(gaps), set(gaps)) == (20_000_600, {20_000, 20_001})


def test_events_that_shared_a_read_are_left_out_of_gaps() -> None:
    """Of events in one read only the last has a known arrival; the others are counted."""
    result = measured(timeline((100, A), (200, A), (200, A), (300, A)))
    assert result["gaps_us"] == (100_000, 100_000)
    assert (result["coalesced_events"], result["events_per_read"]) == (1, (1, 2, 1))
    assert result["burst_share"] == pytest.approx(1 / 3)
    assert not result["ttft_is_bound"]


def test_without_usage_tokens_are_estimated_and_marked() -> None:
    """No usage: the estimate is taken, from all generated text and the number of events (USE-02)."""
    line = timeline((100, Delta(reasoning="hm")), (200, A))
    result = measured(line, estimate=lambda text, events: len(text) + 10 * events)
    assert (result["output_tokens"], result["usage_source"], result["usage_suspect"]) == (
        23,
        "estimate",
        False,
    )
    assert result["input_tokens"] is None


def test_usage_of_0_beside_text_is_suspect_and_estimated() -> None:
    """Ten chunks and usage 0 contradict each other; the text is estimated (USE-10)."""
    line = timeline(*[(100 * i, A) for i in range(1, 11)], usage=Usage(input_tokens=3, output_tokens=0))
    result = measured(line, estimate=lambda _text, events: events)
    assert (result["output_tokens"], result["usage_source"], result["usage_suspect"]) == (
        10,
        "estimate",
        True,
    )
    assert result["input_tokens"] == 3


def test_usage_without_text_is_suspect_and_counts_nothing() -> None:
    """Usage of 50 without text contradicts what arrived; there is nothing to estimate (USE-10)."""
    result = measured(timeline((100, Delta()), usage=Usage(output_tokens=50)))
    assert (result["output_tokens"], result["usage_source"], result["usage_suspect"]) == (None, None, True)


def test_no_text_is_counted_where_the_server_counts() -> None:
    """MEM-06: with usage from the server nothing walks over the text, however long the conversation is."""

    def tokenizer(*_: object) -> int:
        raise AssertionError("the text was counted")

    result = measured(timeline((100, A), (200, A), usage=Usage(output_tokens=2)), estimate=tokenizer)
    assert result["output_tokens"] == 2


def test_a_request_that_was_never_sent_has_no_times() -> None:
    """CLK-02: without a first byte there is no origin, and no duration is counted from the epoch."""
    result = measured(timeline(), Stamps(asked_ns=5_000_000_000, closed_ns=6_000_000_000))
    times = [value for name, value in result.items() if name.endswith("_s")]
    assert times == [None] * len(times)

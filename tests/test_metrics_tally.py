"""Tallies, seconds and the ledger."""

from __future__ import annotations

import dataclasses
import random
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmload.metrics import tally as tally_module
from llmload.metrics.definitions import METRICS, REQUEST_METRICS, metric
from llmload.metrics.ledger import Ledger
from llmload.metrics.seconds import Seconds, arrivals, ended_unix_ns
from llmload.metrics.tally import MAX_KEYS, MAX_LABELS, Tallies, Tally
from llmload.records import Completion

T0 = 1_800_000_000 * 10**9


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


def tallied(*completions: Completion) -> Tally:
    return Tallies(completions).total()


def test_failed_and_cancelled_requests_have_no_latency() -> None:
    """Only ok completions enter histograms; the others are counted (STAT-10, RTL-04)."""
    total = tallied(
        completion(ttft_s=0.1, e2e_s=1.0),
        completion(outcome="failed", kind="http_status", status=429, ttft_s=0.001, e2e_s=0.001),
        completion(outcome="cancelled", ttft_s=0.002),
    )
    assert (total.counts["ok"], total.counts["failed"], total.counts["cancelled"]) == (1, 1, 1)
    assert (total.histograms["ttft_s"].n, total.histograms["ttft_s"].max) == (1, 0.1)


def test_missing_metrics_are_counted_and_are_no_samples() -> None:
    """12 of 40 completions without TTFT: 28 samples and 12 missing (TOK-03)."""
    total = tallied(*[completion(ttft_s=0.5 if i >= 12 else None) for i in range(40)])
    assert (total.histograms["ttft_s"].n, total.missing["ttft_s"], total.histograms["ttft_s"].min) == (
        28,
        12,
        0.5,
    )


def test_gaps_of_buffered_streams_are_not_itl() -> None:
    """A stream with over 80 % bursts gives no ITL sample and counts as buffered (TOK-09)."""
    total = tallied(
        completion(gaps_us=(20_000, 20_000), burst_share=0.0),
        completion(gaps_us=(5,), burst_share=0.95),
        completion(outcome="failed", kind="truncated", gaps_us=(9,), burst_share=0.0),
    )
    assert (total.histograms["itl_s"].n, total.histograms["itl_s"].mean) == (2, 0.02)
    assert (total.counts["buffered"], total.missing["itl_s"]) == (1, 1)


def test_failures_are_counted_by_kind_and_status_with_one_example() -> None:
    """The example is the first in the order of the alphabet, so workers can report in any order."""
    failures = [
        ("http_status", 429, "slow down"),
        ("http_status", 503, "busy"),
        ("http_status", 429, "chill"),
    ]
    rows = [completion(outcome="failed", kind=k, status=s, message=m) for k, s, m in failures]
    rows.append(completion(outcome="failed", kind="empty", status=200))
    for order in (rows, rows[::-1]):
        total = tallied(*order)
        assert total.failures == {"http_status 429": 2, "http_status 503": 1, "empty": 1}
        assert total.examples == {"http_status 429": "chill", "http_status 503": "busy"}


def test_tokens_are_summed_by_outcome() -> None:
    """Tokens of cut-off answers stand apart from those of ok ones."""
    total = tallied(
        completion(input_tokens=5, output_tokens=20),
        completion(outcome="cancelled", input_tokens=5, output_tokens=7),
        completion(outcome="failed", kind="truncated", output_tokens=3),
    )
    expected = {
        "output_tokens_ok": 20,
        "output_tokens_cancelled": 7,
        "output_tokens_failed": 3,
        "input_tokens_ok": 5,
    }
    assert {name: total.counts[name] for name in expected} == expected


def test_tokens_belong_to_the_seconds_of_their_arrival() -> None:
    """Four reads of five tokens at 0.9, 1.0, 1.1 and 2.3 s are 5, 10 and 5 tokens (STAT-06)."""
    stream = completion(ttft_s=0.9, gaps_us=(100_000, 100_000, 1_200_000), output_tokens=20, closed_s=2.4)
    assert list(arrivals(stream)) == [(1_800_000_000, 5), (1_800_000_001, 10), (1_800_000_002, 5)]


def test_reads_of_several_events_get_their_share() -> None:
    """Reads of one and three events share eight tokens as two and six."""
    stream = completion(ttft_s=0.5, gaps_us=(1_000_000,), events_per_read=(1, 3), output_tokens=8)
    assert list(arrivals(stream)) == [(1_800_000_000, 2), (1_800_000_001, 6)]


def test_an_answer_in_one_piece_arrives_at_its_end() -> None:
    """Without a timeline all tokens arrive with the answer."""
    assert list(arrivals(completion(stream=False, e2e_s=3.2, closed_s=4.0, output_tokens=9))) == [(1_800_000_003, 9)]
    assert list(arrivals(completion(e2e_s=3.2))) == []


STREAMS = st.builds(
    lambda start, ttft_s, gaps, tokens: completion(
        started_unix_ns=T0 + start, ttft_s=ttft_s, gaps_us=tuple(gaps), output_tokens=tokens
    ),
    st.integers(0, 10**10),
    st.floats(0, 5),
    st.lists(st.integers(0, 3_000_000), max_size=30),
    st.integers(1, 500),
)


@given(st.lists(STREAMS, min_size=1, max_size=10))
def test_the_seconds_add_up_to_all_tokens(streams: list[Completion]) -> None:
    """No token is lost or made up by spreading, and no second is below the mean of all at its best (STAT-06)."""
    seconds = Seconds()
    for stream in streams:
        seconds.add(stream)
    tokens = [bucket[1] for bucket in seconds.buckets.values()]
    assert sum(tokens) == sum(stream.output_tokens or 0 for stream in streams)
    best = seconds.best("output_tokens")
    assert best is not None
    assert best >= sum(tokens) / len(tokens)


def test_only_whole_seconds_lie_in_a_window() -> None:
    """Of [0.5, 3.5) the seconds 1 and 2 count; of [0.5, 1.4) there is none."""
    seconds = Seconds()
    for second in range(5):
        seconds.add(completion(started_unix_ns=second * 10**9, e2e_s=0.0, closed_s=0.0, output_tokens=10**second))
    found = seconds.between(0.5, 3.5)
    assert found is not None
    assert (found[0]["output_tokens"], found[0]["requests"], found[1:]) == (110, 2, (1, 3))
    assert seconds.between(0.5, 1.4) is None


def test_a_day_of_seconds_stays_bounded() -> None:
    """Beyond the limit neighbours become one bucket: memory is bounded and sums stay (MEM-01)."""
    seconds = Seconds(max_buckets=100)
    for second in range(1000):
        seconds.add(completion(started_unix_ns=second * 10**9, e2e_s=0.1, output_tokens=3))
    assert (seconds.width, len(seconds.buckets)) == (16, 63)
    assert sum(bucket[1] for bucket in seconds.buckets.values()) == 3000
    assert seconds.best("output_tokens") == 3.0


def test_seconds_of_different_width_merge_to_the_wider() -> None:
    """A merge of 2-second and 1-second buckets has 2-second buckets, in both directions."""
    wide, narrow = Seconds(max_buckets=2), Seconds()
    for second in range(4):
        wide.add(completion(started_unix_ns=second * 10**9, e2e_s=0.1, output_tokens=1))
        narrow.add(completion(started_unix_ns=second * 10**9, e2e_s=0.1, output_tokens=1))
    narrow.merge(wide)
    assert (wide.width, narrow.width) == (2, 2)
    assert [bucket[1] for bucket in narrow.buckets.values()] == [4, 4]


def test_the_end_of_a_request_is_its_close_else_its_last_token() -> None:
    """Cancelled before anything came: the end is the start."""
    assert ended_unix_ns(completion(closed_s=2.0, e2e_s=1.0)) == T0 + 2 * 10**9
    assert ended_unix_ns(completion(e2e_s=1.0)) == T0 + 10**9
    assert ended_unix_ns(completion()) == T0


def random_completion(rng: random.Random, number: int) -> Completion:
    gaps = tuple(rng.randrange(1_000, 60_000) for _ in range(rng.randrange(40)))
    ttft_s = rng.lognormvariate(-1, 0.5)
    outcome = rng.choices(["ok", "failed", "cancelled"], [8, 1, 1])[0]
    return completion(
        id=str(number),
        scenario=rng.choice(["chat", "rag"]),
        step=rng.choice([None, "1", "2"]),
        started_unix_ns=T0 + rng.randrange(60 * 10**9),
        outcome=outcome,
        kind=rng.choice(["truncated", "empty"]) if outcome == "failed" else None,
        message=rng.choice(["a", "b", None]),
        ttft_s=ttft_s,
        e2e_s=ttft_s + sum(gaps) / 1e6,
        closed_s=ttft_s + sum(gaps) / 1e6 + 0.01,
        output_tokens=len(gaps) + 1,
        input_tokens=rng.choice([None, 100]),
        gaps_us=gaps,
        burst_share=rng.choice([None, 0.1, 0.9]),
        finish_reason=rng.choice(["stop", "length", None]),
        usage_source="server",
        reused=rng.choice([True, False, None]),
    )


def sorted_wire(tallies: Tallies) -> list[Any]:
    """Histograms by n, sum and counts, so that dict order does not matter."""
    return sorted(tallies.to_wire(), key=lambda row: (row["scenario"], str(row["step"])))


@pytest.mark.parametrize("seed", range(5))
def test_three_workers_over_msgpack_equal_one_process(seed: int) -> None:
    """Tallies that were shared out, sent and merged equal those that saw everything (rule 6)."""
    rng = random.Random(seed)
    rows = [random_completion(rng, i) for i in range(200)]
    merged = Tallies()
    for worker in (2, 0, 1):
        wire = msgpack.unpackb(msgpack.packb(Tallies(rows[worker::3]).to_wire()))
        merged.merge(Tallies.from_wire(wire))
    assert sorted_wire(merged) == sorted_wire(Tallies(rows))


def test_merging_leaves_the_other_as_it_is() -> None:
    """A merged histogram is a copy: adding to the sum does not change its parts."""
    part, total = Tallies([completion(e2e_s=1.0)]), Tallies()
    total.merge(part)
    total.add(completion(e2e_s=2.0))
    assert part.total().histograms["e2e_s"].n == 1


def test_keys_are_bounded_and_none_is_lost() -> None:
    """The 1,001st combination of scenario, model and step counts as `other`, in its step (MEM-03)."""
    tallies = Tallies(completion(scenario=str(i)) for i in range(MAX_KEYS + 50))
    tallies.add(completion(scenario="new", step="8#2"))
    assert len(tallies.by_key) == MAX_KEYS + 2
    assert tallies.by_key["other", "other", None].counts["ok"] == 50
    assert tallies.by_key["other", "other", "8#2"].counts["ok"] == 1
    assert tallies.total().counts["ok"] == MAX_KEYS + 51


def test_labels_are_bounded_and_none_is_lost() -> None:
    """A server that invents finish reasons fills one `other`."""
    total = tallied(*[completion(finish_reason=f"reason {i}") for i in range(MAX_LABELS * 2)])
    assert (len(total.finish_reasons), total.finish_reasons["other"]) == (MAX_LABELS + 1, MAX_LABELS)


def test_a_soak_does_not_grow() -> None:
    """10,000 further completions of the same hour take less than 300 kB of memory (MEM-01)."""
    tallies, rng = Tallies(), random.Random(1)
    rows = [dataclasses.replace(random_completion(rng, i), step=None) for i in range(2_000)]
    for row in rows:
        tallies.add(row)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(5):
        for row in rows:
            tallies.add(row)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 300_000


@given(st.lists(st.sampled_from(["start", "ok", "failed", "cancelled"]), max_size=50))
def test_the_ledger_balances_at_every_moment(moves: list[Any]) -> None:
    """started == ok + failed + cancelled + in_flight after every move and after a merge (rule 1)."""
    ledger, other = Ledger(), Ledger(started=3, ok=1, failed=1)
    for move in moves:
        if move == "start":
            ledger.start()
        elif ledger.in_flight:
            ledger.end(move)
        assert ledger.started == ledger.ok + ledger.failed + ledger.cancelled + ledger.in_flight
    started = ledger.started
    ledger.merge(Ledger.from_wire(other.to_wire()))
    assert (ledger.started, ledger.in_flight) == (started + 3, started + 3 - ledger.ended)


def test_every_request_metric_is_a_field_of_a_completion() -> None:
    """The table and the record cannot drift apart; ITL alone is a list of gaps."""
    fields = {field.name for field in dataclasses.fields(Completion)}
    assert {row.name for row in REQUEST_METRICS} - fields == {"itl_s"}
    assert all(name in fields for name in tally_module._FIELDS)


def test_metric_names_are_unique_and_carry_their_unit() -> None:
    """A name ends in its unit; an unknown one is refused with the list of known ones."""
    assert len({row.name for row in METRICS}) == len(METRICS)
    assert {row.name for row in METRICS if row.name.endswith("_s")} == {row.name for row in METRICS if row.unit == "s"}
    assert metric("ttft_s").display == "ms"
    with pytest.raises(KeyError, match="no metric 'ttft'; known: ttft_s"):
        metric("ttft")

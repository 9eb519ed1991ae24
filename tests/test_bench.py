"""The bench: its sums on made-up stamps, and a very small run of everything."""

import pytest

from bench.__main__ import Size, measure, table, write
from bench.rounds import Load
from bench.truth import Answer, Errors, errors, percentile, tokens_between

RECORD = {"arrived_ns": 1_000, "token_ns": [5_000, 6_000, 7_000, 9_000]}
ALWAYS = {"from_ns": 0, "to_ns": 10_000}
TINY = Size(
    light=Load(users=2, ttft_ms=20, itl_ms=20, tokens=5, window_s=0.5),
    load=Load(users=3, ttft_ms=20, itl_ms=20, tokens=5, window_s=1.0),
    flat=Load(users=2, ttft_ms=0, itl_ms=0, tokens=50, window_s=0.5),
    blocked=Load(users=3, ttft_ms=20, itl_ms=20, tokens=5, window_s=0.5, hindered=True),
    rounds=1,
    spawned=4,
    spawn_rounds=1,
    clients=4,
    batches=1,
)


def test_errors_are_client_minus_server():
    """The error of the start and that of the first token add up to that of TTFT; each gap has its own."""
    answer = Answer("a", 4_700, [1_100, 900, 2_000], origin_ns=600)
    assert errors(answer, RECORD, **ALWAYS) == Errors(ttft_ns=700, start_ns=400, arrival_ns=300, itl_ns=[100, -100, 0])


def test_a_client_that_keeps_durations_only():
    """Without an origin on the server's clock there is no error of the start and of the arrival."""
    answer = Answer("a", 3_900, [1_000, 1_000, 2_000])
    assert errors(answer, RECORD, **ALWAYS) == Errors(ttft_ns=-100, start_ns=None, arrival_ns=None, itl_ns=[0, 0, 0])


def test_a_shared_read_is_held_against_its_last_token():
    """Tokens 2 and 3 came in one read: the gap before it ends at token 3, the gap after it begins there."""
    answer = Answer("a", 4_000, [2_050, 1_950], events_per_read=[1, 2, 1])
    assert errors(answer, RECORD, **ALWAYS).itl_ns == [50, -50]


def test_a_first_token_in_a_shared_read_has_no_error():
    """Tokens 1 and 2 came in one read: when the first came is not known, so neither is TTFT; the gaps are."""
    answer = Answer("a", 5_000, [1_050, 1_950], origin_ns=600, events_per_read=[2, 1, 1])
    assert errors(answer, RECORD, **ALWAYS) == Errors(ttft_ns=None, start_ns=400, arrival_ns=None, itl_ns=[50, -50])


def test_gaps_outside_the_window_do_not_count():
    """A gap counts when both of its tokens were sent inside the window."""
    answer = Answer("a", 4_000, [1_001, 1_002, 2_003])
    assert errors(answer, RECORD, from_ns=5_500, to_ns=9_000).itl_ns == [2]
    assert tokens_between([RECORD], 6_000, 9_000) == 2


def test_a_token_that_was_not_seen_is_an_error():
    """A client that saw fewer token events than were sent is not measured against them."""
    with pytest.raises(ValueError, match="a: 3 token events seen, 4 sent"):
        errors(Answer("a", 4_000, [1_000, 1_000]), RECORD, **ALWAYS)


def test_percentiles_are_by_nearest_rank():
    """Of four values the 50th percentile is the second, the 99th the last."""
    assert [percentile([4, 1, 3, 2], percent) for percent in (0, 50, 75, 99, 100)] == [1, 2, 3, 4, 4]


def test_the_table_goes_between_its_marks():
    """Only what stands between the marks changes, and writing twice changes nothing more."""
    begin, end = "<!-- bench:begin -->", "<!-- bench:end -->"
    once = write("| new \\1 |", f"before\n{begin}\nold\n{end}\nafter\n")
    assert once == f"before\n{begin}\n| new \\1 |\n{end}\nafter\n"
    assert write("| new \\1 |", once) == once
    with pytest.raises(ValueError, match="0 places"):
        write("| new |", "no marks")


def test_every_request_of_a_small_run_is_matched():
    """All arms run, every request they sent is in the server's log, and each figure has a cell in the table."""
    figures = measure(TINY)
    every = ["baseline", "llmload", "locust", "floor"]
    parts = (figures.light, figures.paced, figures.lockstep, figures.flat, figures.blocked)
    assert [list(part) for part in parts] == [every, every, every, every, ["baseline", "llmload", "floor"]]
    for arm, (one,) in ((arm, rounds) for part in parts for arm, rounds in part.items()):
        assert one.matched == one.sent > 0
        assert one.cpu_us > 0
        assert (one.coalesced_percent is None) == (arm == "baseline")
        assert bool(one.start_ms) == (arm != "locust")
    for (one,) in [*figures.paced.values(), *figures.lockstep.values()]:
        assert one.ttft_ms
        assert one.itl_ms
        assert one.each_bytes > 0
    assert {arm: len(spawns) for arm, spawns in figures.spawns.items()} == {"baseline": 1, "llmload": 1}
    lines = table(figures, TINY).splitlines()
    assert [line.count("|") for line in lines[:38]] == [6] * 38
    assert lines[38] == ""

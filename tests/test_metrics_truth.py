"""Client against server, on made-up stamps."""

import pytest

from llmload.metrics.truth import Answer, Errors, client_ttft_ns, errors, percentile, tokens_between
from llmload.records import Completion

RECORD = {"arrived_ns": 1_000, "token_ns": [5_000, 6_000, 7_000, 9_000]}
ALWAYS = {"from_ns": 0, "to_ns": 10_000}


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


def test_an_answer_out_of_the_record():
    """A completion's durations in nanoseconds; one that did not end ok has no times to compare."""
    known = {"scenario": "Chat", "model": "m", "worker": "local", "started_unix_ns": 1, "gaps_us": (20_000, 19_999)}
    done = Completion(id="a", outcome="ok", ttft_s=0.2000011, events_per_read=(1, 2, 1), written_s=5e-5, **known)
    gaps_ns = [20_000_000, 19_999_000]
    assert Answer.of(done) == Answer("a", 200_001_100, gaps_ns, None, (1, 2, 1), 50_000)
    assert Answer.of(done, clock_offset_ns=-9) == Answer("a", 200_001_100, gaps_ns, 10, (1, 2, 1), 50_000)
    with pytest.raises(ValueError, match="b failed: truncated cut"):
        Answer.of(Completion(id="b", outcome="failed", kind="truncated", message="cut", **known))


def test_what_a_server_takes_to_notice_is_no_error_of_the_client():
    """The start can be wrong by the time of the write at most; without the stamps the whole error counts."""
    late = Errors(ttft_ns=8_020, start_ns=8_000, arrival_ns=20, itl_ns=[])
    assert client_ttft_ns(Answer("a", 0, [], written_ns=50), late) == 70
    assert client_ttft_ns(Answer("a", 0, [], written_ns=9_000), late) == 8_020
    assert client_ttft_ns(Answer("a", 0, []), late) == 8_020
    unknown = Errors(ttft_ns=8_020, start_ns=None, arrival_ns=None, itl_ns=[])
    assert client_ttft_ns(Answer("a", 0, [], written_ns=50), unknown) == 8_020
    bound = Errors(ttft_ns=None, start_ns=8_000, arrival_ns=None, itl_ns=[])
    assert client_ttft_ns(Answer("a", 0, [], written_ns=50), bound) is None

"""What run.json says of the command line, and how several clocks become one."""

import pytest

from llmload.metrics.tally import Tallies
from llmload.records import Completion
from llmload.swarm.about import shown_command


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["locust", "--header", "X-Pin: 123", "-u", "5"], "locust --header 'X-Pin: ***' -u 5"),
        (["locust", "--header=X-Pin: 123"], "locust '--header=X-Pin: ***'"),
        (["locust", "--host", "http://bob:pw@h/v1?sid=a+b"], "locust --host 'http://h/v1?sid=***'"),
        (["locust", "--host=http://bob:pw@h:1/v1"], "locust --host=http://h:1/v1"),
    ],
)
def test_a_command_line_is_shown_without_secrets(argv, shown):
    """SEC-01, SEC-03: values of headers, however short, and secrets of URLs, however they are encoded."""
    assert shown_command(argv) == shown


def test_a_worker_with_another_clock_is_moved_by_whole_seconds():
    """Moving the sums of a worker is the same as summing its moved completions."""
    fields = {"id": "1", "scenario": "s", "model": "m", "worker": "w", "outcome": "ok", "output_tokens": 3}
    late = Completion(
        **fields,
        started_unix_ns=1_000_000_000_900_000_000,
        ttft_s=0.2,
        e2e_s=0.5,
        closed_s=0.6,
        gaps_us=(150_000, 150_000),
    )
    moved = Completion(
        **{**late.to_dict(), "started_unix_ns": late.started_unix_ns - 60 * 10**9, "gaps_us": (150_000, 150_000)}
    )
    tallies = Tallies([late])
    tallies.shift(-60)
    assert tallies.to_wire() == Tallies([moved]).to_wire()

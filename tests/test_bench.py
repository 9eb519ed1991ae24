"""The bench: its table, and a very small run of everything."""

import pytest

from bench.__main__ import Size, measure, table, write
from bench.rounds import Load

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

"""The bench: its table, and a very small run of everything."""

from dataclasses import replace

import pytest

from bench.__main__ import QUICK, TLS, Figures, table, write
from bench.rounds import ARMS, CLIENTS, Load, compare, cost, spawn
from tests import certificates

TINY = Load(users=3, ttft_ms=20, itl_ms=20, tokens=5, window_s=1.0)


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
    arms = compare(TINY, ARMS, 1)
    assert list(arms) == ["baseline", "llmload", "locust", "floor"]
    for arm, (one,) in arms.items():
        assert one.matched == one.sent > 0
        assert one.cpu_us > 0
        assert (one.coalesced_percent is None) == (arm == "baseline")
        assert bool(one.start_ms) == (arm != "locust")
        assert one.ttft_ms
        assert one.itl_ms
        assert one.each_bytes > 0
    spawns = {arm: [spawn(arm, 4)] for arm in CLIENTS}
    parts = ("light", "paced", "lockstep", "flat", "blocked", "plain", "tls", "many", "most")
    figures = Figures(**dict.fromkeys(parts, arms), cost_ms=cost(clients=4, batches=1), spawns=spawns)
    lines = table(figures, QUICK).splitlines()
    assert [line.count("|") for line in lines[:54]] == [6] * 54
    assert lines[54] == ""


def test_the_clients_keep_up_over_tls_and_while_their_loop_is_held():
    """Over TLS, and beside a neighbour that holds the event loop, every request is in the server's log as well."""
    over_tls = compare(replace(TINY, certificate=certificates.files()), TLS, 1)
    hindered = compare(replace(TINY, hindered=True), ("llmload",), 1)
    for (one,) in [*over_tls.values(), *hindered.values()]:
        assert one.matched == one.sent > 0

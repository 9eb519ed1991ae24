"""Seconds of a run: what they hold, and that a run and its record give the same."""

import random

import pytest

from llmload.metrics.intervals import KEPT_S, Intervals
from llmload.metrics.tally import Tallies
from llmload.records import Completion

START_S = 1_700_000_000


def completion(at_s, *, ttft_s=0.5, gaps_us=(100_000, 100_000), outcome="ok", number=1, **more):
    """One completion that starts so many seconds into the run; its last token ends it."""
    e2e_s = None if outcome == "failed" else ttft_s + sum(gaps_us) / 1e6
    fields = {
        "id": f"a-local-{number}", "scenario": "chat", "model": "m", "worker": "local", "outcome": outcome,
        "started_unix_ns": round((START_S + at_s) * 1e9), "closed_s": e2e_s or 0.1, "stamps": "kernel",
    }  # fmt: skip
    if outcome == "ok":
        fields.update(ttft_s=ttft_s, e2e_s=e2e_s, gaps_us=gaps_us, output_tokens=len(gaps_us) + 1, token_events=3)
    return Completion(**fields | more)


def feed(intervals, *completions):
    intervals.take(Tallies(completions), [one.to_dict() for one in completions])


def look(users=2, in_flight=1, started=3, **more):
    return {"users": users, "in_flight": in_flight, "started": started, "cpu_percent": 5.0, "lag_p99_s": 0.001, **more}


def rows(intervals, before=float("inf")):
    """Return the rows by (seconds since the start, scenario or all)."""
    return {
        (second - START_S, key[0] if key else "all"): fields for second, key, fields in intervals.ready(before=before)
    }


def test_a_second_has_what_ended_in_it():
    """Latencies and counts belong to the second of the end, tokens to that of their arrival."""
    intervals = Intervals(START_S)
    feed(intervals, completion(0.2, ttft_s=0.5, gaps_us=(500_000,)), completion(1.0, outcome="failed", kind="empty"))
    found = rows(intervals)
    assert (found[0, "chat"]["output_tps"], found[0, "chat"]["ok"], found[0, "chat"]["ttft_n"]) == (1.0, 0, 0)
    second = found[1, "all"]
    assert (second["ok"], second["failed"], second["cancelled"]) == (1, 1, 0)
    assert (second["ok_rate"], second["failed_rate"], second["output_tps"]) == (1.0, 1.0, 1.0)
    assert (second["ttft_p50_s"], second["ttft_n"], second["itl_p99_s"], second["e2e_max_s"]) == (0.5, 1, 0.5, 1.0)
    assert "tpot_p50_s" not in second
    assert second["tpot_n"] == 0
    assert second["elapsed_s"] == 1.0


def test_percentiles_are_those_of_a_sorted_list():
    """The 90th percentile of 1 … 100 ms is 90 ms, the 99th 99 ms."""
    intervals = Intervals(START_S)
    feed(intervals, *(completion(0.1, ttft_s=ms / 1000, gaps_us=(), number=ms) for ms in range(1, 101)))
    found = rows(intervals)[0, "all"]
    assert [found[f"ttft_p{p}_s"] for p in (50, 90, 95, 99)] == [0.05, 0.09, 0.095, 0.099]


def test_users_are_those_of_the_last_look_at_each_worker():
    """A worker that is looked at every other second counts in between; one that is gone counts no users."""
    intervals = Intervals(START_S)
    intervals.take_look("worker-0", START_S + 0.5, look(users=3, started=5, offered_rate=2.0))
    intervals.take_look("worker-1", START_S + 0.7, look(users=4, started=6, offered_rate=2.5))
    intervals.take_look("worker-0", START_S + 20.5, look(users=2, started=9))
    found = rows(intervals)
    assert (found[0, "all"]["users"], found[0, "all"]["started"], found[0, "all"]["offered_rate"]) == (7, 11, 4.5)
    assert (found[5, "all"]["users"], found[5, "all"]["started_rate"]) == (7, 0.0)
    assert (found[15, "all"]["users"], found[15, "all"]["in_flight"], found[15, "all"]["started"]) == (0, 0, 11)
    assert (found[20, "all"]["users"], found[20, "all"]["started_rate"]) == (2, 4.0)
    assert found[0, "all"]["verdict"] == "unknown"


def test_a_second_comes_again_when_something_of_it_comes_late():
    """Tokens of an answer that went on, and totals of the seconds after a late completion, are given out anew."""
    intervals = Intervals(START_S)
    feed(intervals, completion(0.0, number=1), completion(3.0, number=2))
    assert rows(intervals, before=START_S + 10)[3, "all"]["ok"] == 2
    assert rows(intervals, before=START_S + 10) == {}
    feed(intervals, completion(0.5, gaps_us=(1_000_000,), number=3))
    again = rows(intervals, before=START_S + 10)
    assert [second for second, name in again if name == "all"] == [1, 2, 3]
    assert again[3, "all"]["ok"] == 3
    assert again[1, "all"]["output_tps"] == 1.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_how_it_was_watched_changes_nothing(seed):
    """The last rows of all seconds are the same whether a run was asked for rows each second or once at its end."""
    chance = random.Random(seed)
    done = [
        completion(at / 7, ttft_s=chance.uniform(0.01, 9), number=at, step=chance.choice([None, "5"]))
        for at in range(900)
    ]
    done.sort(key=lambda one: one.started_unix_ns + one.closed_s * 1e9 + chance.uniform(0, 2e9))
    watched, at_once, seen = Intervals(START_S), Intervals(START_S), {}
    for one in done:
        feed(watched, one)
        now_s = one.started_unix_ns / 1e9 + one.closed_s
        seen |= {(second, key): fields for second, key, fields in watched.ready(before=now_s - 1, longest_s=10)}
    seen |= {(second, key): fields for second, key, fields in watched.ready(before=float("inf"))}
    feed(at_once, *done)
    assert seen == {(second, key): fields for second, key, fields in at_once.ready(before=float("inf"))}
    assert max(fields["ok"] for (_, key), fields in seen.items() if key is None) == 900


def test_memory_is_bounded_and_totals_go_on():
    """Of a long run only the last seconds are kept; the totals still count everything."""
    intervals, last = Intervals(START_S), {}
    for at in range(3 * KEPT_S):
        feed(intervals, completion(at, number=at))
        last = rows(intervals, before=START_S + at)
    assert len(intervals._cells) <= KEPT_S + 2
    assert max(fields["ok"] for fields in last.values()) == 3 * KEPT_S - 1

"""Goodput: its text form, what is good, and its part of a summary."""

from __future__ import annotations

from typing import Any

import pytest

from llmload.errors import SetupError
from llmload.metrics.goodput import marked, parse_goodput
from llmload.metrics.judgement import judge_run
from llmload.metrics.summary import summarise
from llmload.metrics.sweep import sweep_of
from llmload.metrics.tally import Tallies
from llmload.records import Completion

T0_S = 1_800_000_000


def completion(number: int = 1, **fields: Any) -> Completion:
    defaults = {
        "id": str(number),
        "scenario": "chat",
        "model": "m",
        "worker": "w",
        "started_unix_ns": T0_S * 10**9,
        "outcome": "ok",
    }
    return Completion(**{**defaults, **fields})


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("ttft:500 tpot:50 e2e:5000", {"ttft_s": 0.5, "tpot_s": 0.05, "e2e_s": 5.0}),
        ("e2el:5000", {"e2e_s": 5.0}),
        ("TTFT: 500ms, e2e_s:5s", {"ttft_s": 0.5, "e2e_s": 5.0}),
        ("ttft_intended:.5", {"ttft_intended_s": 0.0005}),
    ],
)
def test_limits_are_milliseconds(text: str, limits: dict[str, float]) -> None:
    """The form of other tools, and their name for E2E."""
    goodput = parse_goodput(text)
    assert goodput is not None
    assert dict(goodput.limits) == limits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ttft", "'ttft' is no objective: write e.g."),
        ("ttft:500 50", "'50' is no objective"),
        ("ttft<500", "'ttft<500' is no objective"),
        ("tfft:500", "'tfft' is no time of a request: use ttft"),
        ("itl:50", "a request has many ITLs: give tpot"),
        ("ttft:0", "nothing takes 0 ms"),
        ("e2e:5 e2el:6", "e2el is there twice"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, message: str) -> None:
    """One line, with what to write instead."""
    with pytest.raises(SetupError, match="--goodput: ") as refused:
        parse_goodput(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("outcome", "measured", "good"),
    [
        ("ok", {"ttft_s": 0.5, "tpot_s": 0.05}, True),
        ("ok", {"ttft_s": 0.501, "tpot_s": 0.05}, False),
        ("ok", {"ttft_s": 0.4, "tpot_s": None}, False),
        ("failed", {"ttft_s": 0.4, "tpot_s": 0.01}, False),
        ("cancelled", {"ttft_s": 0.4, "tpot_s": 0.01}, False),
    ],
)
def test_good_is_ok_with_every_metric_at_most_its_limit(outcome: str, measured: dict[str, Any], good: bool) -> None:
    """A metric that is missing is not met."""
    goodput = parse_goodput("ttft:500 tpot:50")
    assert goodput is not None
    assert goodput.good(outcome, measured) is good


def test_the_summary_counts_good_completions() -> None:
    """Share of everything started, rate over the window, by scenario, and what was missing; also from other limits."""
    rows = [
        *(completion(n, ttft_s=0.1, e2e_s=0.1 * n, closed_s=1.0, scenario="a") for n in range(1, 11)),
        completion(11, closed_s=1.0, scenario="b"),
        completion(12, outcome="failed", kind="empty", closed_s=1.0, scenario="b"),
    ]
    run = {"started": 16, "settings": {"goodput": "e2e:500", "slo": ["goodput >= 50%; a: goodput >= 50%"]}}
    tallies = Tallies(marked(rows, parse_goodput("e2e:500")))
    summary = summarise(Tallies.from_wire(tallies.to_wire()), run)
    assert summary["goodput"] == {
        "objectives": {"e2e_s": 0.5},
        "started": 16,
        "good": 5,
        "share": 5 / 16,
        "rate": 5.0,
        "missing": {"e2e_s": 1},
    }
    parts = {name: one["goodput"] for name, one in summary["scenarios"].items()}
    assert [(parts[name]["good"], parts[name]["share"]) for name in "ab"] == [(5, 0.5), (0, 0.0)]
    assert [one["met"] for one in summary["objectives"]] == [False, True]


def test_the_rate_is_that_of_the_steady_window() -> None:
    """Good completions that ended in its whole seconds, over its seconds."""
    goodput = parse_goodput("e2e:500")
    rows = [
        completion(n, started_unix_ns=(T0_S + n) * 10**9, e2e_s=0.4 if n % 2 else 0.6, closed_s=0.6) for n in range(10)
    ]
    run = {"settings": {"goodput": "e2e:500"}, "steady_from": T0_S + 1, "stopped_at": T0_S + 5, "started": 10}
    summary = summarise(Tallies(marked(rows, goodput)), run)
    assert (summary["throughput"]["window"]["seconds"], summary["goodput"]["rate"]) == (4, 0.5)
    assert summary["goodput"]["share"] == 0.5


def test_without_limits_there_is_no_goodput() -> None:
    """None, not 0: nothing said what is good."""
    summary = summarise(Tallies([completion()]), {})
    assert (summary["goodput"], summary["scenarios"]["chat"]["goodput"], summary["objectives"]) == (None, None, None)


def test_objectives_find_any_percentile_model_and_step() -> None:
    """What a summary does not hold comes from the tallies; what is not measured counts only where it is asked for."""
    rows = [
        completion(n, ttft_s=n / 1000, model="x" if n <= 50 else "y", step=step)
        for n, step in zip(range(1, 101), ("10#1", "10#2", "10#2~settle", "20") * 25, strict=True)
    ]
    texts = [
        "p99.5(ttft) < 1s; requests > 1",
        "model=x: max(ttft) <= 50ms",
        "model=x: p75(ttft) < 1s; model=z: p50(ttft) < 1s",
        "step=10: n(ttft) > 1; step=10#2: n(ttft) > 1; step=20: n(ttft) > 1; step=10#2~settle: n(ttft) > 1",
        "scenario=chat, model=y, step=20: min(ttft) > 1ms",
        "step=10: success_rate >= 50%; step=1: error_rate < 50%",
    ]
    tallies = Tallies(rows)
    verdicts = judge_run(tallies, {"settings": {"slo": texts}}, summarise(tallies, {}))
    assert verdicts is not None
    assert [one["n"] for one in verdicts] == [75, 75, 38, 38, 0, 50, 25, 25, 25, 13, 50, 0]
    values = [0.1, 75, 0.05, 0.038, None, 50, 25, 25, 25, 0.052, 1.0, None]
    assert [one["value"] for one in verdicts] == [value and pytest.approx(value, rel=0.001) for value in values]


def test_a_step_of_a_sweep_has_its_goodput_and_scopes() -> None:
    """What a level misses is judged like the whole run: by goodput, by scenario, and with what hung."""
    rows = [
        completion(n, step="2", e2e_s=0.2, closed_s=0.2, started_unix_ns=(T0_S + n) * 10**9, scenario="a")
        for n in range(8)
    ]
    rows += [
        completion(n, step="4", e2e_s=0.8, closed_s=0.8, started_unix_ns=(T0_S + n) * 10**9, scenario="b")
        for n in range(10, 18)
    ]
    rows.append(completion(20, step="4", outcome="cancelled", cut_s=60.0, started_unix_ns=(T0_S + 12) * 10**9))
    run = {
        "settings": {
            "goodput": "e2e:500",
            "slo": ["goodput > 50%; goodput_rate > 0.4; b: max(e2e) < 500ms; max(e2e) < 50s"],
        },
        "phases": [
            {
                "course": "sweep",
                "axis": "users",
                "level": level,
                "step": str(level),
                "from": T0_S + at,
                "to": T0_S + at + 9,
            }
            for level, at in ((2, 0), (4, 10))
        ],
    }
    sweep = sweep_of(Tallies(marked(rows, parse_goodput("e2e:500"))), run)
    assert sweep is not None
    low, high = sweep["steps"]
    assert (low["goodput"]["share"], low["goodput"]["rate"], low["misses"]) == (
        1.0,
        8 / 9,
        ["b: max(e2e) < 500ms"],
    )
    assert (high["goodput"]["share"], high["goodput"]["started"], high["misses"]) == (
        0.0,
        9,
        ["goodput > 50%", "goodput_rate > 0.4", "b: max(e2e) < 500ms", "max(e2e) < 50s"],
    )

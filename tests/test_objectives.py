"""The grammar of objectives and their verdicts, on texts and sections made up here."""

from __future__ import annotations

from typing import Any

import pytest

from llmload.errors import SetupError
from llmload.metrics.objective import Objective, Scope, shown
from llmload.metrics.objectives import judge, missed, parse_objectives

CUT_OFF = "; how long 5 cut-off requests would have taken is not in it"


def one(text: str) -> Objective:
    (objective,) = parse_objectives([text])
    return objective


def section(**metrics: Any) -> dict[str, Any]:
    empty = {"n": 0, "mean": None, "p95": None}
    return {
        "metrics": {"ttft_s": empty, "itl_s": empty, "output_tokens": empty, **metrics},
        "throughput": {"output_throughput": 950.0, "request_throughput": 3.0},
        "ledger": {"started": 1000, "ok": 985, "failed": 10, "cancelled": 5, "in_flight": 0},
        "goodput": None,
        "scenarios": {},
    }


@pytest.mark.parametrize(
    ("text", "metric", "statistic", "op", "limit"),
    [
        ("p95(ttft) < 800ms", "ttft_s", "p95", "<", 0.8),
        ("p95(ttft_s)<0.8s", "ttft_s", "p95", "<", 0.8),
        ("P99.9( TTFT ) <= 1.5 S", "ttft_s", "p99.9", "<=", 1.5),
        ("mean(e2e) < 2m", "e2e_s", "mean", "<", 120.0),
        ("max(itl) < 250us", "itl_s", "max", "<", 0.00025),
        ("p5(output_tps) > 20", "output_tps", "p5", ">", 20.0),
        ("min(output_tps) >= 20 tok/s", "output_tps", "min", ">=", 20.0),
        ("mean(output_tokens) <= 1e3 tokens", "output_tokens", "mean", "<=", 1000.0),
        ("n(ttft) >= 200", "ttft_s", "n", ">=", 200.0),
        ("p50(burst_share) < 10%", "burst_share", "p50", "<", 0.1),
        ("error_rate < 1%", "error_rate", None, "<", 0.01),
        ("error_rate <= 0.7 %", "error_rate", None, "<=", 0.007),
        ("error_rate <= 0", "error_rate", None, "<=", 0.0),
        ("success_rate >= .99", "success_rate", None, ">=", 0.99),
        ("goodput >= 0.98", "goodput", None, ">=", 0.98),
        ("goodput_rate > 2.5rps", "goodput_rate", None, ">", 2.5),
        ("output_throughput > 900", "output_throughput", None, ">", 900.0),
        ("requests >= 100", "requests", None, ">=", 100.0),
    ],
)
def test_an_objective_is_a_value_in_the_metric_s_unit(
    text: str, metric: str, statistic: str | None, op: str, limit: float
) -> None:
    """Names with and without _s, any percentile, and limits in seconds, shares, tokens."""
    assert one(text) == Objective(" ".join(text.split()), Scope(), metric, statistic, op, limit)  # type: ignore[arg-type]


def test_many_stand_in_one_text_and_in_many() -> None:
    """`;`, line ends and `and` separate; duplicates are one; a scope holds for what `and` joins to it."""
    found = parse_objectives(
        [
            "chat: p95(ttft) < 1s and error_rate < 5%; goodput >= 0.9;",
            "goodput >= 0.9\nmodel=qwen2.5:7b, step=50#2: max(e2e) < 9s",
            'scenario="long; and odd: one": requests > 3',
        ]
    )
    assert [(str(objective.scope), objective.text) for objective in found] == [
        ("chat", "chat: p95(ttft) < 1s"),
        ("chat", "chat: error_rate < 5%"),
        ("", "goodput >= 0.9"),
        ('model="qwen2.5:7b", step=50#2', 'model="qwen2.5:7b", step=50#2: max(e2e) < 9s'),
        ('"long; and odd: one"', '"long; and odd: one": requests > 3'),
    ]
    assert found[3].scope == Scope(model="qwen2.5:7b", step="50#2")
    assert parse_objectives([objective.text for objective in found]) == found


@pytest.mark.parametrize(
    ("text", "mark", "message"),
    [
        ("p95(tfft) < 800ms", "t", "there is no metric 'tfft': use one of ttft"),
        ("p95(ttft) < 800", "8", "a time needs a unit: write e.g. 800ms or 800s"),
        ("p95(ttft) < 800tok/s", "t", "'tok/s' is no unit of ttft_s: use us, ms, s"),
        ("p95(ttft) 800ms", "8", "a comparison must follow p95(ttft)"),
        ("p95(ttft) = 800ms", "=", "a comparison must follow p95(ttft)"),
        ("p95(ttft) <", "", "a number must follow the comparison: write e.g. p95(ttft) < 800ms"),
        ("p95(ttft) < -1s", "-", "a number must follow"),
        ("p95(ttft) < nan", "n", "a number must follow"),
        ("p95(ttft < 800ms", "<", "a ) must follow ttft"),
        ("p950(ttft) < 800ms", "p", "p950 is no percentile"),
        ("p0(ttft) < 800ms", "p", "p0 is no percentile"),
        ("avg(ttft) < 800ms", "a", "there is no statistic 'avg': use one of "),
        ("ttft < 800ms", "t", "ttft needs a statistic: write e.g. p95(ttft) or mean(ttft)"),
        ("p95(error_rate) < 1%", "e", "error_rate is one number of a run, it has no p95"),
        ("error_rte < 1%", "e", "there is no value 'error_rte': use one of error_rate"),
        ("error_rate < 1", "1", "1 of what: write 1%, or a share below 1"),
        ("error_rate < 101%", "1", "101% is more than all"),
        ("error_rate < 0", "0", "no run can meet this limit"),
        ("success_rate > 100%", "1", "no run can meet this limit"),
        ("goodput >= 0", "0", "every run meets this limit"),
        ("error_rate <= 100%", "1", "every run meets this limit"),
        ("p95(ttft) > 0ms", "0", "every run meets this limit: give one that can be missed"),
        ("p95(ttft) <= 0ms", "0", "no run can meet this limit: give one between the possible values"),
        ("mean(output_tps) > 0", "0", "every run meets this limit"),
        ("chat: min(output_tokens) <= 0", "0", "no run can meet this limit"),
        ("n(ttft) < 1", "1", "no run can meet this limit"),
        ("n(ttft) <= 0", "0", "no run can meet this limit"),
        ("requests < 1", "1", "no run can meet this limit"),
        ("requests >= 0", "0", "every run meets this limit"),
        ("p95(ttft) < 800ms, error_rate < 1%", ",", "',' is too much: put ; between objectives"),
        ("p95(ttft) < 800ms error_rate < 1%", "e", "'e' is too much: put ; between objectives"),
        ("p95(ttft) < 800ms and", "", "an objective is missing beside 'and'"),
        ("and p95(ttft) < 800ms", "a", "an objective is missing beside 'and'"),
        ("user=chat: p95(ttft) < 1s", "u", "there is no scope 'user'"),
        ("chat, b: p95(ttft) < 1s", "b", "the scope names scenario twice"),
        (": p95(ttft) < 1s", ":", "this is no scope"),
        ("ok; ok", "o", "there is no value 'ok'"),
        ("", None, "--slo is empty, a gate that checks nothing"),
        (" ;\n; ", None, "--slo is empty, a gate that checks nothing"),
    ],
)
def test_what_does_not_parse_is_pointed_at(text: str, mark: str | None, message: str) -> None:
    """One line says what and what to write, nearest names first; below it a mark under the character."""
    with pytest.raises(SetupError) as refused:
        parse_objectives([text])
    said, *shown_lines = str(refused.value).split("\n")
    assert message in said
    if mark is None:
        assert shown_lines == []
    else:
        line, marks = shown_lines
        assert line.strip() == text.strip()
        assert line[marks.index("^") :][: len(mark)] == mark


def test_a_long_text_is_shown_around_the_place() -> None:
    """Only the line that is meant, and only its part around the character; hostile characters are blanked."""
    with pytest.raises(SetupError) as refused:
        parse_objectives(["error_rate < 1%\n" + "requests > 1; " * 30 + "\x1b[31m\nerror_rate < 1%"])
    _, line, marks = str(refused.value).split("\n")
    assert len(line) <= 104
    assert line[marks.index("^") :] == " [31m"


@pytest.mark.parametrize(
    "text",
    ["mean(pool_wait) > 0ms", "p50(cached_tokens) > 0", "error_rate > 0%", "error_rate <= 0%", "n(ttft) > 0",
     "n(ttft) <= 1", "requests <= 1", "goodput > 0%", "output_throughput > 0", "max(burst_share) <= 0%"],
)  # fmt: skip
def test_what_some_runs_meet_and_others_do_not_is_a_limit(text: str) -> None:
    """Waits, shares and cached tokens can be 0, and a run can have one sample."""
    assert [one.text for one in parse_objectives([text])] == [text]


@pytest.mark.parametrize(
    ("texts", "contradict"),
    [
        (["p95(ttft) < 1s", "p95(ttft) > 2s"], True),
        (["p95(ttft) < 1s; p95(ttft) >= 1s"], True),
        (["p95(ttft) <= 1s; p95(ttft) >= 1s"], False),
        (["p50(ttft) > 2s; p95(ttft) < 1s"], True),
        (["p95(ttft) > 2s; p50(ttft) < 1s"], False),
        (["min(ttft) > 2s; mean(ttft) < 1s"], True),
        (["mean(ttft) > 2s; p50(ttft) < 1s"], False),
        (["mean(ttft) > 2s; max(ttft) < 1s"], True),
        (["chat: p95(ttft) < 1s; p95(ttft) > 2s"], False),
        (["p95(ttft) < 1s; p95(ttft) < 2s; p95(ttft) < 1s"], False),
        (["n(ttft) > 100; max(ttft) < 2s"], False),
        (["error_rate < 1%; success_rate < 99%"], True),
        (["error_rate <= 1%; success_rate <= 99%"], False),
        (["success_rate > 99%; error_rate >= 1%"], True),
        (["chat: error_rate < 1%; success_rate < 99%"], False),
    ],
)
def test_limits_that_contradict_are_refused(texts: list[str], contradict: bool) -> None:
    """Also across statistics of the same samples: p50 is never above p95."""
    if contradict:
        with pytest.raises(SetupError, match="contradict each other"):
            parse_objectives(texts)
    else:
        assert parse_objectives(texts)


@pytest.mark.parametrize(
    ("text", "value", "n", "met", "why"),
    [
        ("p95(ttft) < 800ms", 0.612, 228, True, "it was 612 ms"),
        ("p95(ttft) < 612ms", 0.612, 228, False, "it was 612 ms"),
        ("p95(ttft) <= 612ms", 0.612, 228, True, "it was 612 ms"),
        ("n(ttft) >= 228", 228, 228, True, "it was 228 samples"),
        ("p95(itl) < 1s", None, 0, False, "no samples"),
        ("p95(itl) > 1s", None, 0, False, "no samples"),
        ("n(itl) >= 1", None, 0, False, "no samples"),
        ("p99(ttft) < 1s", None, 228, False, "the summary has no p99 (no token, or not streamed)"),
        ("error_rate < 1%", 10 / 995, 995, False, "it was 1.005 %"),
        ("success_rate > 98%", 985 / 995, 995, True, "it was 98.99 %"),
        ("cancelled_rate <= 0.5%", 0.005, 1000, True, "it was 0.5 %"),
        ("requests > 2000", 1000.0, 1000, False, "it was 1000 requests"),
        ("output_throughput > 900", 950.0, 985, True, "it was 950 tok/s"),
        ("total_throughput > 900", None, 985, False, "the summary has no total_throughput (no window, or no usage)"),
        ("goodput > 90%", None, 0, False, "no samples: nothing was started, or no --goodput was given"),
    ],
)
def test_an_objective_is_judged(text: str, value: float | None, n: int, met: bool, why: str) -> None:
    """Exact values; what has no samples is not met, whichever way the limit points."""
    objective, summary = one(text), section(ttft_s={"n": 228, "p95": 0.612})
    (verdict,) = judge([objective], summary)
    said = verdict["why"].removesuffix(CUT_OFF)
    assert (verdict["value"], verdict["n"], verdict["met"], said) == (value, n, met, why)
    assert objective.holds(summary) is met
    assert missed([verdict]) == ([] if met else [verdict])


def test_a_verdict_is_ready_for_json() -> None:
    """All of its keys."""
    assert judge([one("chat: p95(ttft) < 0.8s")], section()) == [
        {
            "text": "chat: p95(ttft) < 0.8s",
            "scope": "chat",
            "metric": "ttft_s",
            "statistic": "p95",
            "op": "<",
            "limit": 0.8,
            "unit": "s",
            "value": None,
            "n": 0,
            "met": False,
            "why": "no samples",
        }
    ]


def test_goodput_is_judged_by_its_section() -> None:
    """Share and rate of summary["goodput"]."""
    summary = {**section(), "goodput": {"share": 0.97, "rate": 2.5, "started": 100}}
    verdicts = judge(parse_objectives(["goodput >= 0.98; goodput_rate > 2"]), summary)
    assert [(one["value"], one["n"], one["met"]) for one in verdicts] == [(0.97, 100, False), (2.5, 100, True)]


def test_few_samples_are_said() -> None:
    """The p95 of 19 samples is their maximum: judged, and said; so is that 5 requests were cut off."""
    (verdict,) = judge([one("p95(ttft) < 1s")], section(ttft_s={"n": 19, "p95": 0.6}))
    assert verdict["why"] == "it was 600 ms; only 19 samples, so that p95 is the largest of them" + CUT_OFF
    assert verdict["met"]


def test_a_scope_is_looked_up() -> None:
    """A scenario in the summary itself, anything else through the caller; what is not there is not met."""
    summary = {**section(), "scenarios": {"chat": section(ttft_s={"n": 100, "p95": 0.5})}}
    objectives = parse_objectives(["chat: p95(ttft) < 1s", "talk: p95(ttft) < 1s", "model=m: p95(ttft) < 1s"])
    assert [one["met"] for one in judge(objectives, summary)] == [True, False, False]
    assert [one["met"] for one in judge(objectives, summary, lambda _: summary["scenarios"]["chat"])] == [True] * 3


@pytest.mark.parametrize(
    ("value", "beside", "text"),
    [
        (0.80004, 0.8, "800.04 ms"),
        (0.8, 0.8, "800 ms"),
        (12.3456, 0.8, "12,350 ms"),
        (0.01005, 0.01, "1.005 %"),
        (1e-5, 1.0, "0.01 ms"),
    ],
)
def test_a_missed_value_never_looks_like_its_limit(value: float, beside: float, text: str) -> None:
    """800.04 ms is not called 800 ms beside a limit of 800 ms."""
    assert shown(value, "share" if "%" in text else "s", beside=beside) == text

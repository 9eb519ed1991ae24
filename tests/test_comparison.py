"""Two sides of a comparison: verdicts, intervals of rounds, doubts, and the rules of --fail-on."""

import re
from collections import Counter

import numpy as np
import pytest

from bench.alike import failures, latencies
from bench.madeup import about, completions
from llmload.errors import SetupError
from llmload.metrics.bootstrap import TooFew, estimate, share
from llmload.metrics.columns import Columns
from llmload.metrics.comparison import Facts, change_between, compare
from llmload.metrics.evidence import Evidence, EvidenceOf
from llmload.metrics.quantiles import t_quantile
from llmload.metrics.regression import parse_rule
from llmload.metrics.series import Series
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.reports.comparison import render, render_markdown
from llmload.reports.comparison_page import render_page


def facts(name, made, **settings):
    """Return the facts of some completions."""
    made = list(made)
    info, columns, collected = about(name, made, **settings), Columns(), EvidenceOf()
    for one in made:
        columns.add(one.to_dict())
    collected.add(columns)
    summary = summarise(Tallies(made), info)
    return Facts(name, info, summary, collected.evidence(summary))


@pytest.fixture(scope="module")
def three():
    return facts("a", completions(1)), facts("b", completions(2)), facts("slow", completions(3, slower=0.1))


def row(comparison, metric, statistic=None):
    return next(one for one in comparison["rows"] if (one["metric"], one["statistic"]) == (metric, statistic))


def test_values_are_those_of_the_summaries(three):
    """Every value of a comparison is the run's own, within the histogram's 0.05 % and the classes' 0.2 %."""
    comparison = compare([three[0]], [three[1]])
    for side, one in (("base", three[0]), ("new", three[1])):
        for metric, statistic in (("ttft_s", "p95"), ("itl_s", "p50"), ("e2e_s", "mean"), ("output_tps", "p50")):
            shown = row(comparison, metric, statistic)[side]
            assert shown["value"] == pytest.approx(one.summary["metrics"][metric][statistic], rel=0.003)
            assert shown["n"] == one.summary["metrics"][metric]["n"]
            assert shown["low"] <= shown["value"] <= shown["high"]
        for rate in ("request_throughput", "output_throughput", "total_throughput"):
            assert row(comparison, rate)[side]["value"] == one.summary["throughput"][rate]


def test_a_slowdown_is_worse_and_a_repetition_is_not(three):
    """Ten per cent on every latency is found in every clear metric; the same load again shows nothing in them."""
    same, slow = compare([three[0]], [three[1]]), compare([three[0]], [three[2]])
    clear = [("itl_s", "p50"), ("tpot_s", "mean"), ("e2e_s", "mean"), ("output_tps", "p50")]
    assert {row(same, *key)["verdict"] for key in clear} == {"no difference shown"}
    assert {row(slow, *key)["verdict"] for key in clear} == {"worse"}
    relative = row(slow, "itl_s", "p50")["relative"]
    assert relative["low"] < 0.1 < relative["high"]
    assert row(same, "error_rate")["relative"] is None
    assert row(same, "input_tokens", "mean")["verdict"] == "no difference shown"


def test_what_one_side_lacks_is_not_comparable(three):
    """A metric of one side only, or of too few samples, has its reason and no change."""
    few = facts("few", completions(4, n=60))
    comparison = compare([three[0]], [few])
    shown = row(comparison, "ttft_s", "p95")
    assert (shown["verdict"], shown["delta"], shown["relative"]) == ("not comparable", None, None)
    assert shown["why"].startswith("few has too few samples: 60")
    unstreamed = facts("whole", completions(5))
    unstreamed.evidence.found = {key: value for key, value in unstreamed.evidence.found.items() if key[0] != "ttft_s"}
    unstreamed.evidence.counts["ttft_s"] = 0
    assert row(compare([three[0]], [unstreamed]), "ttft_s", "p50")["why"] == "whole has none"


def test_evidence_survives_its_file(three):
    """What an archive keeps gives the same comparison, to six digits."""
    kept = [Facts(one.name, one.about, one.summary, Evidence.from_dict(one.evidence.to_dict())) for one in three]
    whole, again = compare([three[0]], [three[2]]), compare([kept[0]], [kept[2]])
    for was, now in zip(whole["rows"], again["rows"], strict=True):
        assert (was["metric"], was["statistic"], was["verdict"]) == (now["metric"], now["statistic"], now["verdict"])
        if was["relative"]:
            assert now["relative"]["low"] == pytest.approx(was["relative"]["low"], abs=1e-5)


def test_doubts_are_said():
    """DAT-05: settings, lengths, usage sources and validity that differ are one sentence each."""
    base = facts("a", completions(1, n=200), temperature=0)
    new = facts("b", completions(2, n=200, tokens=30), temperature=1)
    new.summary["run"].update(valid=False, reasons=["a worker was lost"])
    new.summary["client"].update(verdict="client", why="p99 loop lag 90 ms")
    new.summary["usage_sources"] = {"estimate": 200}
    assert compare([base], [new])["warnings"] == [
        "b is not valid: a worker was lost.",
        "b: the latency is the client's own (p99 loop lag 90 ms).",
        "the setting temperature differs: 0 against 1.",
        "The mean answer differs: 20.0 against 30.0 tokens.",
        "The usage source 'server' differs: 100% against 0%.",
        "The usage source 'estimate' differs: 0% against 100%.",
    ]
    base.summary["sweep"] = {"steps": [{"ledger": {"ok": 5}}, {"ledger": {"ok": 4}}, {"ledger": {"ok": 0}}]}
    assert (
        "a is a sweep over 2 levels, taken together: compare one of them with --step."
        in compare([base], [new])["warnings"]
    )
    base.summary["sweep"] = None
    assert compare([base], [facts("c", completions(3, n=200), temperature=0)])["warnings"] == []


def test_rounds_hold_what_differs_between_runs():
    """Runs that differ by 20 % between each other cannot show 10 %, however many samples each has; one run each can."""
    rng = np.random.default_rng(8)
    false_alarms = {"one": 0, "rounds": 0}
    for _ in range(60):
        runs = [
            estimate(Series(latencies(rng, 400, 0.0, 1)[:, 0] * np.exp(0.2 * rng.standard_normal())), "p50")
            for _ in range(6)
        ]
        one, rounds = change_between(runs[:1], runs[3:4], 0.95), change_between(runs[:3], runs[3:], 0.95)
        false_alarms["one"] += not one.relative[1] <= 0 <= one.relative[2]
        false_alarms["rounds"] += not rounds.relative[1] <= 0 <= rounds.relative[2]
    assert false_alarms["one"] > 20
    assert false_alarms["rounds"] <= 6


def test_equal_rounds_are_no_more_certain_than_their_samples():
    """Two rounds that happen to agree leave the doubt that each has within itself."""
    one = estimate(Series(latencies(np.random.default_rng(1), 300, 0.0, 1)[:, 0]), "p50")
    change = change_between([one, one], [one, one], 0.95)
    low, high = one.interval()
    assert change.relative[2] - change.relative[1] > 0.8 * (high - low) / one.value


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.706), (2, 4.303), (8, 2.306), (30, 2.042), (None, 1.960)])
def test_quantiles_of_t_are_those_of_the_tables(freedom, expected):
    """97.5 %, as printed in every table."""
    assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("text", "key", "limit", "absolute"),
    [
        ("ttft p95 worse by 10%", ("ttft_s", "p95"), 0.1, False),
        ("p95(ttft) worse by 10 %", ("ttft_s", "p95"), 0.1, False),
        ("e2e_s mean worse", ("e2e_s", "mean"), 0.0, False),
        ("ttft p50 worse by 50ms", ("ttft_s", "p50"), 0.05, True),
        ("request_throughput worse by 5%", ("request_throughput", ""), 0.05, False),
        ("error_rate worse by 1%", ("error_rate", ""), 0.01, True),
    ],
)
def test_rules_are_read(text, key, limit, absolute):
    """Both orders of metric and statistic; a share, a time, or nothing as the limit; rates of failure in points."""
    rule = parse_rule(text)
    assert (rule.key, rule.limit, rule.absolute) == (key, pytest.approx(limit), absolute)


@pytest.mark.parametrize(
    ("text", "says", "mark"),
    [
        ("", "a metric is missing", 0),
        ("ttfx p95 worse", "there is no metric 'ttfx'", 0),
        ("ttft p75 worse", "there is no statistic 'p75'", 5),
        ("ttft worse by 10%", "ttft needs a statistic", 4),
        ("p95(error_rate) worse", "error_rate is one number", 0),
        ("ttft p95 better by 10%", "'worse' is missing", 9),
        ("ttft p95 worse by 10", "10 of what", 20),
        ("ttft p95 worse by 10% and more", "'a' is too much", 22),
        ("output_tokens mean worse", "neither good nor bad", 0),
        ("request_throughput worse by 50ms", "is no time", 30),
        ("request_throughput worse by 120%", "cannot fall by 120%", 28),
    ],
)
def test_bad_rules_point_at_the_character(text, says, mark):
    """One line says what is wrong and what there is, and the mark stands below the character."""
    with pytest.raises(SetupError) as caught:
        parse_rule(text)
    lines = str(caught.value).split("\n")
    assert says in lines[0]
    assert lines[1:] == [f"    {text}", f"    {' ' * mark}^"]


def test_a_rule_fails_only_when_the_interval_says_so(three):
    """The whole interval beyond the limit fails; part of it does not; what has no interval is not judged."""
    slow = compare([three[0]], [three[2]])
    ends = row(slow, "itl_s", "p50")["relative"]
    least = ends["low"] * 100
    assert parse_rule(f"itl p50 worse by {least - 0.01:.4f}%").judge(slow)["verdict"] == "failed"
    assert parse_rule(f"itl p50 worse by {least + 0.01:.4f}%").judge(slow)["verdict"] == "passed"
    assert parse_rule("output_tps p50 worse by 5%").judge(slow)["verdict"] == "failed"
    assert parse_rule("output_tps p50 worse by 50%").judge(slow)["verdict"] == "passed"
    assert parse_rule("itl p50 worse by 0.5ms").judge(slow)["verdict"] == "failed"
    assert parse_rule("ttft_intended p95 worse").judge(slow) == {
        "text": "ttft_intended p95 worse",
        "verdict": "not judged",
        "why": "neither side has it",
    }


def one_metric(facts, key, found, n):
    """Return the facts of a run that measured nothing but this; a text is why there is no estimate."""
    return Facts(facts.name, facts.about, facts.summary, Evidence({key: found}, {key[0]: n}))


def verdicts(facts, rules, make, pairs=200):
    """Return for each rule how many of the pairs of runs fail, pass, and are not judged, by `--fail-on` itself."""
    counted = {text: Counter() for text in rules}
    for _ in range(pairs):
        was, now = make(), make()
        for text in rules:
            rule = parse_rule(text)
            sides = []
            for samples in (was, now):
                try:
                    found = share(samples) if rule.key[0] == "error_rate" else estimate(samples, rule.key[1])
                except TooFew as error:
                    found = str(error)
                sides.append(one_metric(facts, rule.key, found, samples.n))
            counted[text][rule.judge(compare(sides[:1], sides[1:]))["verdict"]] += 1
    return counted


@pytest.mark.parametrize(
    ("n", "rho", "judged"),
    [(200, 0.0, 200), (200, 0.8, 0), (1000, 0.9, 180)],
)
def test_identical_runs_are_no_alarm(three, n, rho, judged):
    """200 pairs of identical runs, also with neighbours much alike: `worse` fails in at most 5 %, `by 10%` in 1 %."""
    rng = np.random.default_rng(n)
    rules = ("ttft p50 worse", "ttft mean worse", "ttft p50 worse by 10%")
    found = verdicts(three[0], rules, lambda: Series(latencies(rng, n, rho, 1)[:, 0]))
    for text, count in found.items():
        assert count["failed"] + count["passed"] >= judged
        assert count["failed"] <= (2 if "by" in text else 10), (text, count)


@pytest.mark.parametrize(("rate", "bursts"), [(0.01, False), (0.002, True), (0.02, True)])
def test_the_same_failures_are_no_alarm(three, rate, bursts):
    """200 pairs of runs that fail as often, one by one or ten in a row, also where one of them never failed."""
    rng = np.random.default_rng(13)
    make = lambda: Series(failures(rng, 1000, rate, 1, bursts=bursts)[:, 0])  # noqa: E731
    count = verdicts(three[0], ["error_rate worse"], make)["error_rate worse"]
    assert count["failed"] + count["passed"] == 200
    assert count["failed"] <= 10


def test_a_slowdown_of_ten_per_cent_is_found(three):
    """100 pairs of 3,000 requests, correlation 0.5: the mean and the median find 10 % in 80 %, p95 in 40 %."""
    rng = np.random.default_rng(14)
    rules = ("ttft mean worse", "ttft p50 worse", "ttft p95 worse")
    slower = iter([1.0, 1.1] * 100)
    found = verdicts(three[0], rules, lambda: Series(latencies(rng, 3000, 0.5, 1)[:, 0] * next(slower)), pairs=100)
    assert found["ttft mean worse"]["failed"] >= 80
    assert found["ttft p50 worse"]["failed"] >= 80
    assert found["ttft p95 worse"]["failed"] >= 40


def test_every_form_says_the_same(three):
    """Text, Markdown and HTML hold the same rows and verdicts; hostile text stays text."""
    comparison = compare([three[0]], [three[2]])
    comparison["warnings"] = ["<script>|`x`\x1b"]
    comparison["rules"] = [parse_rule("itl p50 worse by 5%").judge(comparison)]
    text, markdown, html = render(comparison), render_markdown(comparison), render_page([comparison])
    assert max(map(len, text.splitlines())) <= 100
    for shown, times in ((text, 1), (markdown, 1), (html, 2)):  # the page has everything, too, folded
        assert shown.count("TTFT p50") == times
        assert "n, base / new: TTFT 600 / 600, ITL 11,400 / 11,400, TPOT 600 / 600, " in " ".join(shown.split())
        assert re.search(r"(failed: |❌ |<b>failed</b><span>)itl p50 worse by 5%", shown)
    assert "<script>" not in html
    assert "\\<script\\>\\|\\`x\\` " in markdown
    assert "\x1b" not in text

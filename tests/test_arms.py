"""Arms of one run in pairs: a planted difference is found, none is not."""

import random
from dataclasses import replace

import pytest

from bench.madeup import START_NS, about, completions
from llmload.metrics.arms import compare_arms
from llmload.reports.arms import render, render_markdown, render_page
from llmload.workload.prompts import Prompt
from llmload.workload.source import PromptSource
from llmload.workload.trim import trimmed

SETTINGS = {"A": {}, "B": {"stream": True}}


def pairs(seed, planted, n=200):
    """Return n pairs: the prompt makes an answer slow or fast in both arms, B is slower by `planted`, noise is 10 %."""
    rng = random.Random(seed)
    for at, one in enumerate(completions(seed, n)):
        for place, name in enumerate(rng.sample(["A", "B"], 2)):
            share = rng.gauss(1, 0.1) * (1 + planted if name == "B" else 1)
            started_ns = START_NS + (at * 20 + place * 10) * 10**9
            yield replace(
                one,
                id=f"{name}{at}",
                scenario=name,
                started_unix_ns=started_ns,
                ttft_s=one.ttft_s * share,
                e2e_s=one.e2e_s * share,
                closed_s=one.e2e_s * share,
            )


def row(result, metric):
    return next(one for one in result["comparisons"][0]["rows"] if one["metric"] == metric)


def test_five_per_cent_are_found_and_none_are_not():
    """Over 40 seeds 200 pairs find 5 % nearly always, and see one where none is about as often as they may."""
    found = [row(compare_arms(pairs(seed, 0.05), SETTINGS), "e2e_s")["verdict"] for seed in range(40)]
    alarms = [row(compare_arms(pairs(seed, 0.0), SETTINGS), "e2e_s")["verdict"] for seed in range(40, 80)]
    assert found.count("worse") >= 34
    assert alarms.count("no difference shown") >= 36


def test_the_ratio_is_that_of_pairs():
    """The prompt's own length, far larger than the difference, is not in the interval."""
    result = compare_arms(pairs(1, 0.05), SETTINGS)
    shown = row(result, "e2e_s")
    assert shown["n"] == result["comparisons"][0]["pairs"] == 200
    assert shown["relative"]["low"] < 0.05 < shown["relative"]["high"]
    assert shown["relative"]["high"] - shown["relative"]["low"] < 0.08


def test_a_pair_needs_both_to_end_well():
    """What failed in one arm is left out in both; counting goes on behind it."""
    made = [replace(one, prompt="builtin:0") for one in pairs(2, 0.0, n=60)]
    failed = next(at for at, one in enumerate(made) if one.scenario == "B")
    made[failed] = replace(made[failed], outcome="failed", kind="empty", ttft_s=None, e2e_s=None)
    result = compare_arms(made, SETTINGS)
    assert (result["comparisons"][0]["pairs"], result["comparisons"][0]["left_out"]) == (59, 1)
    assert [arm["failed"] for arm in result["arms"]] == [0, 1]


def test_an_arm_that_is_not_streamed_has_a_first_text():
    """Its reader sees something when all is there; TTFT, which it does not have, is not comparable."""
    made = [
        replace(one, stream=False, ttft_s=None, tpot_s=None) if one.scenario == "A" else one for one in pairs(3, 0.0)
    ]
    result = compare_arms(made, SETTINGS)
    assert row(result, "first_text_s")["verdict"] == "better"
    assert (row(result, "ttft_s")["verdict"], row(result, "ttft_s")["why"]) == (
        "not comparable",
        "one of the arms has none",
    )
    assert row(result, "request_throughput")["base"]["value"] == pytest.approx(200 / sum(
        one.e2e_s for one in made if one.scenario == "A"
    ))  # fmt: skip


def test_few_pairs_show_nothing():
    """Twenty pairs: no interval, and the reason beside each metric."""
    result = compare_arms(pairs(4, 0.5, n=20), SETTINGS)
    assert row(result, "e2e_s")["why"] == "too few samples: 20, 30 are needed (pairs)"
    assert "not comparable" in render(result)


def test_arms_without_settings_are_the_scenarios():
    """A record of a locustfile of one's own works as well: each scenario is an arm, in the order of the alphabet."""
    result = compare_arms(pairs(5, 0.0, n=40), {})
    assert [arm["name"] for arm in result["arms"]] == ["A", "B"]
    assert about("x", [])["id"] == "x"


def test_every_form_of_the_arms():
    """Text, Markdown and HTML have the same rows."""
    result = compare_arms(pairs(6, 0.0, n=60), {"A": {}, "B": {"host": "<b>"}})
    for text in (render(result), render_markdown(result), render_page(result)):
        assert text.count("E2E p50") == 1
    assert "<b>" not in render_page(result)


def test_copies_of_a_prompt():
    """Each arm gets the same prompt behind a nonce of its own; without nonces each copy counts as served."""
    prompts = [Prompt(f"p:{n}", ({"role": "user", "content": f"text {n}"},)) for n in range(3)]
    source = PromptSource(prompts, seed=1, unique="always", salt="s")
    copies = source.copies(2)
    assert len({one.id for one in copies}) == 1
    first, second = (one.messages[0]["content"] for one in copies)
    assert first != second
    assert first.split(": ")[1] == second.split(": ")[1]
    plain = PromptSource(prompts, seed=1, unique="never")
    assert plain.copies(2)[0] == plain._prompts[plain._slice[0]]
    assert plain.served == 2


def test_a_trimmed_prompt():
    """The first words of what the user says; everything else stays."""
    system, parts = {"role": "system", "content": "be brief, please"}, {"role": "user", "content": [{"type": "text"}]}
    assert trimmed([system, {"role": "user", "content": "one two\nthree"}, parts], 2) == [
        system,
        {"role": "user", "content": "one two"},
        parts,
    ]

"""Mock server: distributions as written in options and headers."""

from __future__ import annotations

from random import Random
from statistics import mean, median, stdev

import pytest

from llmload.errors import SetupError
from llmload.mock.distribution import Distribution, parse_distribution


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200", Distribution("const", 200.0, 0.0, "200")),
        ("0", Distribution("const", 0.0, 0.0, "0")),
        ("uniform:100:300", Distribution("uniform", 100.0, 300.0, "uniform:100:300")),
        ("normal:200:20", Distribution("normal", 200.0, 20.0, "normal:200:20")),
        ("exp:200", Distribution("exp", 200.0, 0.0, "exp:200")),
        ("lognormal:200:0.5", Distribution("lognormal", 200.0, 0.5, "lognormal:200:0.5")),
    ],
)
def test_each_form_is_read(text: str, expected: Distribution) -> None:
    """Each form of the syntax gives its kind and parameters."""
    assert expected == parse_distribution(text, "--ttft-ms")


@pytest.mark.parametrize(
    "text",
    ["", "fast", "-1", "nan", "inf", "uniform:1", "normal:1:2:3", "gamma:1:2", "exp:", "uniform:a:b", "exp:-1"],
)
def test_nonsense_is_refused(text: str) -> None:
    """What is no number and no distribution is a set-up error that quotes it and shows the syntax."""
    with pytest.raises(SetupError) as caught:
        parse_distribution(text, "--itl-ms")
    assert caught.value.what == f"--itl-ms: {text!r} is no number and no distribution"
    assert "lognormal:200:0.5" in caught.value.hint


def test_bounds_in_the_wrong_order_are_refused() -> None:
    """A uniform distribution whose upper bound is below its lower bound is a set-up error."""
    with pytest.raises(SetupError, match="bounds in the wrong order"):
        parse_distribution("uniform:3:1", "--itl-ms")


def test_a_constant_is_exact() -> None:
    """A constant is drawn as it is and known as constant; a distribution is not."""
    constant = parse_distribution("12.5", "x")
    assert constant.draw(Random(1)) == 12.5
    assert constant.constant == 12.5
    assert parse_distribution("exp:3", "x").constant is None


def test_draws_follow_their_parameters() -> None:
    """20,000 draws have the mean, median and spread that was asked for, and none is below 0."""
    rng = Random(7)
    draws = {
        text: [parse_distribution(text, "x").draw(rng) for _ in range(20_000)]
        for text in ("uniform:100:300", "normal:200:20", "exp:200", "lognormal:200:0.5", "normal:1:10", "exp:0")
    }
    assert mean(draws["uniform:100:300"]) == pytest.approx(200, rel=0.02)
    assert (min(draws["uniform:100:300"]) >= 100, max(draws["uniform:100:300"]) <= 300) == (True, True)
    assert mean(draws["normal:200:20"]) == pytest.approx(200, rel=0.02)
    assert stdev(draws["normal:200:20"]) == pytest.approx(20, rel=0.05)
    assert mean(draws["exp:200"]) == pytest.approx(200, rel=0.05)
    assert median(draws["lognormal:200:0.5"]) == pytest.approx(200, rel=0.05)
    assert min(draws["normal:1:10"]) == 0.0
    assert set(draws["exp:0"]) == {0.0}


def test_the_same_seed_gives_the_same_draws() -> None:
    """Two sources with one seed give equal draws."""
    spread = parse_distribution("lognormal:200:0.5", "x")
    one, two = Random("5/0"), Random("5/0")
    assert [spread.draw(one) for _ in range(10)] == [spread.draw(two) for _ in range(10)]

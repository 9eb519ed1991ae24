"""Pacing: think times as written on the command line, and the pause after failures."""

from __future__ import annotations

from random import Random

import pytest

from llmload.errors import SetupError
from llmload.pacing.backoff import backoff_s
from llmload.pacing.think import Exponential, ThinkTime, Uniform, parse_think_time


@pytest.mark.parametrize(
    ("text", "think_time", "written"),
    [
        ("0", Uniform(0.0, 0.0), "0"),
        ("2", Uniform(2.0, 2.0), "2"),
        (" .5 ", Uniform(0.5, 0.5), "0.5"),
        ("1-3", Uniform(1.0, 3.0), "1-3"),
        ("0.1 - 0.30", Uniform(0.1, 0.3), "0.1-0.3"),
        ("3-3", Uniform(3.0, 3.0), "3"),
        ("exp:2", Exponential(2.0), "exp:2"),
        ("exp: 0.25", Exponential(0.25), "exp:0.25"),
        ("100", Uniform(100.0, 100.0), "100"),
    ],
)
def test_think_time_is_read_and_written(text: str, think_time: ThinkTime, written: str) -> None:
    """Each form is read into its value, and what `str` writes is read into the same value."""
    assert parse_think_time(text) == think_time
    assert str(think_time) == written
    assert parse_think_time(written) == think_time


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("5-1", "think time '5-1' ends before it begins"),
        ("exp:0", "think time 'exp:0' has a mean of 0"),
        ("9" * 400, f"think time '{'9' * 400}' is too long"),
        *[
            (text, f"think time {text!r} is not understood")
            for text in (
                "", "-1", "-1-2", "1--2", "1-", "1-2-3", "nan", "inf", "1e3", "2s", "two", "1,5", "1_0", "+1",
                ".", "exp:", "exp:-1", "exp:nan", "exp:1-2", "uniform:1", "٣",
            )
        ],
    ],
)  # fmt: skip
def test_nonsense_is_refused_by_its_value(text: str, what: str) -> None:
    """A negative, backward, endless or wordy think time is a set-up error that quotes it and helps."""
    with pytest.raises(SetupError) as caught:
        parse_think_time(text)
    assert caught.value.what == what
    assert caught.value.hint


def test_constant_think_time_is_exact() -> None:
    """`2` is 2.0 s every time, and `0` is 0.0."""
    random = Random(1)
    assert {parse_think_time("2").sample(random) for _ in range(100)} == {2.0}
    assert {parse_think_time("0").sample(random) for _ in range(100)} == {0.0}


def test_uniform_think_time_fills_its_range() -> None:
    """10,000 samples of 1-3 lie within it, reach both ends to 1 % and have a mean of 2."""
    random = Random(1)
    samples = [Uniform(1, 3).sample(random) for _ in range(10_000)]
    assert 1 <= min(samples) < 1.01
    assert 2.99 < max(samples) <= 3
    assert sum(samples) / len(samples) == pytest.approx(2, abs=0.03)


def test_exponential_think_time_has_its_mean() -> None:
    """20,000 samples of exp:2 have a mean of 2 s, and a share of 1/e of them is longer."""
    random = Random(1)
    samples = [Exponential(2).sample(random) for _ in range(20_000)]
    assert min(samples) >= 0
    assert sum(samples) / len(samples) == pytest.approx(2, abs=0.06)
    assert sum(sample > 2 for sample in samples) / len(samples) == pytest.approx(0.3679, abs=0.01)


def test_think_time_comes_from_the_given_source_only() -> None:
    """Equal random sources give equal think times."""
    for think_time in (Uniform(1, 3), Exponential(2)):
        first, second = Random(7), Random(7)
        assert [think_time.sample(first) for _ in range(5)] == [think_time.sample(second) for _ in range(5)]


def test_backoff_doubles_up_to_five_seconds() -> None:
    """RTL-04: 0 without a failure, 0.1 s after the first, doubled after each, never above 5 s."""
    assert [backoff_s(k) for k in range(9)] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert backoff_s(1_000_000) == 5.0
    assert backoff_s(-1) == 0.0

"""Rules of --abort-on: their text, and when they hold, second by second on made-up completions."""

from __future__ import annotations

from typing import Any

import pytest

from llmload.errors import SetupError
from llmload.metrics.abort import Watch, parse_abort
from llmload.metrics.tally import Tallies
from llmload.records import Completion


def completion(**fields: Any) -> Completion:
    defaults = {"id": "1", "scenario": "chat", "model": "m", "worker": "w", "started_unix_ns": 0, "outcome": "ok"}
    return Completion(**{**defaults, **fields})


FAILED = completion(outcome="failed", kind="connect")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("error_rate > 20%", "does not say for how long: write e.g. error_rate > 20% for 30s"),
        ("error_rate > 20% for ever", "does not say for how long"),
        ("error_rate > 20% for 0.5s", "looks at 0.5 s: give 1s to 60m"),
        ("error_rate > 20% for 2h", "does not say for how long"),
        ("error_rte > 20% for 30s", "there is no value 'error_rte'"),
        ("error_rate > 20% and p95(ttft) > 9s for 30s", "joins conditions"),
        ("peak_output_throughput < 5 for 30s", "is known at the end only"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, message: str) -> None:
    """One line, with what to write instead."""
    with pytest.raises(SetupError, match="--abort-on: ") as refused:
        parse_abort(text)
    assert message in str(refused.value)


def test_rules_are_separated_by_semicolons() -> None:
    """Any of them aborts; seconds and minutes."""
    rules = parse_abort("error_rate > 20% for 30s; chat: p95(ttft) > 9s  for 2m; ")
    assert [(rule.text, rule.seconds) for rule in rules] == [
        ("error_rate > 20% for 30s", 30),
        ("chat: p95(ttft) > 9s for 2m", 120),
    ]
    assert parse_abort(None) == ()


def test_a_rule_looks_at_its_last_seconds() -> None:
    """Not before the run is that old, and only at what ended within them: 2 of 10 are not above 20 %, 3 of 10 are."""
    watch = Watch(parse_abort("error_rate > 20% for 10s"), started_at_s=100.0)
    watch.take(Tallies([FAILED] * 5), 101.0)
    assert watch.breach(109.9) is None
    verdict = watch.breach(110.0)
    assert verdict is not None
    assert (verdict["text"], verdict["value"], verdict["n"], verdict["met"], verdict["why"]) == (
        "--abort-on error_rate > 20% for 10s",
        1.0,
        5,
        False,
        "it was 100 %",
    )
    watch.take(Tallies([completion()] * 8 + [FAILED] * 2), 111.0)
    assert watch.breach(111.0) is None
    watch.take(Tallies([FAILED]), 112.0)
    assert watch.breach(112.0) is not None
    assert watch.breach(121.9) is not None
    assert watch.breach(123.0) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("p95(ttft) > 1s for 5s", 2.0),
        ("max(ttft) > 1s for 5s", 2.0),
        ("n(ttft) < 9 for 5s", 2.0),
        ("other: error_rate < 50% for 5s", None),
        ("model=m: success_rate > 1% for 5s", 1.0),
        ("request_throughput < 1 for 5s", 0.4),
        ("output_throughput < 50 for 5s", 4.0),
        ("total_throughput > 50 for 5s", None),
        ("goodput < 60% for 5s", 0.5),
        ("requests < 3 for 5s", 2.0),
        ("p95(itl) > 1ms for 5s", None),
    ],
)
def test_every_kind_of_value_can_be_watched(text: str, value: float | None) -> None:
    """Latencies, rates per second of the window, goodput, counts; by scenario and model."""
    watch = Watch(parse_abort(text), started_at_s=0.0)
    watch.take(Tallies([completion(ttft_s=2.0, output_tokens=10, good=good) for good in (True, False)]), 6.0)
    verdict = watch.breach(8.0)
    assert (verdict and verdict["value"]) == (value and pytest.approx(value, rel=0.001))


def test_silence_can_be_a_rule() -> None:
    """A server that answers nothing has no error rate, but a throughput of 0."""
    watch = Watch(parse_abort("error_rate > 1% for 5s; request_throughput < 0.1 for 5s"), started_at_s=0.0)
    verdict = watch.breach(5.0)
    assert verdict is not None
    assert (verdict["metric"], verdict["why"], verdict["met"]) == (
        "request_throughput",
        "nothing ended in that time",
        False,
    )

"""The options of an open loop: what they mean, what contradicts what, and rates that no worker could send."""

import logging
from types import SimpleNamespace

import pytest

from llmload.arrival_config import MODELS, ArrivalSettings, read_arrivals
from llmload.errors import SetupError
from llmload.pacing import arrivals
from llmload.swarm import fitting


def session(**options):
    """Return as much of a session as `fit_users` looks at."""
    parsed = {"num_users": None, "spawn_rate": None, **options}
    return SimpleNamespace(
        setup=SimpleNamespace(options=parsed),
        environment=SimpleNamespace(parsed_options=SimpleNamespace(**parsed), shape_class=options.get("shape")),
    )


def fitted(**options):
    """Return the users and the spawn rate that Locust is told."""
    one = session(**options)
    fitting.fit_users(one)
    return one.environment.parsed_options.num_users, one.environment.parsed_options.spawn_rate


@pytest.fixture(autouse=True)
def uncalibrated(monkeypatch):
    monkeypatch.setattr(fitting, "held_events_per_second", lambda: None)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, ArrivalSettings()),
        ({"rate": "0.5"}, ArrivalSettings(rate=0.5, arrival="poisson")),
        ({"rate": "12", "arrival": "constant"}, ArrivalSettings(rate=12.0, arrival="constant")),
        ({"arrival": "poisson"}, ArrivalSettings(arrival="poisson")),
        ({"rate": 12, "burstiness": "0.5"}, ArrivalSettings(rate=12.0, arrival="gamma", burstiness=0.5)),
        ({"rate": "3", "max_in_flight": "7"}, ArrivalSettings(rate=3.0, arrival="poisson", max_in_flight=7)),
        ({"trace": "t", "trace_scale": "2.5"}, ArrivalSettings(trace="t", trace_scale=2.5)),
        ({"rate": "", "arrival": " ", "think_time": "0"}, ArrivalSettings()),
    ],
)
def test_options(options, settings):
    """A rate alone is Poisson, a burstiness makes it gamma, an empty field of the web form is no value."""
    assert read_arrivals(options) == settings
    assert settings.open_loop == (settings.arrival is not None or settings.trace is not None)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rate": "0"}, "--rate 0 sends nothing"),
        ({"rate": "0.0001"}, "--rate 0.0001 sends nothing"),
        ({"rate": "-1"}, "--rate '-1' is not a number from 0 to 100000"),
        ({"rate": "inf"}, "--rate 'inf' is not a number"),
        ({"rate": "12 rps"}, "--rate '12 rps' is not a number"),
        ({"arrival": "posson"}, "--arrival 'posson' is unknown: use one of poisson"),
        ({"arrival": "constant", "burstiness": "2"}, "--burstiness with --arrival constant"),
        ({"rate": "1", "burstiness": "0"}, "--burstiness '0' is not a number from 0.01"),
        ({"rate": "1", "max_in_flight": "0"}, "--max-in-flight '0' is not a whole number from 1"),
        ({"rate": "1", "think_time": "1-3"}, "--think-time 1-3 in an open loop"),
        ({"trace": "t", "rate": "1"}, "--trace with --rate"),
        ({"trace": "t", "burstiness": "1"}, "--trace with --burstiness"),
        ({"trace": "t", "prompts": "p"}, "--trace with --prompts"),
        ({"trace": "t", "trace_scale": "0"}, "--trace-scale '0' is not a number"),
        ({"trace": "t", "stages": "1s:1"}, "--trace with --stages"),
        ({"trace_scale": "2"}, "--trace-scale without --trace"),
        ({"trace_limit": "2", "rate": "1"}, "--trace-limit without --trace"),
        ({"rate": "1", "sweep": "1,2"}, "--rate with --sweep: its levels are the rates"),
        ({"rate": "1", "find_capacity": "p95(ttft) < 1s"}, "--rate with --find-capacity"),
    ],
)
def test_nonsense_and_contradictions(options, what):
    """One sentence that names the option, its value and what to do."""
    with pytest.raises(SetupError, match=what):
        read_arrivals(options)


def test_the_models_are_the_schedules():
    """What the option takes is what there are schedules for."""
    assert sorted(MODELS) == sorted(arrivals.MODELS)


def test_a_rate_is_a_number_of_users():
    """12 requests per second are 12 users, all at once unless -r says otherwise; a trace has one a process."""
    assert fitted() == (None, None)
    assert fitted(rate="12") == (12, 12.0)
    assert fitted(rate="12.5", spawn_rate=2) == (13, 2)
    assert fitted(rate="0.5") == (1, 1.0)
    assert fitted(rate="1000") == (1000, 100.0)
    assert fitted(trace="t") == (1, 1.0)
    assert fitted(trace="t", processes=4, expect_workers=4) == (4, 4.0)


def test_what_locust_was_told_as_well():
    """-u and load shapes say how many users, and so does a rate."""
    with pytest.raises(SetupError, match="--rate with -u 5: the number of users is the rate"):
        fitted(rate="12", num_users=5)
    with pytest.raises(SetupError, match="--trace with -u 5: the trace says when"):
        fitted(trace="t", num_users=5)
    with pytest.raises(SetupError, match="--rate with a load shape"):
        fitted(rate="12", shape=object())
    with pytest.raises(SetupError, match="--max-in-flight 3 is shared by 4 workers"):
        fitted(rate="12", max_in_flight="3", processes=4)


def test_a_rate_that_no_worker_could_send(monkeypatch, caplog):
    """Known from this machine's calibration: refused where even one event an answer is too much, else warned of."""
    monkeypatch.setattr(fitting, "held_events_per_second", lambda: 9000.0)
    with pytest.raises(SetupError, match=r"--rate 20000 cannot be sent: 2 workers hold 18,000 events per second"):
        fitted(rate="20000", processes=2)
    assert fitted(rate="20000", master=True) == (20000, 100.0)  # others carry it
    with caplog.at_level(logging.WARNING, "llmload"):
        fitted(rate="50", max_tokens="100")
        assert caplog.messages == []
        fitted(rate="100", max_tokens="128")
    assert caplog.messages == [
        "--rate 100 with answers of 128 tokens is 12,800 events per second; 1 worker holds 9,000 here (llmload "
        "calibrate): use more workers, unless answers are shorter"
    ]

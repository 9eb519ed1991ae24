"""Sweeps: their steps, and everything that they refuse; and options that contradict each other."""

import pytest

from llmload.errors import SetupError
from llmload.load_config import LoadSettings, read_load
from llmload.pacing.course import course_of
from llmload.pacing.sweep import Step, Sweep, check_steps, parse_levels


def test_rounds_are_interleaved():
    """Every level once, then every level again: a drift meets all of them."""
    sweep = Sweep("users", (5, 10), rounds=2, step_s=30, settle_s=5)
    assert list(sweep.steps()) == [Step(5, 1, 5), Step(10, 1, 10), Step(5, 2, 5), Step(10, 2, 10)]
    assert (sweep.measured_s, sweep.duration_s) == (25, 120)


def test_one_round_has_no_number():
    """The label of a step is its level alone where there is one round."""
    assert list(Sweep("prompt_tokens", (128, 1024), users=4).steps()) == [Step(128, None, 4), Step(1024, None, 4)]


def test_levels_are_read():
    """White space does not matter."""
    assert parse_levels(" 5, 10,20 ", where="--sweep") == (5, 10, 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--sweep is empty"),
        (",", "--sweep is empty"),
        ("5,,10", "the level '' is no whole number"),
        ("0,5", "the level 0 is not from 1"),
        ("-5", "the level '-5' is no whole number"),
        ("0.5", "the level '0.5' is no whole number"),
        ("5,10s", "the level '10s' is no whole number"),
        ("5,99999999", "the level 99999999 is not from 1 to 1,000,000"),
        ("5,10,5", "the level 5 is there twice"),
        ("10,5", "5 comes after 10"),
        ("٥", "is no whole number"),
    ],
)
def test_levels_that_make_no_sense_are_refused(text, said):
    """STAT-12: one line, duplicates too."""
    with pytest.raises(SetupError) as caught:
        parse_levels(text, where="--sweep")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("step_s", "settle_s", "steps", "said"),
    [
        (None, 5.0, 1, "--step-time 0 measures nothing"),
        (30.0, 29.5, 1, "--settle 29.5s leaves less than a second of --step-time 30s"),
        (30.0, 5.0, 201, "201 steps are more than 200"),
    ],
)
def test_steps_that_cannot_be_measured_are_refused(step_s, settle_s, steps, said):
    """No time, no time left, or more steps than there are histograms for."""
    with pytest.raises(SetupError) as caught:
        check_steps(step_s=step_s, settle_s=settle_s, steps=steps)
    assert said in str(caught.value)


HEADLESS = {"headless": True, "step_time": "30s", "settle": "5s", "rounds": "1"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sweep": "5", "stages": "30s:5"}, "--stages and --sweep contradict each other"),
        ({"sweep": "5", "sweep_prompt_tokens": "128"}, "--sweep and --sweep-prompt-tokens contradict"),
        ({"sweep": "5", "run_time": 60}, "-t and --sweep contradict each other"),
        ({"stages": "30s:5", "run_time": 60}, "-t and --stages contradict each other"),
        ({"sweep": "5", "given_users": 9}, "-u and --sweep contradict each other"),
        ({"stages": "30s:5", "given_users": 9}, "-u and --stages contradict each other"),
        ({"warmup": "60s", "run_time": 60}, "--warmup 60s is as long as the run (-t 60s)"),
        ({"stages": ""}, "--stages is empty"),
        ({"sweep": " "}, "--sweep is empty"),
        ({"rounds": "0", "sweep": "5"}, "--rounds '0' is not a whole number from 1 to 100"),
        ({"rounds": "2.5"}, "--rounds '2.5' is not a whole number"),
        ({"warmup": "soon"}, "--warmup 'soon' is not a duration"),
        ({"sweep": "1,2,3", "rounds": "100"}, "300 steps are more than 200"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, said):
    """CFG-08: one line before any load is sent."""
    with pytest.raises(SetupError) as caught:
        course_of(read_load({**HEADLESS, **options}))
    assert str(caught.value).startswith(said)


def test_zero_is_off_and_a_web_form_may_leave_fields_empty():
    """CFG-08: --warmup 0 means none; an empty field of the form is no option, its number of users is not ours."""
    assert read_load({"warmup": "0"}).warmup_s is None
    form = {"stages": "", "sweep": "5,10", "given_users": 1, "step_time": "10s", "settle": "0"}
    assert course_of(read_load(form)) == Sweep("users", (5, 10), rounds=1, step_s=10, settle_s=0)
    assert course_of(LoadSettings()) is None


def test_a_prompt_sweep_has_its_users_from_the_option():
    """-u, else 1."""
    sweep = course_of(read_load({**HEADLESS, "sweep_prompt_tokens": "128,1024", "given_users": 4}))
    assert (sweep.axis, sweep.levels, sweep.users) == ("prompt_tokens", (128, 1024), 4)
    assert course_of(read_load({**HEADLESS, "sweep_prompt_tokens": "128"})).users == 1

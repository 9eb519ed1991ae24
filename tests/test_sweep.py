"""Sweeps: their steps, and everything that they refuse; and options that contradict each other."""

import pytest

from llmload.errors import SetupError
from llmload.load_config import LoadSettings, read_load
from llmload.metrics.stepped import WINDOW
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.pacing.course import MAX_LEVEL, course_of
from llmload.pacing.sweep import Step, Sweep, check_steps, parse_levels
from llmload.reports.sweep import render_sweep
from tests.test_summary import T0_S, at


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
        (30.0, 29.5, 1, "--settle 29.5s leaves less than two seconds of --step-time 30s"),
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
        ({"find_capacity": "p95(ttft) < 1s", "sweep": "5"}, "--sweep and --find-capacity contradict each other"),
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


def test_a_search_is_bounded_by_time_and_users():
    """-t and -u bound it on a command line; the number in the web form, 1 unless changed, does not."""
    given = {"find_capacity": "p95(ttft) < 1s", "given_users": 50, "run_time": 300}
    assert (course_of(read_load({**HEADLESS, **given})).limit, course_of(read_load({**HEADLESS, **given})).time_s) == (
        50,
        300,
    )
    assert course_of(read_load({"step_time": "9s", "settle": "1s", **given})).limit == MAX_LEVEL


def test_a_prompt_sweep_has_its_users_from_the_option():
    """-u, else 1."""
    sweep = course_of(read_load({**HEADLESS, "sweep_prompt_tokens": "128,1024", "given_users": 4}))
    assert (sweep.axis, sweep.levels, sweep.users) == ("prompt_tokens", (128, 1024), 4)
    assert course_of(read_load({**HEADLESS, "sweep_prompt_tokens": "128"})).users == 1


def phase(step, start_s, end_s, level, round_, **more):
    return {
        "step": step, "from": T0_S + start_s, "to": T0_S + end_s, "course": "sweep", "axis": "users", "level": level,
        "round": round_, "users": level, "client": {"lag_p99_s": 0.001, "lag_max_s": 0.002, "cpu_percent_max": 10.0},
        **more,
    }  # fmt: skip


def answered(step, second, e2e_s=0.5, tokens=10):
    return at(
        second, id=f"{step}-{second}", step=step, ttft_s=0.1, e2e_s=e2e_s, closed_s=e2e_s, output_tokens=tokens,
        input_tokens=7, output_tps=20.0, stamps="kernel",
    )  # fmt: skip


def made_up():
    """Levels 1, 2 and 4 for 10 s each: 1, 2 and 2 answers a second of 0.5, 0.5 and 1 s, the last of each step late."""
    rows, phases = [], []
    for number, (level, e2e_s) in enumerate([(1, 0.5), (2, 0.5), (4, 0.95)]):
        start = number * 12
        phases.append(phase(f"{level}~settle", start, start + 2, level, None, started=1))
        phases.append(phase(f"{level}", start + 2, start + 12, level, None, started=min(level, 2) * 10))
        rows.append(answered(f"{level}~settle", start + 0.1))
        for second in range(start + 2, start + 12):
            rows += [answered(str(level), second + k / 100, e2e_s) for k in range(min(level, 2))]
    rows[-1] = answered("4", 35.99, 20.0)
    return rows, {"phases": phases, "started": len(rows), "settings": {"slo": ["p99(e2e) < 600ms; error_rate < 1%"]}}


def test_each_step_has_its_own_ledger_percentiles_and_window():
    """A request counts in the step in which it started, however late it ends; a token in the second it arrives."""
    rows, run = made_up()
    sweep = summarise(Tallies(rows), run)["sweep"]
    assert [(one["level"], one["ledger"]["started"], one["ledger"]["ok"]) for one in sweep["steps"]] == [
        (1, 10, 10), (2, 20, 20), (4, 20, 20),
    ]  # fmt: skip
    last = sweep["steps"][-1]
    assert (last["metrics"]["e2e_s"]["n"], last["metrics"]["e2e_s"]["max"]) == (20, 20.0)
    assert last["window"] == {"from": T0_S + 26, "to": T0_S + 36, "seconds": 10, "definition": WINDOW}
    assert last["throughput"]["request_throughput"] == 1.9, "the one that ended 20 s later is not in the window"
    assert last["client"]["verdict"] == "server"
    (only,) = last["rounds"]
    assert (only["step"], only["request_throughput"], only["success_rate"]) == ("4", 1.9, 1.0)
    assert last["median"]["request_throughput"] == {"median": 1.9, "min": 1.9, "max": 1.9, "n": 1}


def test_the_sweep_names_its_knee_and_what_the_objectives_allow():
    """Power 2, 4 and less than 4: the knee is 2; p99 of E2E is met up to 2."""
    rows, run = made_up()
    sweep = summarise(Tallies(rows), run)["sweep"]
    assert (sweep["knee"]["level"], sweep["knee"]["between"]) == (2, [1, 4])
    assert sweep["recommended"]["level"] == 2
    assert (sweep["recommended"]["missed_at"], sweep["recommended"]["missed"]) == (4, ["p99(e2e) < 600ms"])
    text = "\n".join(render_sweep(sweep))
    assert "knee: 2, between 1 and 4" in text
    assert "recommended: 2 users, 4 misses p99(e2e) < 600ms" in text


def test_rounds_give_a_median_and_its_spread():
    """Three rounds of one level: 1, 2 and 4 requests a second are 2, from 1 to 4."""
    rows, phases = [], []
    for round_, per_s in enumerate((1, 2, 4), 1):
        step, start = f"8#{round_}", round_ * 20
        phases.append(phase(step, start, start + 10, 8, round_, started=per_s * 10))
        rows += [answered(step, start + i / per_s, 0.01) for i in range(per_s * 10)]
    sweep = summarise(Tallies(rows), {"phases": phases})["sweep"]
    (level,) = sweep["steps"]
    assert level["median"]["request_throughput"] == {"median": 2.0, "min": 1.0, "max": 4.0, "n": 3}
    assert level["throughput"]["request_throughput"] == 70 / 30
    assert [one["round"] for one in level["rounds"]] == [1, 2, 3]
    assert "±75.0%" in "\n".join(render_sweep(sweep))


def test_a_run_without_steps_is_no_sweep():
    """The part is null, and the report says nothing."""
    assert summarise(Tallies([answered(None, 1)]), {})["sweep"] is None
    assert list(render_sweep(None)) == []

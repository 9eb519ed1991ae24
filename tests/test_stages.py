"""Stages as a pure function of time, against closed forms, and everything that they refuse."""

import math

import pytest

from llmload.errors import SetupError
from llmload.pacing.stages import Stage, Stages, parse_stages

ISSUE = "30s:50, 2m:50, 10s:200, 1m:200, 20s:0"


def test_a_text_becomes_stages():
    """Durations have units, may be joined, and may be 0 s, which is a jump."""
    assert parse_stages("1m30s:50,0s:200, 500ms:0.5").stages == (Stage(90, 50), Stage(0, 200), Stage(0.5, 0.5))
    assert parse_stages(ISSUE).duration_s == 240


@pytest.mark.parametrize(
    ("elapsed_s", "users"),
    [(0, 0), (15, 25), (30, 50), (149.9, 50), (155, 125), (160, 200), (219, 200), (230, 100), (239.9, 1), (240, None)],
)
def test_the_line_goes_from_stage_to_stage(elapsed_s, users):
    """LOAD-05: the number at a moment is that of the straight line; from the end on there is none."""
    at = parse_stages(ISSUE).at(elapsed_s)
    assert at == (None if users is None else pytest.approx(users))


def test_a_jump_takes_no_time():
    """0s:200 is there at once; the moment belongs to what comes after."""
    stages = parse_stages("10s:10, 0s:200, 5s:200")
    assert (stages.at(10 - 1e-9), stages.at(10), stages.at(15)) == (pytest.approx(10), 200, None)


def test_the_area_is_the_sum_of_the_trapezoids():
    """User-seconds against a Riemann sum of the same line and against the closed form."""
    stages = parse_stages(ISSUE)
    closed = 30 * 25 + 120 * 50 + 10 * 125 + 60 * 200 + 20 * 100
    riemann = math.fsum(stages.at((i + 0.5) / 100) for i in range(24_000)) / 100
    assert stages.user_seconds == closed == pytest.approx(riemann)


def test_holds_are_found_and_joined():
    """Where the number stays the load is steady: two stages of the same number are one hold, none at 0."""
    stages = parse_stages("5s:0, 10s:50, 20s:50, 10s:50, 5s:80, 7s:80, 3s:0")
    assert list(stages.holds()) == [(15, 45, 50), (50, 57, 80)]
    assert stages.peak == 80


def test_stages_of_a_class_need_no_text():
    """The value is usable by itself."""
    assert Stages((Stage(10, 50), Stage(5, 50))).at(5) == 25


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" , ", "is empty"),
        ("30s:50,", "stage 2, '', is no duration:number"),
        ("30s", "no duration:number"),
        ("30s:50:60", "no duration:number"),
        ("30:50", "has no duration with a unit: write 30s or 30m"),
        ("30s:50, 2:50", "stage 2, '2:50', has no duration with a unit"),
        ("30x:50", "has no duration with a unit"),
        ("-5s:50", "goes back in time"),
        ("30s:-5", "it is negative"),
        ("30s:many", "'many', which is no number"),
        ("30s:50rps", "'50rps', which is no number"),
        ("30s:nan", "'nan', which is no number"),
        ("30s:0, 1m:0", "asks for nobody"),
        ("0s:50", "takes no time"),
        ("30s:2000000", "more than 1,000,000 users"),
        ("200h:5", "longer than seven days"),
    ],
)
def test_what_makes_no_sense_is_refused(text, said):
    """One line that names the stage and what is wrong with it."""
    with pytest.raises(SetupError) as caught:
        parse_stages(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)

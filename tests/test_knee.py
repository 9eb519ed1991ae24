"""The knee on made-up curves with a known knee, and with none."""

import random

import pytest

from llmload.metrics.knee import find_knee

LEVELS = (2, 4, 8, 16, 32, 64)


def slots(users, *, count=16, service_s=1.0):
    """Throughput and latency of `count` slots of constant service time in a closed loop."""
    return min(users, count) / service_s, max(1.0, users / count) * service_s


def single_queue(users, *, service_s=0.1, think_s=1.0):
    """Mean value analysis of one exponential server with think time: a soft bend."""
    waiting = 0.0
    for customers in range(1, users + 1):
        latency_s = service_s * (1 + waiting)
        throughput = customers / (latency_s + think_s)
        waiting = throughput * latency_s
    return throughput, latency_s


def noisy(curve, *, rounds, spread, seed):
    rng = random.Random(seed)
    return {
        level: [
            (x * rng.uniform(1 - spread, 1 + spread), r * rng.uniform(1 - spread, 1 + spread))
            for x, r in [curve(level)] * rounds
        ]
        for level in LEVELS
    }


@pytest.mark.parametrize("count", [4, 8, 16, 32])
def test_the_knee_of_slots_is_their_number(count):
    """With c slots of constant service time power rises up to c users and falls after them."""
    knee = find_knee({level: [slots(level, count=count)] for level in LEVELS})
    assert (knee["level"], knee["between"]) == (count, [count // 2, count * 2])
    assert knee["candidates"] == knee["rounds"] == [count]


def test_between_two_levels_the_knee_is_the_better_one():
    """12 slots at 8 and 16 users: power 8 beside 12 * 12 / 16 = 9; the truth lies between the neighbours."""
    knee = find_knee({level: [slots(level, count=12)] for level in LEVELS})
    assert knee["level"] == 16
    assert knee["between"][0] <= 12 <= knee["between"][1]


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_five_percent_does_not_move_it(seed):
    """Five rounds that each scatter by 5 %: the same knee, and the interval holds it."""
    knee = find_knee(noisy(slots, rounds=5, spread=0.05, seed=seed))
    assert (knee["level"], knee["rounds"]) == (16, [16] * 5)
    assert knee["between"] == [8, 32]


def test_a_soft_bend_has_its_knee_at_the_highest_power():
    """One server of 0.1 s with 1 s of think time; the highest power by brute force over the levels."""
    points = {level: single_queue(level) for level in LEVELS}
    knee = find_knee({level: [point] for level, point in points.items()})
    assert knee["level"] == max(LEVELS, key=lambda level: points[level][0] / points[level][1])
    assert knee["reason"] is None


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        (lambda n: (n / 1.0, 1.0), "up to 64, the highest level, throughput grows as fast as latency: sweep higher"),
        (lambda n: (10.0, n / 10.0), "from 2, the lowest level, on latency grows faster than throughput: sweep lower"),
    ],
    ids=["never full", "full from the start"],
)
def test_without_a_bend_there_is_no_knee(curve, said):
    """Null, and the reason says where to look."""
    knee = find_knee({level: [curve(level)] for level in LEVELS})
    assert (knee["level"], knee["reason"], knee["between"]) == (None, said, None)


def test_levels_that_cannot_be_told_apart_are_no_knee():
    """The best level, but the rounds of the highest reach as far: nobody can say."""
    points = {8: [(8, 1), (8, 1)], 16: [(16, 1), (12, 1)], 32: [(14, 1), (11, 1)]}
    knee = find_knee(points)
    assert (knee["level"], knee["candidates"], knee["rounds"]) == (None, [16, 32], [16, 16])
    assert "16 to 32 cannot be told apart" in knee["reason"]


def test_two_levels_or_a_level_without_numbers_show_nothing():
    """No knee from two points, and none where a level failed altogether."""
    assert find_knee({1: [(1, 1)], 2: [(2, 1)]})["reason"] == "2 levels show no bend: sweep at least 3"
    assert find_knee({1: [(1, 1)], 2: [None], 4: [(2, 1)]})["reason"] == "level 2 has no throughput or no latency"

"""The search for the capacity, without a clock, against made-up servers: exact ones and noisy ones."""

import math
import random
from statistics import mean

import pytest

from llmload.metrics.search import Search


def search_of(holds, **options):
    """Run a search to its end; return it and the levels that it measured."""
    search, levels = Search(**{"limit": 1000, **options}), []
    while (level := search.next()) is not None:
        levels.append(level)
        search.tell(level, holds(level))
    return search, levels


def never(level):
    return level < 0


def always(level):
    return level > 0


class Noisy:
    """A server whose levels hold by chance: less likely above its capacity, or one in two where it has none."""

    def __init__(self, seed, capacity):
        self._rng, self._capacity = random.Random(seed), capacity

    def __call__(self, level):
        share = 0.5 if self._capacity is None else 1 / (1 + math.exp((level / self._capacity - 1) * 40))
        return self._rng.random() < share


def test_the_example_of_the_docstring():
    """Doubling, bisection, both edges once more."""
    search, levels = search_of(lambda level: level <= 5)
    assert levels == [1, 2, 4, 8, 6, 5, 5, 6]
    assert (search.low, search.high, search.ended) == (5, 6, "bracketed")
    assert (search.votes(5), search.votes(6)) == ((2, 2), (0, 2))


@pytest.mark.parametrize("capacity", range(1, 300))
def test_a_server_that_never_lies_is_found_exactly(capacity):
    """The bracket holds the truth, is as narrow as asked for, and takes no more than logarithmically many steps."""
    search, levels = search_of(lambda level: level <= capacity, width=0.1)
    assert search.low <= capacity < search.high
    assert search.high - search.low <= max(1, 0.1 * search.low)
    assert len(levels) <= 2 * math.log2(capacity + 1) + 8


def test_with_no_width_the_very_level_is_found():
    """A width of 0 bisects down to neighbours."""
    search, _ = search_of(lambda level: level <= 137, width=0)
    assert (search.low, search.high) == (137, 138)


def test_a_server_that_never_holds():
    """Nothing is found, after the lowest level was seen twice."""
    search, levels = search_of(never)
    assert (levels, search.low, search.high, search.ended) == ([1, 1], None, 1, "none")


def test_a_server_without_a_limit():
    """The search ends at the highest level that it may try, and says that this was the reason."""
    search, levels = search_of(always, limit=100)
    assert levels == [1, 2, 4, 8, 16, 32, 64, 100, 100]
    assert (search.low, search.high, search.ended) == (100, None, "limit")


def test_one_wrong_verdict_does_not_end_the_search():
    """Level 4 seems to fail once: its edge is looked at again, the majority counts, and the search goes on."""
    lies = {4: [False]}

    def holds(level):
        return lies[level].pop() if lies.get(level) else level <= 40

    search, _ = search_of(holds)
    assert search.low <= 40 < search.high
    assert search.votes(4)[0] > search.votes(4)[1] / 2


@pytest.mark.parametrize("capacity", [6, 20, 75])
def test_a_noisy_edge_is_found_within_its_noise(capacity):
    """Levels near the edge hold with a probability that falls from 1 to 0 over ±10 %: on average the edge is met, and
    nine of ten searches end within 15 % of it."""
    found = []
    for seed in range(200):
        search, levels = search_of(Noisy(seed, capacity))
        assert len(levels) <= 40
        found.append(search.low)
    assert all(found)
    assert mean(found) == pytest.approx(capacity, rel=0.1)
    assert sum(abs(level - capacity) <= max(1, 0.15 * capacity) for level in found) >= 180


def test_verdicts_that_never_settle_end_the_search():
    """A server that answers by chance: the search gives up after its most measurements, or ends by itself."""
    for seed in range(50):
        search, levels = search_of(Noisy(seed, None))
        assert len(levels) <= 40
        assert search.ended is not None

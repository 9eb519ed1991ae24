"""Mock server: due times, the common grid, the queue of slots and the timer."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmload.mock.distribution import parse_distribution
from llmload.mock.schedule import groups, offsets_ns, on_grid
from llmload.mock.slots import Slots
from llmload.mock.wheel import Pace, Wheel

MS = 1_000_000


def test_constant_times_are_exact() -> None:
    """Token i is due at TTFT + i * ITL."""
    itl = parse_distribution("20", "x")
    due = offsets_ns(3, ttft_ns=200 * MS, itl_ms=itl, rng=Random(1))
    assert list(due) == [200 * MS, 220 * MS, 240 * MS]
    at_once = offsets_ns(3, ttft_ns=5, itl_ms=parse_distribution("0", "x"), rng=Random(1))
    assert list(at_once) == [5, 5, 5]


def test_drawn_gaps_add_up() -> None:
    """The first token is due at the TTFT, and each gap is one draw of the distribution."""
    itl = parse_distribution("uniform:10:30", "x")
    rng = Random(3)
    gaps = [round(itl.draw(rng) * MS) for _ in range(4)]
    due = offsets_ns(4, ttft_ns=5, itl_ms=itl, rng=Random(3))
    assert due == [5, 5 + gaps[0], 5 + sum(gaps[:2]), 5 + sum(gaps[:3])]


@pytest.mark.parametrize(
    ("due", "step", "expected"), [(0, 20, 0), (1, 20, 20), (20, 20, 20), (21, 20, 40), (21, 0, 21)]
)
def test_the_grid_rounds_up(due: int, step: int, expected: int) -> None:
    """A due time moves to the next multiple of the step, never back; step 0 leaves it."""
    assert on_grid(due, step) == expected


@given(
    start=st.integers(0, 20),
    length=st.integers(0, 40),
    size=st.integers(1, 9),
    border=st.integers(0, 60),
)
def test_groups_cover_every_token_once(start: int, length: int, size: int, border: int) -> None:
    """Groups are contiguous, at most `size` long, and none holds tokens of both sides of the border."""
    ranges = list(groups(start, start + length, size=size, border=border))
    assert [i for first, end in ranges for i in range(first, end)] == list(range(start, start + length))
    assert all(end - first <= size and not first < border < end for first, end in ranges)


def test_slots_are_first_in_first_out() -> None:
    """With one slot, three requests are served in the order in which they came, and only the first at once."""

    async def scenario() -> list[tuple[str, bool]]:
        slots, order = Slots(1), []

        async def request(name: str) -> None:
            at_once = await slots.take()
            order.append((name, at_once))
            await asyncio.sleep(0)
            slots.free()

        await asyncio.gather(*(request(name) for name in "abc"))
        assert (slots.used, slots.queued, slots.peak_used) == (0, 0, 1)
        return order

    assert asyncio.run(scenario()) == [("a", True), ("b", False), ("c", False)]


def test_a_waiter_that_leaves_takes_no_slot() -> None:
    """A cancelled waiter leaves the queue; one cancelled in the moment it gets a slot passes it on."""

    async def scenario() -> tuple[int, int]:
        slots = Slots(1)
        await slots.take()
        one, two, three = (asyncio.create_task(slots.take()) for _ in range(3))
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.sleep(0)
        assert slots.queued == 2
        slots.free()  # hands the slot to two
        two.cancel()
        assert await three is False
        slots.free()
        return slots.used, slots.queued

    assert asyncio.run(scenario()) == (0, 0)


def test_slots_without_a_limit_never_queue() -> None:
    """With limit 0 everybody is served at once, and the peak is counted."""

    async def scenario() -> tuple[list[bool], int]:
        slots = Slots(0)
        return [await slots.take() for _ in range(5)], slots.peak_used

    assert asyncio.run(scenario()) == ([True] * 5, 5)


def test_nothing_is_sent_early() -> None:
    """The timer never wakes before the due time, in the order of due times, also for fractions of a millisecond."""

    async def scenario() -> list[int]:
        wheel, woken = Wheel(), []
        start = time.monotonic_ns()

        async def wait(number: int) -> None:
            due = start + number * 1_300_000
            await wheel.until(due)
            assert time.monotonic_ns() >= due
            woken.append(number)

        await asyncio.gather(*(wait(number) for number in reversed(range(20))))
        return woken

    assert asyncio.run(scenario()) == list(range(20))


def test_a_freeze_moves_the_rest_of_the_plan() -> None:
    """What is due in a freeze waits for its end, and the plan after it moves by the delay, on the grid."""

    async def scenario() -> None:
        wheel = Wheel()
        pace = Pace(wheel, 0)
        planned = time.monotonic_ns()
        wheel.freeze(0.03)
        thaw = wheel.frozen_until_ns
        await pace.until(planned)
        assert time.monotonic_ns() >= thaw
        assert pace.moved_ns == thaw - planned
        stepped = Pace(wheel, 7 * MS)
        wheel.freeze(0.01)
        await stepped.until(planned)
        assert time.monotonic_ns() >= on_grid(wheel.frozen_until_ns, 7 * MS)

    asyncio.run(scenario())

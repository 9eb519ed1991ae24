"""One timer for everything that is due in the same millisecond.

Knows the clock and the event loop. uvloop's timers count whole milliseconds: what is due is never sent early
and about a millisecond late, and the stamps in the truth say how late.
"""

from __future__ import annotations

import asyncio
import time

from llmload.mock.schedule import NS_PER_MS, on_grid


class Wheel:
    """Wakes waiters, all those of one millisecond with one timer."""

    def __init__(self) -> None:
        self._ticks: dict[int, list[asyncio.Future[None]]] = {}
        self.frozen_until_ns = 0

    def freeze(self, seconds: float) -> None:
        """Let no token out for `seconds`; the rest of every stream then comes that much later."""
        self.frozen_until_ns = time.monotonic_ns() + round(seconds * 1e9)

    def until(self, due_ns: int) -> asyncio.Future[None]:
        """A future that is done as soon as the clock has reached `due_ns`."""
        loop = asyncio.get_running_loop()
        tick = -(-due_ns // NS_PER_MS)
        waiters = self._ticks.get(tick)
        if waiters is None:
            waiters = self._ticks[tick] = []
            loop.call_later(max(0, tick - time.monotonic_ns() // NS_PER_MS) / 1000, self._ring, tick)
        waiter = loop.create_future()
        waiters.append(waiter)
        return waiter

    def _ring(self, tick: int) -> None:
        early_ms = tick - time.monotonic_ns() // NS_PER_MS
        if early_ms > 0:  # the loop's clock may lag behind the real one
            asyncio.get_running_loop().call_later(early_ms / 1000, self._ring, tick)
            return
        for waiter in self._ticks.pop(tick):
            if not waiter.done():
                waiter.set_result(None)


class Pace:
    """The times of one stream: its plan, moved by every stop of the server or of the stream.

    Args:
        wheel: the timer.
        grid_ns: step of the common grid (lockstep), 0 for none.
    """

    def __init__(self, wheel: Wheel, grid_ns: int) -> None:
        self._wheel = wheel
        self._grid_ns = grid_ns
        self.moved_ns = 0

    async def until(self, planned_ns: int) -> None:
        """Return when what was planned for `planned_ns` may be sent; others get a turn in any case."""
        while True:
            due_ns = on_grid(planned_ns + self.moved_ns, self._grid_ns)
            if due_ns > time.monotonic_ns():
                await self._wheel.until(due_ns)
            else:
                await asyncio.sleep(0)
            thaw_ns = self._wheel.frozen_until_ns
            if thaw_ns <= time.monotonic_ns():
                return
            self.moved_ns = thaw_ns - planned_ns

    async def rest(self, seconds: float | None) -> None:
        """Stand still for `seconds` and move the plan by as much; None: until the request is cancelled."""
        await self.idle(seconds)
        self.moved_ns += round((seconds or 0) * 1e9)

    async def idle(self, seconds: float | None) -> None:
        """Wait without a change of the plan; None: until the request is cancelled."""
        if seconds is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._wheel.until(time.monotonic_ns() + round(seconds * 1e9))

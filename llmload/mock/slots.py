"""A number of places in the server, and a first-in, first-out queue in front of them.

Knows the event loop, nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """`limit` places; 0 means no limit.

    `take` and `free` belong together; `free` hands the place to the oldest waiter, so nobody can overtake.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.used = 0
        self.peak_used = 0

    @property
    def queued(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    async def take(self) -> bool:
        """Wait for a place; True if there was one at once."""
        if not self._limit or self.used < self._limit:  # then nobody waits: `free` hands places over
            self.used += 1
            self.peak_used = max(self.peak_used, self.used)
            return True
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(turn)
            else:
                self.free()  # the place came in the same moment as the end: pass it on
            raise
        return False

    def free(self) -> None:
        """Give a place back, or to the oldest waiter."""
        # A waiter that was cancelled in this turn of the loop removes itself when it runs: leave it in place.
        turn = next((turn for turn in self._waiting if not turn.done()), None)
        if turn is None:
            self.used -= 1
        else:
            self._waiting.remove(turn)
            turn.set_result(None)

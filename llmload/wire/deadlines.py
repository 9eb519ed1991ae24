"""Deadlines by the monotonic clock that hold whatever the socket does.

One greenlet a process looks at every request under way twenty times a second and throws `Expired` into the ones that
are overdue, wherever they wait: in the pool, in DNS, in a handshake, in a read. No timer per read, and a server that
keeps the socket busy with comments cannot put a deadline off.

A wire may hold back what it has read (see `Exchange.eager`). Events in there move deadlines too, so the keeper asks
for them before it throws, and whenever they have waited for `BEHIND_NS`.
"""

from __future__ import annotations

from time import monotonic_ns

import gevent
from gevent import get_hub, getcurrent

from llmload.config import Deadlines
from llmload.stamps import Stamps
from llmload.wire.exchange import Exchange

TICK_S = 0.05
BEHIND_NS = 500_000_000
"""How long what was read may wait before it is parsed: long enough to spare most switches between greenlets, short
enough for a live curve of tokens a second and for the second that an ended answer may stay open."""
NEVER = 2**63


class Expired(BaseException):
    """A deadline passed. Not an `Exception`, so that nobody's `except Exception` swallows it."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Watch:
    """The deadline that is running for one request; a context manager around everything that can wait.

    The request's stamps tell when it was on its way: until then the connect deadline runs, from then on the one for
    the first token (of an answer that is not streamed: only the total one).
    """

    __slots__ = (
        "_connecting",
        "_exchange",
        "_greenlet",
        "_idle_ns",
        "_keeper",
        "_limits",
        "_stamps",
        "_stream",
        "_total_ns",
        "armed",
        "due_ns",
        "kind",
        "look_ns",
    )

    def __init__(self, keeper: Keeper, limits: Deadlines, stamps: Stamps, *, stream: bool) -> None:
        now_ns = monotonic_ns()
        self._keeper = keeper
        self._limits = limits
        self._stamps = stamps
        self._stream = stream
        self._greenlet = getcurrent()
        self._total_ns = _due(now_ns, limits.total_s)
        self._idle_ns = _due(0, limits.idle_s)  # worked out once: `content` is called for every token
        self._connecting = True
        self._exchange: Exchange | None = None
        self.armed = False
        self.look_ns = 0
        """There is nothing to see before this time, unless the deadline strikes."""
        self._set("timeout_connect", _due(now_ns, limits.connect_s))

    def follow(self, exchange: Exchange) -> None:
        """The request waits in `exchange.batches()` from now on."""
        self._exchange, self.look_ns = exchange, 0

    def content(self, at_ns: int) -> None:
        """An event with content came at `at_ns`, at or after the first token."""
        self._connecting = False
        self._set("timeout_idle", at_ns + self._idle_ns)

    def ending(self, at_ns: int, limit_s: float) -> None:
        """The answer is whole: wait no longer than this for the response to end. Its kind is `drained`."""
        self._connecting = False
        self._set("drained", _due(at_ns, limit_s))

    def _set(self, kind: str, due_ns: int) -> None:
        self.kind, self.due_ns = ("timeout_total", self._total_ns) if self._total_ns < due_ns else (kind, due_ns)

    def overdue(self, now_ns: int) -> bool:
        """Whether the deadline that is running has passed."""
        if self._connecting and self._stamps.sent_ns is not None:
            self._connecting = False
            limit_s = self._limits.first_token_s if self._stream else None
            self._set("timeout_first_token", _due(self._stamps.sent_ns, limit_s))
        return self.armed and now_ns >= self.due_ns

    def behind(self, now_ns: int) -> bool:
        """Whether something has waited for too long to be parsed."""
        if self._exchange is None:
            return False
        oldest_ns = self._exchange.oldest_ns
        self.look_ns = (now_ns if oldest_ns is None else oldest_ns) + BEHIND_NS
        return now_ns >= self.look_ns

    def __enter__(self) -> Watch:
        self.armed = True
        self._keeper.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.armed = False
        self._keeper.remove(self)

    def look(self) -> None:
        """Let the request parse what has come, then throw if it is overdue still.

        Called in the hub: `hand_over` comes back when the request waits again, and nothing can come between the
        check and the throw.
        """
        if self.armed and self._exchange is not None:
            self._exchange.hand_over()
        if self.overdue(monotonic_ns()):
            self.armed = False
            self._greenlet.throw(Expired(self.kind))


class Keeper:
    """Watches every request of this process. Its greenlet runs only while there is something to watch."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._greenlet: gevent.Greenlet | None = None

    def watch(self, limits: Deadlines, stamps: Stamps, *, stream: bool) -> Watch:
        """Return a watch for a request of the calling greenlet."""
        return Watch(self, limits, stamps, stream=stream)

    def add(self, watch: Watch) -> None:
        self._watches.add(watch)
        if self._greenlet is None:
            self._greenlet = gevent.spawn(self._run)

    def remove(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def _run(self) -> None:
        while self._watches:
            now_ns = monotonic_ns()
            for watch in self._watches:
                if now_ns < watch.look_ns and now_ns < watch.due_ns:
                    continue
                if watch.overdue(now_ns) or watch.behind(now_ns):
                    get_hub().loop.run_callback(watch.look)
            gevent.sleep(TICK_S)
        self._greenlet = None


def _due(from_ns: int, limit_s: float | None) -> int:
    return NEVER if limit_s is None else from_ns + int(limit_s * 1e9)

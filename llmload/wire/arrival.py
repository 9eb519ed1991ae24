"""When the kernel received what a read returned, on the monotonic clock.

Linux stamps every packet with the wall clock (`SO_TIMESTAMPNS`, socket(7)) when the network card hands it over, and
`recvmsg` returns the stamp of the newest packet that it read from. A busy event loop makes reads late; it does not
make these stamps late.
"""

from __future__ import annotations

import functools
import socket
import struct
import sys
from time import monotonic_ns, time_ns

SO_TIMESTAMPNS = 35  # asm-generic/socket.h; Python has no name for it
_TIMESPEC = struct.Struct("@ll")
_unpack = _TIMESPEC.unpack
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
PAIR_NS = 20_000
"""Two readings of the clocks further apart than this were interrupted, and are taken again."""


@functools.cache
def kernel_stamps() -> bool:
    """Return whether this platform stamps arrivals.

    The kernel stamps packets while any socket wants it, and begins and ends that a few milliseconds late. So the
    socket that asks here stays open for the life of the process, or the first reads would have no stamp.
    """
    if not sys.platform.startswith("linux") or not ANCILLARY_BYTES:
        return False
    guard = socket.socket()
    try:
        guard.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        guard.close()
        return False
    guard.detach()
    return True


class Arrivals:
    """Stamps the reads of one connection; arrivals never go backwards."""

    def __init__(self) -> None:
        self.unstamped = 0
        """Reads that the kernel gave no stamp for: they were stamped when they came back."""
        self.longest_ns = 0
        """The longest time that bytes have waited here since somebody set this to 0."""
        self._last_ns = monotonic_ns()

    def stamp(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        """Return the monotonic arrival of a read that has just returned `ancillary`.

        The stamp is moved to the monotonic clock by both clocks' readings of this moment, so a wall clock that is
        stepped between two reads moves nothing. Stepped between arrival and read, it makes a stamp that lies before
        the last read or in the future; such a stamp is not believed.
        """
        # once a token: the clocks are read here and not in a function of their own
        before_ns, wall_ns, now_ns = monotonic_ns(), time_ns(), monotonic_ns()
        while now_ns - before_ns >= PAIR_NS:
            before_ns, wall_ns, now_ns = monotonic_ns(), time_ns(), monotonic_ns()
        try:
            seconds, nanoseconds = _unpack(ancillary[0][2])
        except (IndexError, struct.error):
            return self._unstamped(now_ns)
        waited_ns: int = wall_ns - seconds * 1_000_000_000 - nanoseconds
        at_ns = now_ns - waited_ns
        if waited_ns < 0 or at_ns < self._last_ns:
            return self._unstamped(now_ns)
        self._last_ns = at_ns
        if waited_ns > self.longest_ns:
            self.longest_ns = waited_ns
        return at_ns

    def _unstamped(self, now_ns: int) -> int:
        self.unstamped += 1
        self._last_ns = now_ns
        return now_ns

"""When the client did what, for one request.

No I/O, no clock: whoever carries the request fills it in. All times are monotonic nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Stamps:
    """When the client did what, for one request. None: it did not happen, or does not apply.

    `asked_ns` is when the user asked (in an open loop: the intended start), `sent_ns` when the first byte of
    the request was handed to the kernel, `written_ns` when the last one was. Durations of the connection's
    set-up are None on a reused connection.
    """

    asked_ns: int
    sent_ns: int | None = None
    written_ns: int | None = None
    headers_ns: int | None = None
    first_byte_ns: int | None = None
    closed_ns: int | None = None
    pool_wait_ns: int | None = None
    dns_ns: int | None = None
    connect_ns: int | None = None
    tls_ns: int | None = None
    read_delay_ns: int | None = None
    """The longest time that bytes of the answer waited in the kernel; None where it did not stamp them all."""
    reused: bool | None = None
    reconnects: int = 0
    """How often the request was sent anew because a kept connection turned out to be closed. The other stamps are
    those of the last time; what was lost before counts as pool wait."""
    source: str = "read"
    """Where arrivals come from: `kernel`, or `read` as soon as one of them was stamped in user space."""

    @property
    def setup_ns(self) -> int:
        """DNS, connect and TLS time that this request paid, nanoseconds; 0 on a reused connection."""
        return (self.dns_ns or 0) + (self.connect_ns or 0) + (self.tls_ns or 0)

    @property
    def origin_ns(self) -> int | None:
        """Where TTFT and E2E count from: the first byte out, moved back by the set-up of the connection."""
        return None if self.sent_ns is None else self.sent_ns - self.setup_ns

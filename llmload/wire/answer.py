"""A response while it comes in: read in the hub, while the greenlet that asked sleeps.

One IO watcher a connection, started once for an answer. Its callback does one `recvmsg`. Until the first token, which
the client wants at once, each read is parsed and wakes the greenlet. From then on (`eager` False) reads are only kept,
and are parsed many together

* when the response has ended or failed;
* when more than `PENDING_BYTES` wait;
* when the keeper of the deadlines asks for what has come: twenty times a second it looks whether anything has waited
  for long, and it looks again before a deadline strikes. So there is no timer here, and no event is missed by one.

A round of parsing for each token would cost more than reading it, because nothing of it is in the processor's caches
when the next token comes; the stamps of the kernel make parsing late harmless.
"""

from __future__ import annotations

from typing import Any

import httpcore
from gevent import get_hub
from gevent.hub import Waiter

from llmload.wire.network import TcpStream
from llmload.wire.response import Response
from llmload.wire.tls import TlsStream

PENDING_BYTES = 256 * 1024
"""Bytes of body that may wait for the greenlet; reading stops while there are more."""

CR = 13
LAST_BYTES = 5
"""A read of no more bytes may be the rest of the empty line that ends a chunked body. Of a longer one that line is at
its end, behind the last chunk's size or a trailer; two empty lines belong to an event and its chunk."""

READ, WRITE = 1, 2  # gevent's names of the events of an IO watcher


class Answer:
    """One answer on a connection.

    Args:
        stream: the connection's stream.
        watcher: a READ watcher of it, stopped; the connection keeps it for the next answer.
        head_only: see `Response`.
    """

    def __init__(self, stream: TcpStream | TlsStream, watcher: Any, *, head_only: bool = False) -> None:
        self.response = Response(head_only=head_only)
        self._eager = True
        self._patient = False
        """Whether reads are kept that show that they are not the last."""
        self._unread: list[tuple[bytes, int]] = []
        """Reads that are not parsed yet."""
        self._waiting_bytes = 0
        """Bytes read since somebody took what came."""
        self._stream = stream
        self._receive = stream.receive
        self._watcher = watcher
        self._waiter: Waiter | None = None
        self._failed: Exception | None = None
        self._reading = False
        self._unstamped = stream.arrivals.unstamped
        stream.arrivals.longest_ns = 0
        self._resume()

    @property
    def kernel_stamped(self) -> bool:
        """Whether the kernel has stamped every read of this answer so far."""
        return self._stream.arrivals.unstamped == self._unstamped

    @property
    def read_delay_ns(self) -> int | None:
        """The longest time that bytes waited in the kernel so far; None where it did not stamp them all."""
        return self._stream.arrivals.longest_ns if self.kernel_stamped else None

    @property
    def eager(self) -> bool:
        """Whether each read is handed over at once; True at first."""
        return self._eager

    @eager.setter
    def eager(self, eager: bool) -> None:
        self._eager = eager
        self._patient = not eager and self.response.chunked

    @property
    def oldest_ns(self) -> int | None:
        """Arrival of the oldest bytes that nobody has taken, or None."""
        waiting = self.response.pairs or self._unread
        return waiting[0][1] if waiting else None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come: the response is complete, or the connection broke."""
        return self.response.complete or self._failed is not None

    def wait_head(self) -> None:
        """Wait for the response's head.

        Raises:
            httpcore.NetworkError: the connection broke before.
            httpcore.RemoteProtocolError: what came is not HTTP.
        """
        while not self.response.has_head:
            if self._failed is not None:
                raise self._failed
            self._wait()

    def take(self) -> list[tuple[bytes, int]]:
        """Wait for body and return it as (bytes of one read, arrival); an empty list at its end.

        Raises:
            httpcore.NetworkError: the connection broke; everything that came before has been returned.
            httpcore.RemoteProtocolError: what came is not HTTP.
        """
        response = self.response
        while not response.pairs:
            if self._failed is not None:
                raise self._failed
            if response.complete:
                return []
            self._resume()
            self._wait()
        self._waiting_bytes = 0
        return response.take()

    def wait_writable(self) -> None:
        """Wait until the socket takes more of the request, or the answer has ended before it was asked for."""
        watcher = get_hub().loop.io(self._stream.fd, WRITE)
        watcher.start(self._wake)
        try:
            self._wait()
        finally:
            watcher.close()

    def hand_over(self) -> None:
        """Read once more and let `take` return what has come. In the hub only; returns when it waits again."""
        if self._reading:
            self.read()
        self._parse()
        if self.response.pairs or self.ended:
            self._wake()

    def read_rest(self) -> None:
        """Read what the kernel still holds of a connection that does not take more."""
        while not self.ended and self.read():
            pass
        self._parse()

    def fail(self, error: Exception) -> None:
        """Let the waiting greenlet raise, unless the response is complete; callable from everywhere."""
        if not self.ended:
            self._failed = error
        get_hub().loop.run_callback(self._wake)

    def stop(self) -> None:
        """Read no more, for good."""
        self._pause()
        self._unread.clear()
        self.response.forget()

    def read(self) -> bool:
        """The watcher's callback: one read, kept or, where there is a reason, parsed; False if there was nothing."""
        try:
            got = self._receive()
        except Exception as error:  # of the network; of another kind it is a bug, of which the greenlet has to hear too
            self._parse()
            self._break(error)
            return True
        if got is None:
            return False
        self._unread.append(got)
        data = got[0]
        size = len(data)
        self._waiting_bytes += size
        if not (
            self._patient
            and size > LAST_BYTES
            and data[-2] == CR
            and (data[-4] != CR or data[-6] == CR)
            and self._waiting_bytes <= PENDING_BYTES
            and not self._stream.finished
        ):
            self._parse()
            if self._eager and self.response.has_head:
                self._wake()
            if self._waiting_bytes > PENDING_BYTES:
                self._pause()  # nobody took it: let the server wait as well
                self._wake()
        return True

    def _parse(self) -> None:
        """Parse what was read; the end, good or bad, wakes the greenlet."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        data, arrival_ns = unread[-1]
        if not data:
            unread.pop()
        try:
            if unread:
                self.response.feed(unread)
            if not data or self._stream.finished:
                self.response.feed_eof(arrival_ns)
        except Exception as error:  # a violation of HTTP, or a bug: either way the greenlet has to hear of it
            self._break(error)
        if self.response.complete:
            self._pause()
            self._wake()

    def _break(self, error: Exception) -> None:
        """Nothing more will come, because of this."""
        if not self.ended:
            self._failed = error
            if isinstance(error, OSError):
                self._failed = httpcore.ReadError(str(error) or type(error).__name__)
                self._failed.__cause__ = error
        self._pause()
        self._wake()

    def _resume(self) -> None:
        if not self._reading:
            self._reading = True
            self._watcher.start(self.read)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._watcher.stop()

    def _wait(self) -> None:
        self._waiter = waiter = Waiter()
        try:
            waiter.get()
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.switch(None)

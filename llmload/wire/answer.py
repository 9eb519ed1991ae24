"""A response while it comes in: read and parsed in the hub, while the greenlet that asked sleeps.

One IO watcher a connection, started once for an answer. Its callback does one `recvmsg` and feeds the parser. The
greenlet is woken

* when the response's head is there, and when the response has ended or failed;
* at every read, as long as the answer is `eager`, which the client wants until the first token;
* when more than `PENDING_BYTES` wait for it;
* when the keeper of the deadlines asks for what has come: twenty times a second it looks whether anything has waited
  for long, and it looks again before a deadline strikes. So there is no timer here, and no event is missed by one.

A greenlet switch and a round of parsing for each token would cost more than reading it; the stamps of the kernel make
parsing late harmless.
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
        self.eager = True
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
        if self.response.pairs:
            self._wake()

    def read_rest(self) -> None:
        """Read what the kernel still holds of a connection that does not take more."""
        while not self.ended and self._read_once():
            pass

    def fail(self, error: Exception) -> None:
        """Let the waiting greenlet raise, unless the response is complete; callable from everywhere."""
        if not self.ended:
            self._failed = error
        get_hub().loop.run_callback(self._wake)

    def stop(self) -> None:
        """Read no more, for good."""
        self._pause()
        self.response.forget()

    def read(self) -> None:
        """The watcher's callback: one read, and a switch to the greenlet where there is a reason."""
        response = self.response
        self._read_once()
        if response.complete or self._failed is not None:
            self._pause()
            self._wake()
        elif response.has_head:
            if self.eager or response.pending_bytes > PENDING_BYTES:
                self._wake()
            if response.pending_bytes > PENDING_BYTES:
                self._pause()  # nobody took it: let the server wait as well

    def _read_once(self) -> bool:
        """Read once; False if there was nothing."""
        try:
            got = self._receive()
            if got is None:
                return False
            data, arrival_ns = got
            if data:
                self.response.feed(data, arrival_ns)
            if not data or self._stream.finished:
                self.response.feed_eof(arrival_ns)
        except OSError as error:
            self._failed = httpcore.ReadError(str(error) or type(error).__name__)
            self._failed.__cause__ = error
        except Exception as error:  # a violation of HTTP, or a bug: either way the greenlet has to hear of it
            self._failed = error
        return True

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

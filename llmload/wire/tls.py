"""TLS: the context of this process, and an encrypted stream whose reads keep their arrival times.

Loading the certificate store blocks the event loop for 40 to 100 ms, so it is loaded once and shared by every client.
"""

from __future__ import annotations

import functools
import ssl
from typing import TYPE_CHECKING

import httpcore
import httpx

from llmload.errors import SetupError

if TYPE_CHECKING:
    from llmload.wire.arrival import Arrivals
    from llmload.wire.network import TcpStream

Context = ssl.SSLContext

RECORD_BYTES = 64 * 1024


@functools.cache
def shared_context(*, ca_file: str | None = None, insecure: bool = False) -> ssl.SSLContext:
    """Return the one context of its kind: certificates are verified, `SSL_CERT_FILE` and `SSL_CERT_DIR` are obeyed.

    Args:
        ca_file: PEM file of certificates that are trusted beside the usual ones.
        insecure: verify nothing.

    Raises:
        SetupError: `ca_file` cannot be read, or holds no certificate.
    """
    context = httpx.create_ssl_context(verify=not insecure)
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:
            raise SetupError(
                f"--ca-file {ca_file} cannot be used ({error.strerror or error})", "name a PEM file of certificates"
            ) from None
    return context


class TlsStream(httpcore.NetworkStream):
    """Encrypts over a TCP stream through memory, so that the read below stays a `recvmsg` with its stamp.

    Args:
        below: connected; closed with this stream.
        context: says what is trusted.
        name: the server's, for its certificate.

    Raises:
        OSError: the handshake failed (`ssl.SSLError`), or the connection did.
    """

    def __init__(self, below: TcpStream, context: ssl.SSLContext, name: str | None) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self.fd = below.fd
        self.dns_ns = below.dns_ns
        self.finished = False
        """Whether the other side has said goodbye; its connection may stay open behind it."""
        self._shake_hands()

    @property
    def arrivals(self) -> Arrivals:
        """The stamps of the reads below."""
        return self._below.arrivals

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                pass
            finally:
                self._below.write(self._outgoing.read())  # also the alert that says what was wrong
            data = self._below.read(RECORD_BYTES)
            self._incoming.write(data) if data else self._incoming.write_eof()

    def receive(self) -> tuple[bytes, int] | None:
        """See `TcpStream.receive`: all that one read made readable, None also where it held no whole record.

        What TLS wants to answer by itself (a key update) waits for the next `seal`, as RFC 8446, 4.6.3 allows: it
        is due "prior to sending its next Application Data record".
        """
        got = self._below.receive()
        if got is None:
            return None
        data, arrival_ns = got
        self._incoming.write(data) if data else self._incoming.write_eof()
        parts: list[bytes] = []
        try:
            while part := self._tls.read(RECORD_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            return (b"".join(parts), arrival_ns) if parts else None
        except ssl.SSLEOFError:
            pass  # closed without a goodbye, as many servers do; HTTP knows whether something is missing
        self.finished = True
        return b"".join(parts), arrival_ns

    def seal(self, data: bytes) -> bytes:
        """See `TcpStream.seal`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        return self._outgoing.read()

    def send(self, sealed: memoryview) -> int:
        """See `TcpStream.send`."""
        return self._below.send(sealed)

    def close(self) -> None:
        """Close without a goodbye: it could block, and says nothing that HTTP has not said."""
        self._below.close()

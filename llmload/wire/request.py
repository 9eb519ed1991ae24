"""One HTTP/1.1 request as the bytes that are sent.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

import httpcore


def request_bytes(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return head and body in one piece, so that a small request is one write and one packet.

    Raises:
        httpcore.LocalProtocolError: a line break in a header or in the target would begin another header.
    """
    lines = [b"%s: %s" % header for header in headers]
    head = b"\r\n".join([b"%s %s HTTP/1.1" % (method, target), *lines])
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
        raise httpcore.LocalProtocolError("a header of the request holds a line break")
    if b"\r\ntransfer-encoding:" in head.lower():
        body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    return b"%s\r\n\r\n%s" % (head, body)

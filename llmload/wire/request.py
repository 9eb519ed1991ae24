"""One HTTP/1.1 request as the bytes that are sent.

No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import httpcore

_UNSAFE = re.compile(rb"[\r\n\0]")


def request_bytes(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return head and body in one piece, so that a small request is one write and one packet.

    Raises:
        httpcore.LocalProtocolError: a line break in a header or in the target would begin another header.
    """
    lines = [b"%s %s HTTP/1.1" % (method, target)]
    chunked = False
    for name, value in headers:
        lines.append(b"%s: %s" % (name, value))
        chunked = chunked or name.lower() == b"transfer-encoding"
    if any(map(_UNSAFE.search, lines)):
        raise httpcore.LocalProtocolError("a header of the request holds a line break")
    if chunked:
        body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    return b"\r\n".join([*lines, b"", body])

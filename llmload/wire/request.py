"""One HTTP/1.1 request as the bytes that are sent.

No I/O. Takes httpcore's request, so that whatever speaks to httpcore can send through the fast wire.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import httpcore

_UNSAFE = re.compile(rb"[\r\n\0]")


def request_bytes(request: httpcore.Request) -> bytes:
    """Return head and body in one piece, so that a small request is one write and one packet.

    Raises:
        httpcore.LocalProtocolError: a line break in a header or in the target would begin another header.
    """
    lines = [b"%s %s HTTP/1.1" % (request.method, request.url.target)]
    lines += [b"%s: %s" % header for header in request.headers]
    if any(map(_UNSAFE.search, lines)):
        raise httpcore.LocalProtocolError("a header of the request holds a line break")
    chunked = any(name.lower() == b"transfer-encoding" for name, _ in request.headers)
    body = _body(request.stream)
    if chunked:
        body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    return b"\r\n".join([*lines, b"", body])


def _body(stream: object) -> bytes:
    assert isinstance(stream, Iterable)
    return b"".join(stream)

"""What a broken transport means: any exception of httpx, httpcore, ssl or the socket becomes one failure kind.

No I/O. Both wires end here, so that the same accident has the same name on both.
"""

from __future__ import annotations

import socket
import ssl

import httpcore
import httpx

from llmload.wire.exchange import WireError

TRANSPORT_ERRORS = (
    httpx.HTTPError,
    httpx.StreamError,
    httpx.InvalidURL,
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    ssl.SSLError,
    OSError,
)
"""All that a transport may raise for what the network or the server did."""


def wire_error(error: BaseException, *, head: bool) -> WireError:
    """Return the failure kind of what a transport raised; `head` says whether the response had begun."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    text = str(error) or type(error).__name__
    if isinstance(error, (httpx.PoolTimeout, httpcore.PoolTimeout)):
        return WireError("pool_timeout", text)
    if isinstance(error, (httpx.TimeoutException, httpcore.TimeoutException)):
        return WireError("timeout_connect" if not head else "timeout_idle", text)
    if any(isinstance(one, ssl.SSLError) for one in causes):
        return WireError("tls" if not head else "truncated", text)
    if any(isinstance(one, socket.gaierror) for one in causes):
        return WireError("dns", f"the name cannot be resolved ({text})")
    if isinstance(error, (httpx.ConnectError, httpx.ProxyError, httpcore.ConnectError, httpcore.ProxyError)):
        return WireError("connect", text)
    if isinstance(error, (httpx.NetworkError, httpcore.NetworkError, OSError)):
        return WireError("truncated", f"the connection broke ({text})")
    if isinstance(error, httpx.RemoteProtocolError):
        # h11 has one exception for "gone" and for "not HTTP"; its text tells them apart
        gone = "disconnected" in text or "closed connection" in text
        return WireError("truncated" if gone else "protocol", text)
    return WireError("protocol", text)

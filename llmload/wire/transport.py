"""The fast wire's connections for an ordinary httpx client, which gives up arrivals for httpx's interface.

with httpx.Client(transport=FastTransport()) as client:
    client.get("http://127.0.0.1:8000/v1/models").json()
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import httpcore
import httpx

from llmload.wire.connection import Pool
from llmload.wire.fast import core_url
from llmload.wire.tls import shared_context


class FastTransport(httpx.BaseTransport):
    """Sends through connections of the fast wire; HTTP/1.1, without a proxy.

    Args:
        ssl_context: says what is trusted; None takes the process's own.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._pool = Pool(ssl_context or shared_context())

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the response's body is read as it comes."""
        assert isinstance(request.stream, httpx.SyncByteStream)
        core = httpcore.Request(
            request.method,
            core_url(request.url),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            response = self._pool.handle_request(core)
        except Exception as error:
            raise _as_httpx(error) from error
        return httpx.Response(
            response.status, headers=response.headers, stream=_Stream(response), extensions=response.extensions
        )

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


class _Stream(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._response.iter_stream()
        except Exception as error:
            raise _as_httpx(error) from error

    def close(self) -> None:
        self._response.close()


def _as_httpx(error: Exception) -> Exception:
    """httpx names its exceptions as httpcore does."""
    same: type[Exception] | None = getattr(httpx, type(error).__name__, None)
    return error if same is None else same(str(error))

"""Which wire carries the requests to a server: the fast one wherever it can.

A proxy from the environment, HTTP/2, a Unix socket and a platform whose kernel stamps no arrivals go over the plain
wire. It is said once in the log, and each completion says in `stamps` what its times are worth.
"""

from __future__ import annotations

import functools
import logging
import ssl
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from llmload.redaction import shown_url
from llmload.wire.arrival import kernel_stamps
from llmload.wire.exchange import Wire
from llmload.wire.fast import FastWire
from llmload.wire.plain import PlainWire, bad_proxy

log = logging.getLogger("llmload")


def open_wire(
    url: str,
    *,
    ssl_context: ssl.SSLContext | None = None,
    http2: bool = False,
    reuse: bool = True,
    unix_socket: str | None = None,
) -> Wire:
    """Return a new wire for one user whose requests go to `url`; a context of None is the process's own.

    Without `reuse` each request opens a connection of its own.

    Raises:
        SetupError: the proxy of the environment cannot be used.
    """
    proxy = proxy_in_use(url)
    if unix_socket is not None:
        _say(f"requests go through the socket {unix_socket}")
    elif proxy is not None:
        _say(f"requests go through the proxy {proxy}")
    elif http2:
        _say("HTTP/2 was asked for")
    elif not kernel_stamps():
        _say("this platform does not stamp arrivals in the kernel")
    else:
        return FastWire(ssl_context=ssl_context, reuse=reuse)
    return PlainWire(ssl_context=ssl_context, http2=http2, reuse=reuse, unix_socket=unix_socket)


def proxy_in_use(url: str) -> str | None:
    """Return the proxy from the environment that a URL goes through, as it may be shown, or None.

    Raises:
        SetupError: it is no address.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy is None or proxy_bypass(parts.netloc):
        return None
    try:
        return shown_url(proxy if "://" in proxy else f"http://{proxy}")
    except ValueError:
        raise bad_proxy() from None


@functools.cache
def _say(why: str) -> None:
    """Say it once a process, not once a user."""
    log.info("Arrivals are stamped when a read returns, not in the kernel: %s", why)

"""The TLS context of this process.

Loading the certificate store blocks the event loop for 40 to 100 ms, so it is loaded once and shared by every client.
"""

from __future__ import annotations

import functools
import ssl

import httpx


@functools.cache
def shared_context() -> ssl.SSLContext:
    """Return the one context: certificates are verified, `SSL_CERT_FILE` and `SSL_CERT_DIR` are obeyed."""
    return httpx.create_ssl_context()

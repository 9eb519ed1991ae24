"""One write to InfluxDB through influxdb-client, and what went wrong with it.

Blocks: under Locust sockets are gevent's, so that only the writer's own greenlet waits.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from influxdb_client import InfluxDBClient
from influxdb_client.rest import ApiException
from influxdb_client.service.write_service import WriteService
from urllib3.exceptions import HTTPError

from llmload.sinks.influx_target import InfluxTarget

TIMEOUT_S = 30.0
"""For the answer to one write: an InfluxDB that takes 10 s for a batch is slow, not gone."""
LONGEST_RETRY_AFTER_S = 300.0
"""Whatever `Retry-After` says: the window of InfluxDB Cloud's quotas."""
GZIP_LEVEL = 1
"""Lines repeat their tags, so that the fastest level already makes a tenth of them."""

Why = Literal["unreachable", "refused", "missing", "rejected", "too_large", "busy"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a write did not succeed: `rejected` and `too_large` are about the lines, the rest about the server."""

    why: Why
    text: str
    retry_after_s: float | None = None

    @property
    def is_about_lines(self) -> bool:
        return self.why in ("rejected", "too_large")


class InfluxWriter:
    """Writes lines to one bucket. Used by one greenlet at a time."""

    def __init__(self, target: InfluxTarget, *, timeout_s: float = TIMEOUT_S) -> None:
        self._target = target
        self._client = InfluxDBClient(
            target.url, target.token or None, org=target.org, timeout=round(timeout_s * 1000), proxy=_proxy(target.url)
        )
        self._service = WriteService(self._client.api_client)

    def write(self, lines: Sequence[bytes]) -> Trouble | None:
        """Write lines; return what went wrong, or None where all of them are stored."""
        try:
            self._service.post_write(
                self._target.org,
                self._target.bucket,
                _gzip(b"\n".join(lines)),
                precision="ns",
                content_encoding="gzip",
            )
        except ApiException as error:
            return self._trouble(error)
        except (HTTPError, OSError) as error:
            return Trouble("unreachable", self._clean(_cause(error)))
        return None

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _trouble(self, error: ApiException) -> Trouble:
        status = int(error.status or 0)
        text = self._clean(f"{status} {_said(error)}".strip())
        if status in (400, 422):
            return Trouble("rejected", text)
        if status == 413:
            return Trouble("too_large", text)
        if status in (401, 403):
            return Trouble("refused", text)
        return Trouble("missing" if status == 404 else "busy", text, retry_after_s(error))

    def _clean(self, text: str) -> str:
        return self._target.redactor.clean(text)


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return packer.compress(data) + packer.flush()


def _said(error: ApiException) -> str:
    """The message of the server: `message` of a JSON object (2.x), `error` (1.x, 3), else text that is no web page."""
    body = error.body or b""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    with contextlib.suppress(ValueError):
        said = json.loads(text)
        text = str(said.get("message") or said.get("error") or text) if isinstance(said, dict) else text
    return str(error.reason or "") if not text or text.lstrip().startswith("<") else text


def retry_after_s(error: ApiException) -> float | None:
    """Return in how many seconds the server wants to be asked again, None where it does not say.

    `Retry-After` is seconds or a date (RFC 9110, 10.2.3); a date is held against the server's own clock, its `Date`.
    """
    names = {str(name).lower(): str(value).strip() for name, value in dict(error.headers or {}).items()}
    value = names.get("retry-after", "")  # proxies write it small
    if value.isascii() and value.isdecimal():
        seconds = float(value)
    elif (until := _date(value)) is not None:
        seconds = (until - (_date(names.get("date", "")) or datetime.now(UTC))).total_seconds()
    else:
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _cause(error: Exception) -> str:
    """The short end of urllib3's long sentences."""
    inner = getattr(error, "reason", None) or error.__cause__ or error
    return str(inner).rpartition(">: ")[2] or type(inner).__name__


def _proxy(url: str) -> str | None:
    """The proxy of the environment, but never for this machine (CFG-02)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host == "localhost" or host.startswith("127.") or host == "::1" or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)

"""Where InfluxDB is, from the environment. No network, no clock.

`INFLUXDB_URL`, `INFLUXDB_TOKEN`, `INFLUXDB_ORG` and `INFLUXDB_BUCKET`; the client's own names `INFLUXDB_V2_URL` and so
on stand in where those are not set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from llmload.errors import SetupError
from llmload.redaction import Redactor

DEFAULT_BUCKET = "llmload"
DEFAULT_ORG = "llmload"


@dataclass(frozen=True, slots=True)
class InfluxTarget:
    """One bucket. InfluxDB 1.8 takes `database` or `database/policy` as bucket and `user:password` as token; it and 3
    Core ignore the organisation."""

    url: str
    token: str = field(default="", repr=False)
    org: str = DEFAULT_ORG
    bucket: str = DEFAULT_BUCKET

    @property
    def shown(self) -> str:
        """What may be shown of it."""
        return f"{self.url}, bucket {self.bucket}"

    @property
    def redactor(self) -> Redactor:
        """Knows the token, and the parts of one that is user and password."""
        return Redactor([self.token, *self.token.split(":", 1)[1:]])


def read_influx(environ: Mapping[str, str]) -> InfluxTarget | None:
    """Return where InfluxDB is; None where no URL is given.

    Raises:
        SetupError: a variable makes no sense.
    """
    found = {name: _given(environ, name) for name in ("URL", "TOKEN", "ORG", "BUCKET")}
    url = found["URL"].rstrip("/")
    if not url:
        return None
    for name, value in found.items():
        if re.fullmatch(r"\$\{?\w+\}?|\$\(.*\)|%\w+%|<.*>", value):
            raise SetupError(f"INFLUXDB_{name} is the literal text {value!r}", "it was never expanded")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"INFLUXDB_URL {_without_user(url)!r} is no address", "write e.g. http://localhost:8086")
    if "@" in parts.netloc or parts.query:
        raise SetupError(
            f"INFLUXDB_URL {_without_user(url)} holds more than an address", "put secrets in INFLUXDB_TOKEN"
        )
    if not found["TOKEN"].isascii() or not found["TOKEN"].isprintable() or " " in found["TOKEN"]:
        raise SetupError("INFLUXDB_TOKEN holds white space or characters outside ASCII", "copy the token again")
    return InfluxTarget(url, found["TOKEN"], found["ORG"] or DEFAULT_ORG, found["BUCKET"] or DEFAULT_BUCKET)


def _given(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(f"INFLUXDB_{name}") or environ.get(f"INFLUXDB_V2_{name}") or "").strip()


def _without_user(url: str) -> str:
    return re.sub(r"(?<=://)[^/@]*@", "", url.partition("?")[0])

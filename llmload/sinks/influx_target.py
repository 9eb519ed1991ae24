"""Where InfluxDB is, from the environment. No network, no clock.

`INFLUXDB_URL` and `INFLUXDB_BUCKET`, `INFLUXDB_TOKEN` and `INFLUXDB_ORG` where the server wants them; the client's own
names `INFLUXDB_V2_URL` and so on stand in where those are not set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from llmload.errors import SetupError
from llmload.redaction import Redactor

PREFIX, CLIENTS_PREFIX = "INFLUXDB_", "INFLUXDB_V2_"
EXAMPLE = "http://localhost:8086"


@dataclass(frozen=True, slots=True)
class InfluxTarget:
    """One bucket. InfluxDB 1.8 takes `database` or `database/policy` as bucket and `user:password` as token; it and 3
    Core ignore the organisation, which 2.x wants. `prefix` is that of the variables that a person has set."""

    url: str
    bucket: str
    token: str = field(default="", repr=False)
    org: str = ""
    prefix: str = PREFIX

    @property
    def shown(self) -> str:
        """What may be shown of it."""
        return f"{self.url}, bucket {self.bucket}"

    @property
    def redactor(self) -> Redactor:
        """Knows the token, and the parts of one that is user and password."""
        return Redactor([self.token, *self.token.split(":", 1)[1:]])


def read_influx(environ: Mapping[str, str]) -> InfluxTarget | None:
    """Return where InfluxDB is; None where no variable is set.

    Raises:
        SetupError: a variable makes no sense, or one is missing.
    """
    given = {part: _given(environ, part) for part in ("URL", "TOKEN", "BUCKET", "ORG")}
    names = {part: name for part, (name, value) in given.items() if value}
    if not names:
        return None
    if "URL" not in names:
        hint = f"set it, e.g. to {EXAMPLE}, or unset the rest to run without InfluxDB"
        raise SetupError(f"INFLUXDB_URL is not set but {' and '.join(names.values())}", hint)
    for name, value in given.values():
        if re.fullmatch(r"\$\{?\w+\}?|\$\(.*\)|%\w+%|<.*>", value):
            raise SetupError(f"{name} is the literal text {value!r}", "it was never expanded")
    url = _address(names["URL"], given["URL"][1].rstrip("/"))
    prefix = names["URL"].removesuffix("URL")
    if "BUCKET" not in names:
        hint = "set it to the bucket, of InfluxDB 1.8 and 3 to the database, e.g. llmload"
        raise SetupError(f"{prefix}BUCKET is not set but {names['URL']}", hint)
    name, token = given["TOKEN"]
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SetupError(f"{name} holds white space or characters outside ASCII", "copy the token again")
    return InfluxTarget(url, given["BUCKET"][1], token, given["ORG"][1], prefix)


def _address(name: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"{name} {_without_user(url)!r} is no address", f"write e.g. {EXAMPLE}")
    if "@" in parts.netloc or parts.query:
        secret = name.removesuffix("URL") + "TOKEN"
        raise SetupError(f"{name} {_without_user(url)} holds more than an address", f"put secrets in {secret}")
    return url


def _given(environ: Mapping[str, str], part: str) -> tuple[str, str]:
    """Return the name and the value of a variable; the client's own name stands in where ours is not set."""
    found = {name: environ.get(name, "").strip() for name in (PREFIX + part, CLIENTS_PREFIX + part)}
    return next(((name, value) for name, value in found.items() if value), (PREFIX + part, ""))


def _without_user(url: str) -> str:
    return re.sub(r"(?<=://)[^/@]*@", "", url.partition("?")[0])

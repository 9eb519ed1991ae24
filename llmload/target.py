"""The one URL that is called, whatever form of it a person typed.

No I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from llmload.errors import SetupError
from llmload.redaction import shown_url


@dataclass(frozen=True, slots=True)
class Target:
    """The one URL that is called, and what was taken out of it because it is secret.

    `url` holds no user name and no password: they are in `auth`. Query parameters stay; `shown` hides them.
    """

    url: str
    base_url: str
    auth: tuple[str, str] | None = None

    @property
    def shown(self) -> str:
        """The URL as it may be printed."""
        return shown_url(self.url)

    @property
    def secrets(self) -> list[str]:
        """What must not be printed: user name, password, query values that are not harmless."""
        values = {value for _, value in parse_qsl(urlsplit(self.url).query)}
        public = {value for _, value in parse_qsl(urlsplit(self.shown).query)}
        return [*(self.auth or ()), *sorted(values - public)]

    def at(self, path: str) -> str:
        """Return the URL of another path of the same API, e.g. `/models`."""
        parts = urlsplit(self.base_url)
        return urlunsplit(parts._replace(path=parts.path + path))

    @classmethod
    def parse(cls, host: str | None, *, path: str) -> Target:
        """Return the target for what a person typed as `--host`.

        >>> Target.parse("http://h:8000/v1/", path="/chat/completions").url
        'http://h:8000/v1/chat/completions'

        Args:
            host: `http://h:8000`, with or without `/v1`, a trailing slash, the full path, a query.
            path: the protocol's own path below the API's root, e.g. `/chat/completions`.

        Raises:
            SetupError: nothing was given, or it is no http(s) URL.
        """
        host = (host or "").strip()
        if not host:
            raise SetupError("--host is missing", "give the server, e.g. --host http://127.0.0.1:8000")
        try:
            parts = urlsplit(host)
            port = parts.port
        except ValueError:
            raise SetupError(
                "--host has a port or an address that is none", "write e.g. http://127.0.0.1:8000"
            ) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            bare = shown_url("//" + host.split("://")[-1]).removeprefix("//")
            raise SetupError(f"--host {bare!r} is not an http or https URL", f"write http://{bare} or https://{bare}")
        auth = (unquote(parts.username or ""), unquote(parts.password or "")) if "@" in parts.netloc else None
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        clean = parts._replace(netloc=name if port is None else f"{name}:{port}", fragment="")
        root = re.sub(r"/{2,}", "/", clean.path).rstrip("/").removesuffix(path) or "/v1"
        return cls(
            url=urlunsplit(clean._replace(path=root + path)),
            base_url=urlunsplit(clean._replace(path=root)),
            auth=auth,
        )

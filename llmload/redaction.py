"""Keeping secrets out of everything that is written or shown.

No I/O. One `Redactor` a process learns the secrets (key, header values, parts of the URL) and cleans every
message on its way to a log, a record, a report or the web page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

MESSAGE_CHARS = 300
HIDDEN = "***"
_PUBLIC_QUERY = frozenset({"api-version", "alt", "version"})
_PUBLIC_HEADERS = frozenset({"accept", "content-type", "user-agent", "x-request-id"})
_SECRET_NAME = re.compile(r"(?i)key|token$|secret|password|auth|credential")
_PATTERNS = (
    re.compile(r"(?i)\b(bearer|basic|token)\s+[\w.~+/=-]{6,}"),
    re.compile(r"\b(sk|pk|rk|gsk|hf|xai)[-_][\w-]{6,}"),
    re.compile(r"(?<=://)[^/\s@]+@"),
    re.compile(r"(?i)(?<=[?&])((?:api[-_]?)?key|token|secret|sig|signature|password)=[^&\s\"']+"),
)


class Redactor:
    """Replaces known secrets, and whatever looks like one, by `***`.

    >>> Redactor(["s3cret"]).clean("no s3cret,\\n Bearer abcdef123")
    'no ***, ***'
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # longest first, so that a secret inside a longer one does not leave a rest behind
        forms = {form for secret in secrets if len(secret) >= 4 for form in (secret, quote(secret, safe=""))}
        self._known = sorted(forms, key=len, reverse=True)

    def clean(self, text: str, *, limit: int = MESSAGE_CHARS) -> str:
        """Return `text` on one line without secrets, at most `limit` characters long."""
        # cut before the patterns run (a body may be megabytes), but never through a secret
        text = text[: limit * 4]
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        text = self._without_cut_secret(text)
        for pattern in _PATTERNS:
            text = pattern.sub(HIDDEN, text)
        text = " ".join(text.split())
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def _without_cut_secret(self, text: str) -> str:
        """Hide the beginning of a secret that whoever cut the text (a body's limit, we) left at its end."""
        end = text.rstrip("…")
        for secret in self._known:
            for kept in range(min(len(secret) - 1, len(end)), 2, -1):
                if end.endswith(secret[:kept]):
                    return end[:-kept] + HIDDEN
        return text


def shown_url(url: str) -> str:
    """Return a URL that may be shown: no user name, no password, and only harmless query values."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = [(key, value if key in _PUBLIC_QUERY else HIDDEN) for key, value in parse_qsl(parts.query)]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query, safe="*"), ""))


def has_secrets(url: str) -> bool:
    """Whether `shown_url` would hide something of this URL."""
    parts = urlsplit(url)
    hidden = (value for key, value in parse_qsl(parts.query) if key not in _PUBLIC_QUERY)
    return "@" in parts.netloc or any(value != HIDDEN for value in hidden)


def shown_body(value: Any, name: str = "") -> Any:
    """Return a JSON value with the strings hidden that stand under names such as `api_key` or `token`."""
    if isinstance(value, Mapping):
        return {key: shown_body(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [shown_body(inner, name) for inner in value]
    return HIDDEN if isinstance(value, str) and _SECRET_NAME.search(name) else value


def secret_values(value: Any, name: str = "") -> list[str]:
    """Return the strings that `shown_body` hides."""
    if isinstance(value, Mapping):
        return [secret for key, inner in value.items() for secret in secret_values(inner, str(key))]
    if isinstance(value, list):
        return [secret for inner in value for secret in secret_values(inner, name)]
    return [value] if isinstance(value, str) and _SECRET_NAME.search(name) else []


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers whose values may be shown; all but a few well-known ones are hidden."""
    return {name: value if name.lower() in _PUBLIC_HEADERS else HIDDEN for name, value in headers.items()}

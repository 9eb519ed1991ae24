"""The settings of a run: typed, checked, and the same from a command line, a variable or the web form.

No I/O. Everything arrives as text or as what a parser made of it; everything wrong is one `SetupError` that names
the option, its value and what to write instead.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from llmload.errors import SetupError
from llmload.redaction import Redactor, secret_values, shown_body, shown_headers
from llmload.target import Target

KEY_VARIABLES = ("LLMLOAD_API_KEY", "OPENAI_API_KEY")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long one request may take, seconds by the monotonic clock; None is no limit.

    `connect_s` ends when the request is on its way, `first_token_s` at the first token, `idle_s` bounds the gap
    between two events with content (comments and pings do not count), `total_s` bounds everything.
    """

    connect_s: float | None = 10.0
    first_token_s: float | None = 120.0
    idle_s: float | None = 60.0
    total_s: float | None = 600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What one run is asked to do. Built by `read_settings`; the key and `headers` values are secret."""

    model: str
    max_tokens: int | None = 128
    temperature: float | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    api_key: str | None = field(default=None, repr=False)
    stream: bool = True
    ask_usage: bool = True
    max_tokens_field: str = "max_tokens"
    prompts: str | None = None
    unique_prompts: str = "auto"
    """When a prompt gets a nonce; `auto`: those of the shipped set when they come again, those of a file never."""
    seed: int = 1
    think_time: str = "0"
    deadlines: Deadlines = Deadlines()
    run_dir: str = "runs"
    http2: bool = False
    reuse_connections: bool = True
    unix_socket: str | None = None
    ca_file: str | None = None
    insecure: bool = False
    probe: bool = True
    abort_after: int = 100

    def redactor(self, target: Target) -> Redactor:
        """Return the redactor that knows every secret of this run."""
        hidden = [value for name, value in self.headers.items() if shown_headers({name: value})[name] != value]
        return Redactor(
            [
                self.api_key or "",
                *target.secrets,
                *hidden,
                *(part for value in hidden for part in value.split()),
                *secret_values(self.extra_body),
            ]
        )

    def shown(self) -> dict[str, Any]:
        """Return the settings as they may be written to a record: no key, no header values."""
        return {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "extra_body": shown_body(self.extra_body),
            "headers": shown_headers(self.headers),
            "api_key": self.api_key is not None,
            "stream": self.stream,
            "ask_usage": self.ask_usage,
            "max_tokens_field": self.max_tokens_field,
            "prompts": self.prompts,
            "unique_prompts": self.unique_prompts,
            "seed": self.seed,
            "think_time": self.think_time,
            "http2": self.http2,
            "reuse_connections": self.reuse_connections,
            "unix_socket": self.unix_socket,
            "ca_file": self.ca_file,
            "insecure": self.insecure,
            "timeout_connect_s": self.deadlines.connect_s,
            "timeout_first_token_s": self.deadlines.first_token_s,
            "timeout_idle_s": self.deadlines.idle_s,
            "timeout_total_s": self.deadlines.total_s,
            "abort_after": self.abort_after,
        }


def read_settings(options: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Return the checked settings.

    Args:
        options: option values by name (`max_tokens`), as text or as a parser left them.
        environ: environment variables; only the key is taken from here.

    Raises:
        SetupError: an option is missing or makes no sense.
    """
    model = text_of(options, "model")
    if not model:
        raise SetupError("--model is missing", "give the name that the server knows, e.g. --model llama-3.1-8b")
    return Settings(
        model=model,
        max_tokens=integer(options, "max_tokens", low=0) or None,
        temperature=number(options, "temperature", low=0, high=10),
        extra_body=_json_object(options, "extra_body"),
        headers=_headers(options.get("header")),
        api_key=api_key(environ),
        stream=_switch(options, "stream", default=True),
        ask_usage=_switch(options, "usage", default=True),
        max_tokens_field=choice(options, "max_tokens_field", ("max_tokens", "max_completion_tokens")),
        prompts=text_of(options, "prompts"),
        unique_prompts=choice(options, "unique_prompts", ("auto", "always", "repeats", "never")),
        seed=integer(options, "seed", low=0, high=2**63) or 0,
        think_time=text_of(options, "think_time") or "0",
        deadlines=Deadlines(
            connect_s=duration_s(options, "timeout_connect"),
            first_token_s=duration_s(options, "timeout_first_token"),
            idle_s=duration_s(options, "timeout_idle"),
            total_s=duration_s(options, "timeout_total"),
        ),
        run_dir=text_of(options, "run_dir") or "runs",
        http2=_switch(options, "http2", default=False),
        reuse_connections=_switch(options, "reuse_connections", default=True),
        unix_socket=text_of(options, "unix_socket"),
        ca_file=text_of(options, "ca_file"),
        insecure=_switch(options, "insecure", default=False),
        probe=_switch(options, "probe", default=True),
        abort_after=integer(options, "abort_after", low=0) or 0,
    )


def api_key(environ: Mapping[str, str]) -> str | None:
    """Return the API key from the first variable that is set, or None.

    Raises:
        SetupError: the variable holds what cannot be a key (an unexpanded `${VAR}`, white space).
    """
    for name in KEY_VARIABLES:
        key = environ.get(name, "").strip()
        if not key:
            continue
        if re.fullmatch(r"\$\{?\w+\}?|\$\(.*\)|%\w+%|<.*>", key):
            raise SetupError(f"{name} is the literal text {key!r}", "it was never expanded: export the key itself")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise SetupError(f"{name} holds white space or characters outside ASCII", "copy the key again")
        return key
    return None


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names with the ones most like `name` first."""
    known = list(dict.fromkeys(known))
    close = get_close_matches(name, known, n=len(known) or 1, cutoff=0.4)
    return close + [other for other in known if other not in close]


def duration_s(options: Mapping[str, Any], name: str) -> float | None:
    """Return an option such as `500ms`, `30s` or `2m` in seconds; None for 0, which means no limit."""
    text = text_of(options, name)
    if text is None:
        return None
    match = _DURATION.fullmatch(text.lower())
    if match is None:
        raise SetupError(f"{_flag(name)} {text!r} is not a duration", "write e.g. 500ms, 30s, 2m, or 0 for no limit")
    return float(match[1]) * _SECONDS[match[2]] or None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def text_of(options: Mapping[str, Any], name: str) -> str | None:
    """Return an option's text without white space around it; None where nothing is left."""
    value = options.get(name)
    return None if value is None or str(value).strip() == "" else str(value).strip()


def number(options: Mapping[str, Any], name: str, *, low: float, high: float, example: str = "0.7") -> float | None:
    """Return an option that is a number; None where it is not given."""
    text = text_of(options, name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise SetupError(f"{_flag(name)} {text!r} is not a number from {low:g} to {high:g}", f"write e.g. {example}")
    return value


def integer(options: Mapping[str, Any], name: str, *, low: int, high: int = 10**9) -> int | None:
    """Return an option that is a whole number; None where it is not given."""
    text = text_of(options, name)
    if text is None:
        return None
    if not re.fullmatch(r"-?\d{1,20}", text, re.ASCII) or not low <= int(text) <= high:
        raise SetupError(f"{_flag(name)} {text!r} is not a whole number from {low} to {high}", "write e.g. 128")
    return int(text)


def _switch(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = options.get(name)
    if value is None or isinstance(value, bool):
        return default if value is None else value
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }
    if str(value).lower() not in words:
        raise SetupError(f"{_flag(name)} {value!r} is neither yes nor no", "write true or false")
    return words[str(value).lower()]


def choice(options: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    """Return an option that is one of a few words; the first where it is not given."""
    text = text_of(options, name) or known[0]
    if text not in known:
        raise SetupError(f"{_flag(name)} {text!r} is unknown", f"use one of {', '.join(nearest(text, known))}")
    return text


def _json_object(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    text = text_of(options, name)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SetupError(f"{_flag(name)} is not JSON ({error})", """write e.g. '{"top_p": 0.9}'""") from None
    if not isinstance(value, dict):
        raise SetupError(f"{_flag(name)} is JSON but not an object", """write e.g. '{"top_p": 0.9}'""")
    return value


def _headers(lines: Any) -> dict[str, str]:
    if isinstance(lines, str):
        lines = lines.split("\n")
    headers = {}
    for line in lines or ():
        if not str(line).strip():
            continue
        name, colon, value = str(line).partition(":")
        name, value = name.strip(), value.strip()
        if name.lower() in ("content-length", "transfer-encoding", "connection"):
            raise SetupError(f"--header {name!r} is not yours to set", "the client computes it")
        if (
            not colon
            or not value.isprintable()
            or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
            or not value.isascii()
        ):
            # the value may be a secret: name only what stands before the colon
            raise SetupError(f"--header {name[:40]!r} is not a header", "write it as 'Name: value'")
        if re.fullmatch(r".*\$\{\w+\}.*", value):
            raise SetupError(
                f"--header {name!r} holds an unexpanded variable",
                "let the shell expand it: use double quotes",
            )
        headers[name] = value
    return headers

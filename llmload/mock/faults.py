"""What a server can do wrong, and how a person asks for it.

No I/O; the random source is passed in. One grammar for the option and for the request header:

    --fault NAME[=PROBABILITY][:KEY=VALUE]...                     repeatable
    X-Mock-Fault: NAME[=PROBABILITY][:KEY=VALUE]..., NAME...      this request only

The probability is 1 if it is left out. Every fault is drawn on its own, so one request can meet several.
A fault that refuses the request comes before one that breaks the answer; of two alike the first in `FAULTS`
wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from llmload.errors import SetupError

Value = float | str | None
Default = float | str | None | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a fault does, and its parameters: a number or None (a number without default), text, or a choice."""

    meaning: str
    params: Mapping[str, Default] = field(default_factory=dict)


FAULTS: Mapping[str, Kind] = {
    # Refuse: no answer at all, and no slot is taken.
    "http_NNN": Kind("status NNN, 400 to 599; 429 and 503 say Retry-After: 1 by default", {"retry_after": None}),
    "redirect": Kind(
        "a redirect to where the answer is",
        {"status": ("307", "301", "302", "303", "308"), "to": "/redirected/v1/chat/completions"},
    ),
    "reject_stream_options": Kind("400 for a request that has stream_options"),
    "silent_close": Kind("the request is read, the connection closed (reset=1: with RST)", {"reset": 0.0}),
    "never": Kind("the request is read, then nothing"),
    "html": Kind("200 and a page in HTML"),
    "json": Kind("200 and the answer as one JSON object, also to a request for a stream"),
    # Break: the answer stops after `after` tokens, by default after half of them.
    "cut": Kind(
        "the connection is closed, ended cleanly without finish and [DONE], or reset (mid=1: in an event)",
        {"after": None, "how": ("close", "clean", "reset"), "mid": 0.0},
    ),
    "error": Kind(
        "an error inside the 200 stream: as data, as event: error, as finish reason (done=1: then [DONE])",
        {"after": None, "style": ("data", "event", "finish"), "done": 0.0},
    ),
    "stall": Kind("silence, without seconds for ever", {"after": None, "seconds": None}),
    "content_filter": Kind("finish reason content_filter", {"after": None}),
    # Shape: the answer is complete but looks different.
    "empty": Kind("finish without a token"),
    "keepalive": Kind(
        "comments for so many seconds, then what is due; without seconds comments for ever",
        {"every_ms": 100.0, "seconds": None},
    ),
    "role_early": Kind("the role chunk right after the headers, not with the first token"),
    "late_headers": Kind("headers together with the first event"),
    "batch": Kind("several tokens in one event", {"size": 4.0}),
    "coalesce": Kind("several events in one write", {"size": 4.0}),
    "buffer": Kind("the whole body in one write at the end"),
    "gzip": Kind("compressed, flushed after every event"),
    "no_usage": Kind("no usage, also if asked for"),
    "usage_null_after": Kind("one more chunk after the usage, whose usage is null"),
    "no_done": Kind("the stream ends properly but without [DONE]"),
    "hold_open": Kind("[DONE], and the response is not ended, without seconds for ever", {"seconds": None}),
}

REFUSALS = ("redirect", "reject_stream_options", "silent_close", "never", "html", "json")
BREAKS = ("cut", "error", "stall", "content_filter")

_STATUS = re.compile(r"http_([45]\d\d)")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault with its probability and all its parameters."""

    name: str
    probability: float = 1.0
    params: Mapping[str, Value] = field(default_factory=dict)
    text: str = ""

    @property
    def status(self) -> int | None:
        """The HTTP status of an `http_NNN` fault, else None."""
        match = _STATUS.fullmatch(self.name)
        return int(match[1]) if match else None

    def number(self, key: str) -> float | None:
        """The number parameter `key`, None if it is not set."""
        value = self.params[key]
        return None if value is None else float(value)

    def after(self, tokens: int) -> int:
        """How many of `tokens` are sent before the fault strikes."""
        after = self.number("after")
        return tokens // 2 if after is None else min(int(after), tokens)


def parse_fault(text: str, where: str) -> Fault:
    """Parse one fault; `where` names the option or header for the error.

    Raises:
        SetupError: an unknown fault or parameter, or a value out of range.
    """
    head, *pairs = text.strip().split(":")
    name, _, chance = head.partition("=")
    name = name.strip()
    kind = FAULTS.get("http_NNN" if _STATUS.fullmatch(name) else name)
    if kind is None or name == "http_NNN":
        raise SetupError(f"{where}: no fault is called {name!r}", f"choose from {', '.join(FAULTS)}")
    defaults = kind.params
    params: dict[str, Value] = {k: v[0] if isinstance(v, tuple) else v for k, v in defaults.items()}
    for pair in pairs:
        key, _, value = pair.partition("=")
        key = key.strip()
        if key not in defaults:
            known = ", ".join(defaults) or "none"
            raise SetupError(f"{where}: {name} has no parameter {key!r}", f"its parameters: {known}")
        params[key] = _value(value.strip(), defaults[key], f"{where}: {name}:{key}")
    probability = _number(chance, f"{where}: {name}", top=1.0) if chance else 1.0
    return Fault(name, probability, params, text.strip())


def parse_faults(text: str, where: str) -> tuple[Fault, ...]:
    """Parse a comma-separated list, as in the request header; empty text gives no fault."""
    return tuple(parse_fault(part, where) for part in text.split(",") if part.strip())


def draw_faults(faults: Iterable[Fault], rng: Random) -> dict[str, Fault]:
    """The faults that strike this time, by name; of two with one name the later one counts."""
    return {fault.name: fault for fault in faults if rng.random() < fault.probability}


def _value(text: str, default: Default, where: str) -> Value:
    if isinstance(default, tuple):
        if text not in default:
            raise SetupError(f"{where}: {text!r} is unknown", f"choose from {', '.join(default)}")
        return text
    return text if isinstance(default, str) else _number(text, where, top=1e9)


def _number(text: str, where: str, *, top: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= top:  # also refuses nan
        raise SetupError(f"{where}: {text!r} is not a number from 0 to {top:g}", "correct the number")
    return number

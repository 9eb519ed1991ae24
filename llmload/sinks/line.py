"""InfluxDB's line protocol: one point, one line. No network, no clock.

https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/. Written here and not by a client library, since
the types must be exact (0 as a float is `0.0`, not `0i`), and since a master writes thousands of lines a second.
"""

from __future__ import annotations

from functools import lru_cache

from llmload.sinks.points import Point, Value

MAX_TAG_CHARS = 12_000
MAX_TEXT_CHARS = 16_000
"""InfluxDB refuses a series key, and a string, beyond 64 KiB; a character has up to 4 bytes."""

_TAG = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ "})
_TEXT = str.maketrans({'"': r"\"", "\\": r"\\"})
_BREAKS = str.maketrans(dict.fromkeys((*range(32), 127), " "))


def to_line(point: Point) -> bytes | None:
    """Return a point as a line without its line end; None where no field is left, which is no line (INF-08).

    Text arrives as it is in fields, line breaks included. In a tag line breaks and other control characters become
    spaces, and a backslash at its end is taken off: the protocol has no way to write them (INF-06).
    """
    if not point.fields:
        return None
    fields = ",".join([f"{name}={_field(value)}" for name, value in point.fields.items()])
    line = f"{_head(point.measurement, tuple(point.tags.items()))} {fields} {point.time_ns}"
    return line.encode("utf-8", "replace")  # a lone surrogate has no UTF-8


@lru_cache(maxsize=4096)
def _head(measurement: str, tags: tuple[tuple[str, str], ...]) -> str:
    """The series: there are few of them, with many points each."""
    return measurement + "".join(_tag(name, value) for name, value in sorted(tags))


def _tag(name: str, value: str) -> str:
    value = value[:MAX_TAG_CHARS].translate(_BREAKS).strip().rstrip("\\")
    return f",{name}={value.translate(_TAG)}" if value else ""


def _field(value: Value) -> str:
    kind = type(value)
    if kind is float:
        return repr(value)
    if kind is int:
        return f"{value}i"
    if isinstance(value, str):
        return f'"{value[:MAX_TEXT_CHARS].translate(_TEXT)}"'
    return "true" if value else "false"

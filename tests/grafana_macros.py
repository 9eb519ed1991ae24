"""What Grafana puts into a query before InfluxDB sees it: macros and variables, as its documentation says.

* `$timeFilter` → `time >= 123ms and time <= 456ms`
* `$__interval` → the bucket's length, e.g. `2s`; `$__interval_ms` → the same in ms, e.g. `2000`
* `${name:regex}` → the value escaped for a regular expression, several as `(a|b)`; a custom "All" as it is

Other formats are not known here: none but `regex` leaves every value whole in InfluxQL.
"""

import re

ALL = "$__all"
_ESCAPED = re.compile(r"[\\^$*+?.()|\[\]{}/]")


def bucket_ms(from_ms, to_ms, *, points=1000, shortest_ms=1000):
    """Return the length of a bucket: the range over the panel's points, rounded, never below the minimum interval."""
    wanted = (to_ms - from_ms) / points
    nice = (1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000)
    return max(shortest_ms, min((one for one in nice if one >= wanted), default=nice[-1]))


def substitute(text, values, *, from_ms, to_ms, interval_ms=None):
    """Return a query as InfluxDB gets it.

    Args:
        values: variable → a value, a list of values, or `ALL` with its custom value as `(ALL, custom)`.
        from_ms, to_ms: the time range, unix ms.
        interval_ms: length of a bucket; worked out from the range when None.
    """
    interval_ms = interval_ms or bucket_ms(from_ms, to_ms)
    text = text.replace("$timeFilter", f"time >= {from_ms}ms and time <= {to_ms}ms")
    text = text.replace("$__interval_ms", str(interval_ms)).replace("$__interval", f"{interval_ms}ms")
    return re.sub(r"\$\{(\w+):regex\}", lambda match: _as_regex(values[match[1]]), text)


def _as_regex(value):
    if isinstance(value, tuple):
        return value[1]  # the custom value of "All" is never escaped
    escaped = [_ESCAPED.sub(r"\\\g<0>", one) for one in (value if isinstance(value, list) else [value])]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"

"""What became of the numbers beside the record, as lines of the text report, each as (head, text).

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def sink_lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield one line for each sink but the record; that speaks for itself."""
    for name, counts in sorted((summary.get("sinks") or {}).items()):
        if name == "record" or "retried" not in counts:
            continue
        text = f"{counts['written']:,} points written"
        if counts["retried"]:
            text += f", {counts['retried']:,} retried"
            text += "" if counts["dropped"] else f" ({counts['error']})"
        if counts["dropped"]:
            text += f", {counts['dropped']:,} NOT WRITTEN ({counts['error']}): llmload push sends them from the record"
        yield f"{name}: ", text

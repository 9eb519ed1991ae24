"""The arrivals of an open loop as lines of the text report. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmload.metrics.arrivals import WHY_NOT


def arrival_lines(arrivals: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield what was offered, sent and not sent, as (head, text); nothing for a closed loop."""
    if arrivals is None:
        return
    yield "open loop: ", f"{_model(arrivals)}; latency counts from the intended start"
    counts = [
        ("planned", None, arrivals["planned_rate"]),
        ("offered", arrivals["offered"], arrivals["offered_rate"]),
        ("sent", arrivals["achieved"], arrivals["achieved_rate"]),
    ]
    shown = [
        (f"{count:,} " if count is not None else "") + f"{name} ({rate:.2f}/s)"
        for name, count, rate in counts
        if rate is not None
    ]
    window = f" in {arrivals['seconds']:.1f} s" if arrivals["seconds"] else ""
    yield f"arrivals{window}: ", ", ".join([*shown, _not_sent(arrivals)])


def _model(arrivals: Mapping[str, Any]) -> str:
    trace = arrivals["trace"]
    if trace:
        return f"a {trace['kind']} trace of {trace['requests']:,} requests in {trace['seconds']:.1f} s"
    shape = f" of burstiness {arrivals['burstiness']:g}" if arrivals["burstiness"] is not None else ""
    return f"{arrivals['model']} arrivals{shape}"


def _not_sent(arrivals: Mapping[str, Any]) -> str:
    why = "; ".join(f"{count}: {WHY_NOT.get(reason, reason)}" for reason, count in arrivals["not_sent_why"].items())
    return f"{arrivals['not_sent']:,} not sent" + (f" ({why})" if why else "")

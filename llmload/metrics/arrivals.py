"""The arrivals of an open loop: what was offered, what was sent, and what was not, over all processes of a run.

No I/O, no clock. Every arrival that came due is either sent or not sent, so offered = sent + not sent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

WHY_NOT = {
    "cap": "--max-in-flight was reached",
    "late": "this client had not come to them when the load stopped",
    "task": "their task sent no request",
}
"""Why an arrival was not sent."""

ANSWERED_SHARE = 0.9
"""A server that answers a smaller share of what is offered is falling behind."""


def merged(reports: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Return the arrivals of a run from the last report of each of its processes; None where none is open.

    `offered`, `sent` and `not_sent` (by reason) are counts, `planned` how many were to be expected of the rate,
    `seconds` for how long there were arrivals, `rate` the offered rate now, requests per second.
    """
    known = [report for report in reports if report is not None]
    if not known:
        return None
    why: Counter[str] = Counter()
    for report in known:
        why.update(report["not_sent"])
    return {
        "offered": sum(report["offered"] for report in known),
        "sent": sum(report["sent"] for report in known),
        "not_sent": dict(sorted(why.items())),
        "planned": _sum(report["planned"] for report in known),
        "rate": _sum(report["rate"] for report in known),
        "seconds": max(report["seconds"] for report in known),
    }


def summarise_arrivals(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the section `arrivals` of a summary; None for a closed loop.

    Args:
        run: content of `run.json`; read here: `arrivals`, as `merged` returns it, `arrival_settings` and `trace`.
    """
    counts = run.get("arrivals")
    if counts is None:
        return None
    settings = run.get("arrival_settings") or {}
    seconds = counts["seconds"] or None
    trace = run.get("trace")
    return {
        "model": "trace" if trace else settings.get("arrival") or "poisson",
        "burstiness": settings.get("burstiness"),
        "max_in_flight": settings.get("max_in_flight"),
        "seconds": seconds,
        "planned_rate": counts["planned"] / seconds if seconds and counts["planned"] is not None else None,
        "offered": counts["offered"],
        "offered_rate": counts["offered"] / seconds if seconds else None,
        "achieved": counts["sent"],
        "achieved_rate": counts["sent"] / seconds if seconds else None,
        "not_sent": sum(counts["not_sent"].values()),
        "not_sent_why": counts["not_sent"],
        "trace": trace,
    }


def arrival_caveats(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence per doubt about the arrivals of a summary."""
    arrivals = summary["arrivals"]
    if arrivals is None:
        return
    for reason, count in arrivals["not_sent_why"].items():
        share = count / arrivals["offered"]
        yield f"{count} of {arrivals['offered']} arrivals ({share:.1%}) were not sent: {WHY_NOT.get(reason, reason)}."
    trace = arrivals["trace"]
    if trace and (missing := trace["requests"] - arrivals["offered"]) > 0:
        yield f"{missing} of {trace['requests']} requests of the trace were not replayed."
    if not trace:
        yield from _falls_behind(arrivals, summary["throughput"]["steady"])


def _falls_behind(arrivals: Mapping[str, Any], steady: Mapping[str, Any] | None) -> Iterator[str]:
    """Compare the answers of the steady window with what the rate is; arrivals that are random scatter."""
    offered, answered = arrivals["offered_rate"], (steady or {}).get("request_throughput")
    if steady is None or offered is None or answered is None:
        return
    seconds = steady["window"]["seconds"]
    scatter = 3 * math.sqrt(offered * seconds * max(1.0, 1 / (arrivals["burstiness"] or 1.0)))
    if answered < ANSWERED_SHARE * offered and (offered - answered) * seconds > scatter:
        yield (
            f"The server answered {answered:.2f} requests/s of {offered:.2f} offered: what waits grows, and latency "
            "depends on how long the run is."
        )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

"""The part `capacity` of a summary: what the search found, how sure that is, and who was the limit.

No I/O, no clock. The verdicts are those that led the search, as `run.json` keeps them with the phases; the numbers
beside them are worked out from the completions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmload.metrics.search import ENDS, End, Search
from llmload.metrics.stepped import Steps
from llmload.metrics.sweep import row
from llmload.metrics.tally import Tallies


def capacity_of(tallies: Tallies, run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part `capacity` of a summary; None where the run was no search.

    Args:
        tallies: of all finished completions.
        run: the content of `run.json`; read here: `phases` and `capacity`.
    """
    steps = Steps(tallies, run, course="capacity")
    if not steps.levels:
        return None
    said = run.get("capacity") or {}
    measured = [_measurement(steps, phase) for phase in steps.phases]
    search = Search(limit=1)
    for one in measured:
        if one["held"] is not None:
            search.tell(int(one["level"]), bool(one["held"]))
    low, high = search.low, search.high
    ended: End = said.get("ended") or "stopped"
    return {
        "axis": steps.axis,
        "objectives": said.get("objectives") or [],
        "level": low,
        "between": [low, high],
        "votes": {str(level): list(search.votes(level)) for level in (low, high) if level is not None},
        "ended": ended,
        "why": ENDS.get(ended, ended),
        "limited_by": _limit(measured, high),
        "measurements": measured,
    }


def _measurement(steps: Steps, phase: Mapping[str, Any]) -> dict[str, Any]:
    section, judged = steps.section([phase]), phase.get("judged") or {}
    return {
        "level": phase["level"],
        "step": phase["step"],
        "from": phase["from"],
        "to": phase["to"],
        "held": judged.get("held"),
        "misses": judged.get("misses") or [],
        "unfinished": judged.get("unfinished"),
        "ledger": section["ledger"],
        "client": section["client"],
        "window": section["window"],
        **row(section),
    }


def _limit(measured: Sequence[Mapping[str, Any]], high: int | None) -> str | None:
    """Who kept the lowest failing level from holding: `client` where its verdict says so in most measurements."""
    verdicts = [one["client"]["verdict"] for one in measured if one["level"] == high]
    if not verdicts:
        return None
    return "client" if 2 * verdicts.count("client") >= len(verdicts) else "server"

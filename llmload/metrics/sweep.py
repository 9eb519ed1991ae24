"""The part `sweep` of a summary: what each level was like, the knee, and the highest level that met the objectives.

No I/O, no clock; worked out from the tallies of the steps and from the phases in `run.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from llmload.metrics.knee import Point, find_knee
from llmload.metrics.objectives import parse_objectives
from llmload.metrics.stepped import Steps
from llmload.metrics.tally import Tallies

ROW = (
    "request_throughput", "output_throughput", "e2e_mean_s", "e2e_p99_s", "user_tps", "ttft_p50_s", "ttft_p99_s",
    "success_rate", "input_tokens",
)  # fmt: skip
"""What is told of every round, and as median with its spread of every level. `user_tps` is the median over requests
of 1 / TPOT, what one reader saw; `input_tokens` the mean that the server counted. In an open loop latencies count from
the intended start."""


def sweep_of(tallies: Tallies, run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part `sweep` of a summary; None where the run was none.

    Args:
        tallies: of all finished completions.
        run: the content of `run.json`; read here: `phases`, and of `settings` `slo`.
    """
    objectives = parse_objectives((run.get("settings") or {}).get("slo") or ())
    steps = Steps(tallies, run, course="sweep", objectives=[one for one in objectives if one.scope.step is None])
    if not steps.levels:
        return None
    axis = steps.axis
    levels = [_level(steps, level) for level in steps.levels]
    return {
        "axis": axis,
        "steps": levels,
        "knee": _knee(levels) if axis != "prompt_tokens" else {"level": None, "reason": "a prompt's length has none"},
        "recommended": _recommended(levels, [one.text for one in steps.objectives]),
    }


def _level(steps: Steps, level: float) -> dict[str, Any]:
    rounds = [{**steps.section([phase]), **_where(phase)} for phase in steps.phases_at(level)]
    return {
        "level": level,
        **steps.section(steps.phases_at(level)),
        "rounds": [{**{name: one[name] for name in _KEPT}, **row(one)} for one in rounds],
        "median": {name: spread([row(one)[name] for one in rounds]) for name in ROW},
    }


_KEPT = ("round", "step", "from", "to", "ledger", "client", "window", "misses")


def _where(phase: Mapping[str, Any]) -> dict[str, Any]:
    return {"round": phase.get("round") or 1, "step": phase["step"], "from": phase["from"], "to": phase["to"]}


def row(section: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the values of `ROW` of one step."""
    metrics, rates, ledger = section["metrics"], section["throughput"], section["ledger"]
    from_intended = metrics["e2e_intended_s"]["n"] > 0
    e2e, ttft = (metrics[f"{name}_intended_s" if from_intended else f"{name}_s"] for name in ("e2e", "ttft"))
    ended = ledger["ok"] + ledger["failed"]
    return {
        "request_throughput": rates["request_throughput"],
        "output_throughput": rates["output_throughput"],
        "e2e_mean_s": e2e["mean"],
        "e2e_p99_s": e2e["p99"],
        "user_tps": metrics["output_tps"]["p50"],
        "ttft_p50_s": ttft["p50"],
        "ttft_p99_s": ttft["p99"],
        "success_rate": ledger["ok"] / ended if ended else None,
        "input_tokens": metrics["input_tokens"]["mean"],
    }


def spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Return median, min, max and n of what is known of some values."""
    known = [value for value in values if value is not None]
    return {
        "median": median(known) if known else None,
        "min": min(known, default=None),
        "max": max(known, default=None),
        "n": len(known),
    }


def _knee(levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """On output tokens where every round has them, else on requests."""
    rounds = [one for level in levels for one in level["rounds"]]
    rate = "output_throughput" if all(one["output_throughput"] for one in rounds) else "request_throughput"
    points = {level["level"]: [_point(one, rate) for one in level["rounds"]] for level in levels}
    return {**find_knee(points), "throughput": rate, "latency": "e2e_mean_s"}


def _point(round_: Mapping[str, Any], rate: str) -> Point | None:
    throughput, latency_s = round_[rate], round_["e2e_mean_s"]
    return None if throughput is None or latency_s is None else (throughput, latency_s)


def _recommended(levels: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> dict[str, Any] | None:
    """The highest level that, like every one below it, met all objectives; None where there were none."""
    if not texts:
        return None
    found: dict[str, Any] = {"level": None, "objectives": list(texts), "missed_at": None, "missed": []}
    for level in levels:
        if level["misses"]:
            return {**found, "missed_at": level["level"], "missed": level["misses"]}
        found["level"] = level["level"]
    return found

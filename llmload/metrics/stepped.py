"""Parts of a run by its steps, each built like a summary, so that it can be shown and judged alike.

No I/O, no clock. Latencies and the ledger are those of the requests that started while the step was measured; rates are
of what arrived in that time, whatever step it belongs to: a token of a request that started before is served all the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmload.metrics.cutoff import with_cut_off
from llmload.metrics.distributions import summarise_metrics
from llmload.metrics.goodput import goodput_of
from llmload.metrics.judgement import judge_in, with_statistics
from llmload.metrics.objective import Objective
from llmload.metrics.steps import is_measured, step_ledger
from llmload.metrics.tally import Tallies, Tally
from llmload.metrics.throughput import rates
from llmload.metrics.verdict import client_verdict, open_loop_delay_s

WINDOW = "whole seconds of the measured part of the step"

Spans = Sequence[tuple[float, float]]
"""Parts of time, from and to, unix seconds, in their order."""


class Steps:
    """The measured steps of one run.

    Args:
        tallies: of all finished completions.
        run: the content of `run.json`; read here: `phases`.
        course: which steps: `sweep` or `capacity`.
        objectives: what each step is judged by.
    """

    def __init__(
        self, tallies: Tallies, run: Mapping[str, Any], *, course: str, objectives: Sequence[Objective] = ()
    ) -> None:
        self.objectives = objectives
        self._tallies = tallies
        self._run = run
        self.phases: list[Mapping[str, Any]] = [
            one for one in run.get("phases") or () if one.get("course") == course and is_measured(one["step"])
        ]
        self._everything = tallies.total() if self.phases else Tally()

    @property
    def levels(self) -> list[float]:
        return sorted({one["level"] for one in self.phases})

    @property
    def axis(self) -> str:
        return str(self.phases[0]["axis"])

    def phases_at(self, level: float) -> list[Mapping[str, Any]]:
        """Return the phases in which a level was measured, in the order of time."""
        return [one for one in self.phases if one["level"] == level]

    def section(self, phases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return `users`, `ledger`, `metrics`, `throughput`, `window`, `goodput`, `client` and `misses` of some phases
        together.

        `misses` are the texts of the objectives that they did not meet; `window` is None where no whole second of
        theirs is recorded.
        """
        labels = [one["step"] for one in phases]
        tally, ledger = self._tallies.of_steps(labels), step_ledger(self._tallies, self._run, labels)
        metrics, (rated, good_rate, _) = summarise_metrics(tally), step_rates(self._everything, phases)
        found: dict[str, Any] = {
            "users": phases[0].get("users"),
            "ledger": {**ledger.to_wire(), "in_flight": ledger.in_flight},
            "metrics": metrics,
            **rated,
            "goodput": goodput_of(tally, self._run, started=ledger.started, rate=good_rate),
            "client": _client(phases, metrics, tally),
        }
        return {**found, "misses": [one.text for one in self.objectives if not self._holds(one, found, tally, labels)]}

    def _holds(self, objective: Objective, found: Mapping[str, Any], tally: Tally, labels: list[str]) -> bool:
        if objective.scope:
            part = self._tallies.only(labels)
            verdict = judge_in(part, self._run, objective)
        else:
            section = {**found, "metrics": with_statistics(found["metrics"], tally, [objective])}
            verdict = with_cut_off(objective, objective.judge(section), tally)
        return bool(verdict["met"])


def step_rates(everything: Tally, phases: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], float | None, Spans]:
    """Return `throughput` and `window` of some phases together, good completions per second, and the spans of time that
    these are of.

    Args:
        everything: of all completions, whatever step started them.
        phases: as run.json has them.
    """
    sums: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for one in phases:
        inside = None if one["to"] is None else everything.seconds.between(one["from"], one["to"])
        if inside is not None:
            columns, first, end = inside
            spans.append((first, end))
            sums = {name: sums.get(name, 0) + value for name, value in columns.items()}
    seconds = sum(end - first for first, end in spans)
    if not seconds:
        return {"throughput": rates({}, None), "window": None}, None, ()
    window = {"from": spans[0][0], "to": spans[-1][1], "seconds": seconds, "definition": WINDOW}
    return {"throughput": rates(sums, seconds), "window": window}, sums["good"] / seconds, spans


def _client(phases: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any], tally: Tally) -> dict[str, Any]:
    """The worst of the phases."""
    clients = [one.get("client") or {} for one in phases]
    lag_p99_s, lag_max_s, cpu = (
        max((one[name] for one in clients if one.get(name) is not None), default=None)
        for name in ("lag_p99_s", "lag_max_s", "cpu_percent_max")
    )
    verdict, why = client_verdict(
        lag_p99_s, cpu, metrics["itl_s"]["p50"], metrics["ttft_s"]["p50"],
        kernel_stamps=set(tally.stamps) == {"kernel"}, send_delay_p95_s=open_loop_delay_s(metrics),
        read_delay_p50_s=metrics["read_delay_s"]["p50"],
    )  # fmt: skip
    return {"verdict": verdict, "why": why, "lag_p99_s": lag_p99_s, "lag_max_s": lag_max_s, "cpu_percent_max": cpu}

"""The phases of a run as the process knows them that collects it: warm-up, and the steps of a sweep as they settle and
are measured; from when to when each lasted, and what the client was like meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmload.metrics.histogram import Histogram
from llmload.metrics.steps import step_ledger
from llmload.metrics.tally import Tallies


class Phases:
    """What `run.json` says of the phases of one run."""

    def __init__(self) -> None:
        self._phases: list[dict[str, Any]] = []
        self._clients: dict[str, _Client] = {}

    def begin(self, step: str | None, *, now_s: float, facts: Mapping[str, Any]) -> None:
        """A phase begins and the one before ends; None: a part of the run that is no phase.

        Args:
            now_s: unix seconds.
            facts: what else there is to say of it, JSON-ready, e.g. its level.
        """
        self.end(now_s)
        if step is not None:
            self._phases.append({"step": step, "from": now_s, "to": None, **facts})

    def end(self, now_s: float) -> None:
        """The phase that goes on ends."""
        if self._phases and self._phases[-1]["to"] is None:
            self._phases[-1]["to"] = now_s

    @property
    def current(self) -> str | None:
        """The step of the phase that goes on."""
        return self._phases[-1]["step"] if self._phases and self._phases[-1]["to"] is None else None

    def judge(self, step: str, verdict: Mapping[str, Any]) -> None:
        """Note the verdict on a step that has ended."""
        for one in self._phases:
            if one["step"] == step:
                one["judged"] = dict(verdict)

    def take(self, report: Mapping[str, Any]) -> None:
        """Take the part of one report of `Load.report` that is by step."""
        for step, client in report.get("steps", {}).items():
            self._clients.setdefault(step, _Client()).take(report["worker"], client)

    def in_flight(self, step: str, tallies: Tallies) -> int:
        """Return how many requests of a step have not ended, as of the last reports."""
        return step_ledger(tallies, {"phases": self.shown()}, (step,)).in_flight

    def shown(self) -> list[dict[str, Any]]:
        """Return one dict a phase, in the order of time; `from` and `to` in unix seconds."""
        return [{**one, **self._clients.get(one["step"], _Client()).shown()} for one in self._phases]


class _Client:
    """The client's state during one phase, over all processes."""

    def __init__(self) -> None:
        self._started: dict[str, int] = {}
        self._lags = Histogram(1_000_000)
        self._cpu_percent: float | None = None

    def take(self, worker: str, client: Mapping[str, Any]) -> None:
        self._started[worker] = client["started"]
        self._lags.record_many(client["lags_us"])
        if client["cpu_percent"] is not None:
            self._cpu_percent = max(self._cpu_percent or 0.0, client["cpu_percent"])

    def shown(self) -> dict[str, Any]:
        return {
            "started": sum(self._started.values()),
            "client": {
                "lag_p99_s": self._lags.percentile(99),
                "lag_max_s": self._lags.max,
                "cpu_percent_max": self._cpu_percent,
            },
        }

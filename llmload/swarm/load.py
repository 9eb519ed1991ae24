"""The load that one process carries in one run: its ledger, its tallies, and what it still has to report.

Lives in the local process and in workers. Every request passes `start` and `finished` exactly once; both only count
and append, nothing in them can yield, so that the ledger is right whenever someone looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gevent.event import Event
from locust import User
from locust.env import Environment
from locust.exception import StopUser

from llmload.metrics.ledger import Ledger
from llmload.metrics.tally import Tallies
from llmload.records import ChatRequest, Completion
from llmload.swarm.lag import LagProbe
from llmload.swarm.rows import add_rows
from llmload.swarm.schedule import Schedule


class RequestFailed(Exception):
    """What Locust is told of a failed request. Its text is the kind, so that Locust's table of errors stays short."""

    def __init__(self, completion: Completion) -> None:
        self.completion = completion
        status = f" {completion.status}" if completion.kind == "http_status" else ""
        super().__init__(f"{completion.kind}{status}")

    def __repr__(self) -> str:
        return str(self)


class UserListener:
    """What a client tells of one user's requests, passed on to the load and to Locust's events."""

    def __init__(self, load: Load, user: User) -> None:
        self._load = load
        self._user = user

    def first_token(self, request: ChatRequest, ttft_s: float) -> None:
        """See `client.Listener`."""
        self._user.environment.events.llm_first_token.fire(request=request, ttft_s=ttft_s, user=self._user)

    def finished(self, request: ChatRequest, completion: Completion) -> None:
        """See `client.Listener`."""
        self._load.finished(request, completion, self._user)


class Load:
    """One run's load in this process.

    Args:
        environment: where Locust's events and statistics are.
        run_id: the run's id.
        worker: this process's name in the record, e.g. `local` or `worker-0`.
        lag: measures this process's event loop.
        now_s: unix seconds, on the clock that completions are stamped with.
        held_events_per_second: what one worker holds on this machine; None where nobody knows.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        run_id: str,
        worker: str,
        lag: LagProbe,
        now_s: Callable[[], float],
        held_events_per_second: float | None = None,
    ) -> None:
        self._now_s = now_s
        self._environment = environment
        self.run_id = run_id
        self._lag = lag
        self._held = {"held_events_per_second": held_events_per_second}
        self._prefix = f"{run_id.rpartition('-')[2]}-{worker}"
        self._tallies = Tallies()
        self._pending: list[dict[str, Any]] = []
        self._reports = 0
        self._started: Counter[str] = Counter()
        self._clients: dict[str, dict[str, Any]] = {}
        self._sampled: list[dict[str, Any]] = []
        self.step: str | None = None
        """The part of the run that requests start in now; see `metrics.steps`."""
        self.worker = worker
        self.ledger = Ledger()
        self.stopping = Event()
        """Set once no new request may start."""
        self.schedule: Schedule | None = None
        """When requests start in an open loop; None in a closed one."""

    def stop(self) -> None:
        """Let no new request start."""
        self.stopping.set()
        if self.schedule is not None:
            self.schedule.stop()

    def start(self) -> str:
        """Count one request that starts now and return its id.

        Raises:
            StopUser: the run is stopping; nothing was counted.
        """
        if self.stopping.is_set():
            raise StopUser
        self.ledger.start()
        if self.step is not None:
            self._started[self.step] += 1
        return f"{self._prefix}-{self.ledger.started}"

    def set_step(self, step: str | None) -> None:
        """Label what starts from now on."""
        self._sample()
        self.step = step

    def _sample(self) -> None:
        """Look at the client, and count what is seen for the step that goes on."""
        sample = self._lag.sample()
        self._sampled.append(sample)
        if self.step is not None:
            client = self._clients.setdefault(self.step, {"cpu_percent": None, "lags_us": []})
            client["lags_us"] += sample["lags_us"]
            client["cpu_percent"] = _highest(client["cpu_percent"], sample["cpu_percent"])

    def finished(self, request: ChatRequest, completion: Completion, user: User) -> None:
        """Count one request that has ended, and tell Locust and whoever listens."""
        self.ledger.end(completion.outcome)
        self._tallies.add(completion)
        self._pending.append(completion.to_dict())
        events: Any = self._environment.events  # with our own hooks, see `hooks`
        if completion.outcome == "ok":
            add_rows(self._environment.stats, completion)
        try:
            self._tell_locust(completion, user)
        finally:  # a listener of Locust's event may stop the user; ours hear of the completion all the same
            if completion.outcome == "ok" and completion.output_tps is not None:
                events.llm_tokens_per_second.fire(
                    scenario=completion.scenario,
                    model=completion.model,
                    output_tps=completion.output_tps,
                    output_tokens=completion.output_tokens,
                    usage_source=completion.usage_source,
                    completion=completion,
                )
            events.llm_completion.fire(completion=completion, request=request, user=user)

    def _tell_locust(self, completion: Completion, user: User) -> None:
        latency_s = completion.e2e_intended_s or completion.e2e_s  # in an open loop from the intended start
        self._environment.events.request.fire(
            request_type="chat",
            name=completion.scenario,
            # a failed or cancelled request has no response time that belongs among the others
            response_time=latency_s * 1e3 if completion.outcome == "ok" and latency_s else None,
            response_length=completion.received_bytes,
            exception=RequestFailed(completion) if completion.outcome == "failed" else None,
            context={"outcome": completion.outcome, **user.context()},
        )

    def report(self, *, repeats: Mapping[str, int], final: bool = False) -> dict[str, Any]:
        """Return what has happened since the last report: plain values, and the `tallies` as they are.

        `number` counts the reports of this process, so that a report that is lost or comes twice is seen; the ledger
        is the whole run's so far, everything else is new since the report before. `steps` has, by step that
        went on since then, what `started` in it so far and what the client was like since the report before.
        """
        self._sample()
        tallies, self._tallies = self._tallies, Tallies()
        pending, self._pending = self._pending, []
        self._reports += 1
        return {
            "run": self.run_id,
            "worker": self.worker,
            "number": self._reports,
            "final": final,
            "at": self._now_s(),
            "users": self._environment.runner.user_count if self._environment.runner else 0,
            "ledger": self.ledger.to_wire(),
            "tallies": tallies,
            "completions": pending,
            "arrivals": None if self.schedule is None else self.schedule.report(),
            "client": {**self._client(), **repeats, **self._held},
            "steps": self._by_step(),
        }

    def _client(self) -> dict[str, Any]:
        sampled, self._sampled = self._sampled, []
        lags_us = [lag_us for one in sampled for lag_us in one["lags_us"]]
        return {**sampled[-1], "lags_us": lags_us}

    def _by_step(self) -> dict[str, dict[str, Any]]:
        clients, self._clients = self._clients, {}
        return {step: {"started": self._started[step], **client} for step, client in clients.items()}


def _highest(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else max(one, other)

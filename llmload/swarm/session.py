"""One process of a load test: wires Locust's events to a run's load and its collection.

A local process carries load and collects it; a master only collects; a worker only carries. A run begins at Locust's
`test_start` and is frozen at its `test_stop`, whoever asked for the stop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gevent
from gevent.event import Event
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from llmload.client import Client
from llmload.errors import LlmloadError
from llmload.records import ChatRequest, Completion
from llmload.swarm import shapes, web
from llmload.swarm.arriving import Arrival
from llmload.swarm.ending import Ending
from llmload.swarm.fitting import fit_users
from llmload.swarm.lag import LagProbe
from llmload.swarm.load import Load, UserListener
from llmload.swarm.outputs import open_metrics
from llmload.swarm.plan import Plan, UserClass
from llmload.swarm.progress import ProgressView
from llmload.swarm.run import Run
from llmload.swarm.setup import Setup
from llmload.swarm.shares import Shares
from llmload.swarm.start import start
from llmload.swarm.switch import PhaseSwitch
from llmload.swarm.workers import Workers, WorkerSide
from llmload.wire.tls import shared_context

COLLECT_S = 1.0
SAVE_TICKS = 2
"""How many collections lie between two saves of run.json: what a kill -9 can take from the ledger."""

log = logging.getLogger("llmload")


def session_of(environment: Environment) -> Session:
    """Return the session of a Locust environment.

    Raises:
        LlmloadError: Locust's `init` event never reached llmload.
    """
    session = getattr(environment, "llmload", None)
    if session is None:
        raise LlmloadError(
            "this Locust environment has no llmload session", "fire its init event before spawning users"
        )
    return session  # type: ignore[no-any-return]


class Session:
    """llmload in one Locust process.

    Args:
        environment: Locust's.
        runner: Locust's runner; its class says what this process does.
        web_ui: Locust's web server where there is one.
    """

    def __init__(self, environment: Environment, *, runner: Any, web_ui: Any) -> None:
        self.environment = environment
        self.runner = runner
        self.web_ui = web_ui
        self.is_worker = isinstance(runner, WorkerRunner)
        self.is_master = isinstance(runner, MasterRunner)
        self.plan: Plan | None = None
        self.load: Load | None = None
        self.run: Run | None = None
        self.ended = Event()
        """Set while no run goes on."""
        self.ended.set()
        self._stopping = False
        self.setup = Setup(environment)
        self.lag = LagProbe()
        self.around: dict[UserClass, Any] = {}
        self.workers: Workers | WorkerSide | None = None
        self.ending = Ending(self)
        self.phases: PhaseSwitch
        self.progress = ProgressView(self)
        environment.llmload = self  # type: ignore[attr-defined]

    # before a run

    def open(self) -> None:
        """Check what can be checked before anything is sent, and listen.

        Raises:
            SetupError: something is wrong that no web form can mend.
        """
        for name in ("httpx", "httpcore", "hpack"):
            logging.getLogger(name).setLevel(logging.WARNING)  # they log whole URLs and headers
        self.setup.hide_class_hosts()
        events = self.environment.events
        events.test_start.add_listener(self._on_test_start)
        events.test_stopping.add_listener(self._on_test_stopping)
        events.test_stop.add_listener(self._on_test_stop)
        events.spawning_complete.add_listener(self._on_spawning_complete)
        self.ending.install()
        if self.is_worker:
            self.workers = WorkerSide(self)
        elif self.is_master:
            self.workers = Workers(self)
        self.phases = PhaseSwitch(self)
        Shares(self)
        if self.is_worker:
            shared_context()
            return
        fit_users(self)
        self.progress.open()
        self.setup.metrics = open_metrics(self.web_ui, self.setup.options)
        if self.web_ui is not None:
            web.guard_start(self.web_ui.app, self)
        shapes.choose(self, self.setup.load)
        options = self.setup.options
        starts_itself = self.web_ui is None or options.get("autostart")
        if starts_itself or (options.get("model") and options.get("host")):
            self.setup.prepare(options, with_probe=bool(starts_itself))
        else:
            self.setup.check_given(options)

    # a run

    def _on_test_start(self, environment: Environment, **_: Any) -> None:
        try:
            start(self)
        except LlmloadError as error:
            log.error("%s", error)
            if isinstance(self.workers, WorkerSide):
                self.workers.complain(str(error))
            else:
                gevent.spawn(self.stop, f"bad set-up: {error}")

    def collect(self) -> None:
        """Once a second: take what the local load has done, look after workers, see whether going on makes sense."""
        ticks = 0
        while self.run is not None and self.run.summary is None:
            gevent.sleep(COLLECT_S)
            if self.run.summary is not None:
                return
            self._take_local()
            self.run.limits.check()
            ticks += 1
            self.run.series.tick()
            self.run.record.flush()
            if ticks % SAVE_TICKS == 0:
                self.run.save()
            all_gone = isinstance(self.workers, Workers) and self.workers.check()
            if self.stopping:
                continue
            if all_gone:
                self.stop("the last worker was lost")
            elif self.run.replayed:
                self.stop("the end of the trace")
            elif self.run.hopeless:
                failed = self.run.ledger.failed
                self.run.problem(f"the first {failed} requests all failed")
                self.stop(f"the first {failed} requests all failed")
            elif why := self.run.abort_reason():
                self.stop(why)

    def _take_local(self, *, final: bool = False) -> None:
        if self.run is not None and self.load is not None and self.plan is not None:
            self.run.absorb(self.load.report(repeats=self.plan.served, final=final))

    def _on_spawning_complete(self, **_: Any) -> None:
        if self.run is None or self.ended.is_set():
            return
        if self.environment.shape_class is not None:
            self.run.unsteady(shapes.why_unsteady(self.environment.shape_class))
        else:
            self.run.steady()

    # users

    def client(self, cls: UserClass) -> Client:
        """Return a new client for a user of a class."""
        if self.plan is None or self.load is None:
            raise StopUser
        around = self.around.get(cls)
        if around is None:
            around = self.around[cls] = self.plan.around(
                cls,
                worker=self.load.worker,
                keeper=self.setup.keeper,
                clock=self.setup.clock,
                lag_since=self.lag.worst_since,
            )
        return Client(self.plan.wire(cls), around)

    def think_time_s(self) -> float:
        """Return the next pause of a user, seconds."""
        return self.plan.think_time_s() if self.plan is not None else 0.0

    def request(
        self,
        cls: UserClass,
        *,
        prompt: str | None,
        messages: Sequence[Mapping[str, Any]] | None,
        overrides: Mapping[str, Any],
        arrival: Arrival | None = None,
    ) -> ChatRequest:
        """Return the next request of a user; see `Plan.request`."""
        if self.plan is None or self.load is None or self.load.stopping.is_set():
            raise StopUser
        return self.plan.request(cls, prompt=prompt, messages=messages, overrides=overrides, arrival=arrival)

    def complete(self, user: Any, client: Client, request: ChatRequest) -> Completion:
        """Send one request for a user; it is in the ledger from here to its end."""
        load = self.load
        if load is None:
            raise StopUser
        if load.step is not None:
            request = replace(request, step=load.step)
        return client.complete(request, request_id=load.start(), listener=UserListener(load, user))

    # the end of a run

    def stop(self, why: str) -> None:
        """Stop the run, and the process as well where nobody could start another."""
        if self.run is not None:
            self.run.stopping(why)
        if self.web_ui is None:
            self.runner.quit()
        else:
            self.runner.stop()

    def _on_test_stopping(self, **_: Any) -> None:
        if self.ended.is_set():
            return
        self._stopping = True
        if self.load is not None:
            self.load.stop()
        if self.run is not None:
            self.run.stopping(self.ending.reason())
            self.ending.watch_drain()

    def _on_test_stop(self, **_: Any) -> None:
        if self.ended.is_set():
            return
        try:
            if isinstance(self.workers, WorkerSide):
                self.workers.report_final()
            elif isinstance(self.workers, Workers):
                self.workers.await_final()
        finally:
            self.freeze()
        if self.is_master and self.web_ui is None and self.runner.worker_count == 0:
            # Locust stops when the last worker goes missing, and would then wait for the end of the run time
            gevent.spawn(self.runner.quit)

    @property
    def stopping(self) -> bool:
        """Whether a run is being stopped but has not ended."""
        return self._stopping and not self.ended.is_set()

    def began(self) -> None:
        """A run has begun here."""
        self._stopping = False
        self.ended.clear()
        if self.plan is not None and not self.is_worker:
            self.phases.run_began(self.plan.load.warmup_s)
            self.progress.run_began()

    def set_step(self, step: str | None, **facts: Any) -> None:
        """Label what starts from now on in all processes; see `PhaseSwitch.set`."""
        self.phases.set(step, **facts)

    def cut_short(self) -> None:
        """Cancel every request that is under way, now."""
        if isinstance(self.workers, Workers):
            self.workers.cut_short()
        else:
            self.runner.user_greenlets.kill(block=False)

    def freeze(self) -> None:
        """End the run: the last report, one summary, every output from it. A second call does nothing."""
        if self.ended.is_set():
            return
        if self.run is not None:
            self._take_local(final=True)
            self.progress.run_ended()
            self.run.freeze()
            log.info("Run %s has ended: %s", self.run.id, self.run.record.path)
            if self.web_ui is not None:
                self.ending.print_summary()
        self.lag.stop()
        self.ended.set()

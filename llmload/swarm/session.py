"""One process of a load test: wires Locust's events to a run's load and its collection.

A local process carries load and collects it; a master only collects; a worker only carries. A run begins at Locust's
`test_start` and is frozen at its `test_stop`, whoever asked for the stop.
"""

from __future__ import annotations

import logging
import os
import platform
import random
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import gevent
import locust
from gevent.event import Event
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

import llmload
from llmload.client import Client, WallClock
from llmload.errors import LlmloadError, SetupError
from llmload.records import ChatRequest, Completion
from llmload.redaction import has_secrets, shown_url
from llmload.sinks.record import RunRecord, new_run_id
from llmload.swarm import web
from llmload.swarm.ending import Ending
from llmload.swarm.lag import LagProbe
from llmload.swarm.load import Load, UserListener
from llmload.swarm.plan import Plan, PromptShelf, UserClass
from llmload.swarm.preflight import probe
from llmload.swarm.run import Run
from llmload.swarm.workers import Workers, WorkerSide
from llmload.wire.choose import open_wire, proxy_in_use
from llmload.wire.deadlines import Keeper
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
        self.probed: Completion | None = None
        self.ended = Event()
        """Set while no run goes on."""
        self.ended.set()
        self._stopping = False
        self._shelf = PromptShelf()
        self._keeper = Keeper()
        self._lag = LagProbe()
        self._clock = WallClock()
        self._around: dict[UserClass, Any] = {}
        self._collector: gevent.Greenlet | None = None
        self.workers: Workers | WorkerSide | None = None
        self.ending = Ending(self)
        environment.llmload = self  # type: ignore[attr-defined]

    # before a run

    def open(self) -> None:
        """Check what can be checked before anything is sent, and listen.

        Raises:
            SetupError: something is wrong that no web form can mend.
        """
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)  # they log whole URLs, a line a request
        events = self.environment.events
        events.test_start.add_listener(self._on_test_start)
        events.test_stopping.add_listener(self._on_test_stopping)
        events.test_stop.add_listener(self._on_test_stop)
        events.spawning_complete.add_listener(self._on_spawning_complete)
        self.ending.install()
        if self.is_worker:
            self.workers = WorkerSide(self)
            shared_context()
            return
        if self.is_master:
            self.workers = Workers(self)
        if self.web_ui is not None:
            web.guard_start(self.web_ui.app, self)
        starts_itself = self.web_ui is None or self.options.get("autostart")
        if starts_itself or (self.options.get("model") and self.options.get("host")):
            self.prepare(self.options, with_probe=bool(starts_itself))
        else:
            self.check_options(self.options)

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, with the host as it was given."""
        parsed: Any = self.environment.parsed_options
        host = self.environment.host
        if host and has_secrets(host):
            # Locust shows its host in logs, reports and the web page: it gets one without secrets, we keep the other
            parsed.llmload_host = host
            self.environment.host = parsed.host = shown_url(host)
        kept = getattr(parsed, "llmload_host", None)
        if kept and shown_url(kept) == self.environment.host:
            host = kept
        return {**vars(parsed), "host": host}

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check the options that were given, as if those that the web form may still bring were there."""
        self._plan(
            {
                **options,
                "model": options.get("model") or "?",
                "host": options.get("host") or "http://localhost",
            }
        )

    def prepare(self, options: Mapping[str, Any], *, with_probe: bool = True) -> Plan:
        """Check the options of a run and, where it is wanted, the server.

        Raises:
            SetupError: the run cannot start.
        """
        plan = self._plan(options)
        RunRecord.check(plan.settings.run_dir)
        for target in dict.fromkeys(plan.targets.values()):
            proxy = proxy_in_use(target.url)
            log.info("Load goes to POST %s%s", target.shown, f" through the proxy {proxy}" if proxy else "")
        if with_probe and plan.settings.probe:
            self.probed = self._probe(plan)
        return plan

    def _plan(self, options: Mapping[str, Any]) -> Plan:
        return Plan(options, os.environ, self.chat_classes, self._shelf)

    @property
    def chat_classes(self) -> list[UserClass]:
        """The `ChatUser` classes among the user classes of this test."""
        return [cls for cls in self.environment.user_classes if hasattr(cls, "chat") and hasattr(cls, "scenario")]

    def _probe(self, plan: Plan) -> Completion:
        shared_context()
        for cls, target in plan.targets.items():
            around = plan.around(cls, worker="probe", keeper=self._keeper, clock=self._clock, lag=self._lag)
            wire = open_wire(target.url)
            try:
                completion = probe(wire, around, model=getattr(cls, "model", None) or plan.settings.model)
            finally:
                wire.close()
            log.info("Probe of %s: %s", target.shown, _probe_text(completion))
        return completion

    # a run

    def _on_test_start(self, environment: Environment, **_: Any) -> None:
        try:
            self._start()
        except LlmloadError as error:
            log.error("%s", error)
            if isinstance(self.workers, WorkerSide):
                self.workers.complain(str(error))
            else:
                gevent.spawn(self.stop, f"bad set-up: {error}")

    def _start(self) -> None:
        options = vars(self.environment.parsed_options)
        if self.is_worker:
            shared = options.get("llmload_run") or {}
        else:
            members = self.workers.ready() if isinstance(self.workers, Workers) else ["local"]
            shared = {"id": new_run_id(time.time(), random.SystemRandom()), "members": members}
        plan = self.plan = self._plan(self.options)
        if isinstance(self.workers, WorkerSide) and shared.get("prompts") not in (None, plan.fingerprints):
            raise SetupError("this worker has other prompts than the master", "give both the same prompts file")
        shared["prompts"] = plan.fingerprints
        options["llmload_run"] = shared
        self._around.clear()
        if not self.is_worker:
            self._begin_run(plan, str(shared["id"]))
        if not self.is_master:
            self._begin_load(plan, shared)
        self._stopping = False
        self.ended.clear()

    def _begin_run(self, plan: Plan, run_id: str) -> None:
        record = RunRecord.create(plan.settings.run_dir, run_id)
        self.run = Run(record, about=self._about(plan, run_id), abort_after=plan.settings.abort_after)
        log.info("Run %s: the record goes to %s", run_id, record.path)
        self.ending.run_began()
        if isinstance(self.workers, Workers):
            self.workers.run_began()
        self._collector = gevent.spawn(self._collect)

    def _begin_load(self, plan: Plan, shared: Mapping[str, Any]) -> None:
        index, name = 0, "local"
        if isinstance(self.workers, WorkerSide):
            index, name = self.workers.place(shared["members"])
        plan.deal(worker_index=index, worker_count=len(shared["members"]), run_id=str(shared["id"]))
        self._lag.start()
        self.load = Load(self.environment, run_id=str(shared["id"]), worker=name, lag=self._lag)

    def _about(self, plan: Plan, run_id: str) -> dict[str, Any]:
        options = self.options
        return {
            "id": run_id,
            "mode": "master" if self.is_master else "local",
            "targets": {cls.__name__: target.shown for cls, target in plan.targets.items()},
            "settings": plan.settings.shown(),
            "locust": {
                name: options.get(name)
                for name in (
                    "num_users",
                    "spawn_rate",
                    "run_time",
                    "stop_timeout",
                    "processes",
                    "expect_workers",
                )
            },
            "prompts": plan.fingerprints,
            "command": plan.settings.redactor(plan.target).clean(" ".join(sys.argv), limit=4000),
            "versions": {
                "llmload": llmload.__version__,
                "locust": locust.__version__,
                "python": platform.python_version(),
                "platform": platform.platform(),
            },
            "host": socket.gethostname(),
            "probe": None if self.probed is None else self.probed.to_dict(),
        }

    def _collect(self) -> None:
        """Once a second: take what the local load has done, look after workers, see whether going on makes sense."""
        ticks = 0
        while self.run is not None and self.run.summary is None:
            gevent.sleep(COLLECT_S)
            self._take_local()
            ticks += 1
            self.run.record.flush()
            if ticks % SAVE_TICKS == 0:
                self.run.save()
            all_gone = isinstance(self.workers, Workers) and self.workers.check()
            if self.stopping:
                continue
            if all_gone:
                self.stop("the last worker was lost")
            elif self.run.hopeless:
                failed = self.run.ledger.failed
                self.run.problem(f"the first {failed} requests all failed")
                self.stop(f"the first {failed} requests all failed")

    def _take_local(self, *, final: bool = False) -> None:
        if self.run is not None and self.load is not None and self.plan is not None:
            self.run.absorb(self.load.report(repeats=self.plan.served, final=final))

    def _on_spawning_complete(self, **_: Any) -> None:
        if self.run is not None and not self.ended.is_set():
            self.run.steady()

    # users

    def client(self, cls: UserClass) -> Client:
        """Return a new client for a user of a class."""
        if self.plan is None or self.load is None:
            raise StopUser
        around = self._around.get(cls)
        if around is None:
            around = self._around[cls] = self.plan.around(
                cls, worker=self.load.worker, keeper=self._keeper, clock=self._clock, lag=self._lag
            )
        return Client(open_wire(around.target.url), around)

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
    ) -> ChatRequest:
        """Return the next request of a user; see `Plan.request`."""
        if self.plan is None or self.load is None or self.load.stopping.is_set():
            raise StopUser
        return self.plan.request(cls, prompt=prompt, messages=messages, overrides=overrides)

    def complete(self, user: Any, client: Client, request: ChatRequest) -> Completion:
        """Send one request for a user; it is in the ledger from here to its end."""
        load = self.load
        if load is None:
            raise StopUser
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
            self.load.stopping.set()
        if self.run is not None:
            self.run.stopping(self.ending.reason())
            self.ending.watch_drain()

    def _on_test_stop(self, **_: Any) -> None:
        if self.ended.is_set():
            return
        if isinstance(self.workers, WorkerSide):
            self.workers.report_final()
        elif isinstance(self.workers, Workers):
            self.workers.await_final()
        self.freeze()

    @property
    def stopping(self) -> bool:
        """Whether a run is being stopped but has not ended."""
        return self._stopping and not self.ended.is_set()

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
            self.run.freeze()
            log.info("Run %s has ended: %s", self.run.id, self.run.record.path)
        self._lag.stop()
        self.ended.set()


def _probe_text(completion: Completion) -> str:
    ttft = "n/a" if completion.ttft_s is None else f"{completion.ttft_s * 1e3:.0f} ms"
    tokens = "no token count" if completion.output_tokens is None else f"{completion.output_tokens} tokens"
    return f"{completion.outcome}, {tokens} ({completion.usage_source or 'n/a'}), first token after {ttft}"

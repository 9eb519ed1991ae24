"""Switches the phase that requests start in, in all processes of a run at once.

llmload_step     master → worker   {"run": id, "step": label or None}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event

from llmload.metrics.steps import WARMUP
from llmload.swarm.workers import Workers, WorkerSide

if TYPE_CHECKING:
    from llmload.swarm.session import Session

log = logging.getLogger("llmload")


class PhaseSwitch:
    """Switches the phase in all processes of a run; on a worker it follows the master."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.opening: tuple[str | None, Mapping[str, Any]] = (None, {})
        """The phase of the next run that follows its warm-up, and what there is to say of it."""
        self.opened = Event()
        """Set while a run goes on whose warm-up is over."""
        if isinstance(session.workers, WorkerSide):
            session.runner.register_message("llmload_step", self._on_step)

    def set(self, step: str | None, **facts: Any) -> None:
        """Label what starts from now on, here and in the workers; `facts` go into the run's record."""
        session = self._session
        if session.run is not None:
            session.run.begin_phase(step, facts)
        # a worker that joins later reads it with the options that its spawn message carries
        shared = vars(session.environment.parsed_options)["llmload_run"]
        shared["step"] = step
        self.label(step)
        if isinstance(session.workers, Workers):
            session.runner.send_message("llmload_step", {"run": shared["id"], "step": step})

    def label(self, step: str | None) -> None:
        """Label what starts from now on in this process."""
        if self._session.load is not None and self._session.plan is not None:
            self._session.load.set_step(step)
            self._session.plan.begin_step(step)

    def run_began(self, warmup_s: float | None) -> None:
        """Begin a run, with its warm-up where there is one."""
        self.opened.clear()
        if warmup_s is None:
            self._open()
        else:
            self.set(WARMUP)
            gevent.spawn_later(warmup_s, self._end_warmup, self._session.run)

    def _open(self) -> None:
        (step, facts), self.opening = self.opening, (None, {})
        self.set(step, **facts)
        self.opened.set()

    def _end_warmup(self, run: Any) -> None:
        if self._session.run is run and not self._session.stopping and not self._session.ended.is_set():
            self._open()
            log.info("The warm-up is over: what starts from now on is measured")

    def _on_step(self, environment: Any, msg: Any, **_: Any) -> None:
        load = self._session.load
        if load is not None and load.run_id == msg.data["run"]:
            self.label(msg.data["step"])

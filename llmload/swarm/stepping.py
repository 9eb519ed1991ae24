"""Holds one level after another, labels what starts in each, and says how each was as soon as that is known.

Runs in Locust's greenlet for shapes, on the master or in the local process; a stop of the run kills it at any point.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gevent

from llmload.metrics.objective import Objective
from llmload.metrics.stepped import Steps
from llmload.metrics.steps import settling, step_label
from llmload.pacing.sweep import Step, Sweep
from llmload.reports.sweep import head, step_row

if TYPE_CHECKING:
    from llmload.swarm.session import Session

USERS_WITHIN_S = 5.0
"""How much longer than the grace period may pass until the users of a level are there, before it is held as it is."""
SPAWN_S = 1.0
"""Users of a level are started over about so long: all at once they would queue behind each other."""

TELL_WITHIN_S = 60.0
"""A row is printed after so long, although some requests of its step go on; the report has them all."""
WORKERS_REPORT_S = 3.5
LOCAL_REPORT_S = 1.5
"""After so long every process has reported what went on at the end of a step."""

log = logging.getLogger("llmload")


def await_step(
    session: Session, label: str, *, course: str, within_s: float, objectives: Sequence[Objective] = ()
) -> dict[str, Any] | None:
    """Wait until every request of a step has ended and is reported, at most so long, and return what the step was
    like, as `metrics.stepped` has it; None where the run is over."""
    run = session.run
    gevent.sleep(WORKERS_REPORT_S if session.is_master else LOCAL_REPORT_S)
    with gevent.Timeout(within_s, False):
        while run is not None and run.summary is None and run.phases.in_flight(label, run.tallies):
            gevent.sleep(0.2)
    if run is None or run.summary is not None:
        return None
    about = run.about()
    steps = Steps(run.tallies, about, course=course, objectives=objectives)
    return steps.section([one for one in about["phases"] if one["step"] == label])


def axis_of(session: Session) -> str:
    """Return what a number of users is in this run: of open-loop users it is the rate."""
    return "rate" if session.setup.plan(session.setup.options).any_open else "users"


class Stepping:
    """The steps of one run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._runner = session.runner

    def sweep(self, sweep: Sweep) -> None:
        """Hold every level of a sweep."""
        axis = axis_of(self._session) if sweep.axis == "users" else sweep.axis
        log.info(
            "Sweep over %s: %s%s, about %.0f s", axis.replace("_", " "), ", ".join(map(str, sweep.levels)),
            f" in {sweep.rounds} rounds" if sweep.rounds > 1 else "", sweep.duration_s,
        )  # fmt: skip
        log.info("%s", head(axis))
        for step in sweep.steps():
            label = self.hold(step, course="sweep", axis=axis, settle_s=sweep.settle_s, measured_s=sweep.measured_s)
            gevent.spawn(self._tell, label, axis)
        if self._session.run is not None:
            self._session.run.stopping("the end of the sweep")

    def hold(self, step: Step, *, course: str, axis: str, settle_s: float, measured_s: float) -> str:
        """Hold one level: its users, the time in which it settles, the time that is measured. Returns its label."""
        label = step_label(step.level, step.round_)
        facts = {"course": course, "axis": axis, "level": step.level, "round": step.round_, "users": step.users}
        self._begin(settling(label), step.users, facts)
        self._await_users(step.users)
        gevent.sleep(settle_s)
        self._session.set_step(label, **facts)
        gevent.sleep(measured_s)
        return label

    def _tell(self, label: str, axis: str) -> None:
        """Say how a step was, once its requests have ended."""
        run = self._session.run
        section = await_step(self._session, label, course="sweep", within_s=TELL_WITHIN_S)
        if run is not None and run.summary is None and section is not None:
            log.info("%s", step_row(axis, label, section))

    def _begin(self, label: str, users: int, facts: dict[str, Any]) -> None:
        """Change the number of users; the first change begins the run, and its warm-up comes first."""
        session, change = self._session, abs(users - self._runner.user_count)
        rate = max(1.0, change / SPAWN_S)
        if not session.ended.is_set():
            session.set_step(label, **facts)
            self._runner.start(users, rate)
            return
        session.phases.opening = (label, facts)
        self._runner.start(users, rate)
        session.phases.opened.wait()

    def _await_users(self, users: int) -> None:
        """Wait until as many users are there: those that have to go finish their answers first."""
        limit_s = (self._session.environment.stop_timeout or 0) + USERS_WITHIN_S
        with gevent.Timeout(limit_s, False):
            while self._runner.user_count != users:
                gevent.sleep(0.05)
            return
        log.warning("%d users are there where %d were asked for", self._runner.user_count, users)

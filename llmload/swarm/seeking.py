"""Searches for the capacity of a server: holds the levels that `metrics.search` asks for, and judges each.

A level is judged when its requests have ended, and until then its load goes on, so that the slowest of them are not
measured on a server that rests. Requests that have not ended by then count against the level.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from llmload.errors import SetupError
from llmload.metrics.objective import Objective
from llmload.metrics.objectives import parse_objectives
from llmload.metrics.search import ENDS, End, Search
from llmload.metrics.steps import settling
from llmload.pacing.course import CapacitySearch
from llmload.pacing.sweep import Step
from llmload.reports.sweep import head, step_row
from llmload.swarm.stepping import Stepping, await_step, axis_of

if TYPE_CHECKING:
    from llmload.swarm.session import Session

UNFINISHED_SHARE = 0.01
"""Above this share of requests that have not ended in time a level does not hold, whatever the others were like."""
MIN_WAIT_S = 10.0
"""So long, or as long as the step was measured, the last requests of a step are waited for."""

log = logging.getLogger("llmload")


def sought(course: CapacitySearch) -> tuple[Objective, ...]:
    """Return the objectives of a search.

    Raises:
        SetupError: they do not parse, or are about what a step does not have.
    """
    objectives = parse_objectives([course.objectives], where="--find-capacity")
    for one in objectives:
        if one.scope or one.metric in ("goodput", "goodput_rate"):
            raise SetupError(
                f"--find-capacity cannot look at {one.text!r}",
                "give objectives on a whole step, e.g. p95(ttft) < 1s",
            )
    return objectives


class Seeking:
    """One search."""

    def __init__(self, session: Session, course: CapacitySearch) -> None:
        self._session = session
        self._course = course
        self._objectives = sought(course)
        self._stepping = Stepping(session)
        self._axis = axis_of(session)
        self._times: Counter[int] = Counter()
        self._until_s = time.monotonic() + course.time_s

    def run(self) -> None:
        """Measure level after level until the search ends or the time is up."""
        search, course = Search(limit=self._course.limit), self._course
        log.info("Looking for the capacity under %s, for at most %.0f s", course.objectives, course.time_s)
        log.info("%s", head(self._axis))
        while (level := search.next()) is not None:
            if time.monotonic() + course.step_s > self._until_s and self._times:
                self._end("time")
                return
            search.tell(level, self._measure(level))
        self._end(search.ended or "stopped")

    def _measure(self, level: int) -> bool:
        """Hold a level once and return whether it met the objectives."""
        self._times[level] += 1
        course, step = self._course, Step(level, self._times[level], level)
        facts = {"course": "capacity", "axis": self._axis}
        label = self._stepping.hold(step, **facts, settle_s=course.settle_s, measured_s=course.measured_s)
        self._session.set_step(settling(label), **facts, level=level, users=level)
        section = await_step(
            self._session,
            label,
            course="capacity",
            within_s=max(MIN_WAIT_S, course.measured_s),
            objectives=self._objectives,
        )
        verdict = _verdict(section)
        if section is not None and self._session.run is not None:
            self._session.run.phases.judge(label, verdict)
            said = "holds" if verdict["held"] else "misses " + "; ".join(verdict["misses"])
            log.info("%s  %s", step_row(self._axis, label, section), said)
        return bool(verdict["held"])

    def _end(self, end: End) -> None:
        run = self._session.run
        if run is not None:
            run.say(capacity={"ended": end, "objectives": [one.text for one in self._objectives]})
            run.stopping(f"the end of the search ({ENDS[end]})")


def _verdict(section: dict[str, Any] | None) -> dict[str, Any]:
    """Return whether a step held, and what it missed."""
    if section is None:
        return {"held": False, "misses": [], "unfinished": 0}
    ledger, misses = section["ledger"], list(section["misses"])
    unfinished = ledger["in_flight"]
    if unfinished > UNFINISHED_SHARE * ledger["started"]:
        misses.append(f"{unfinished} of {ledger['started']} requests had not ended")
    return {"held": not misses, "misses": misses, "unfinished": unfinished}

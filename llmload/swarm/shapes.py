"""Load shapes: how the number of users goes over time, told to Locust on the master or in the local process.

`--stages`, `--sweep` and `--find-capacity` choose one; a locustfile may bring its own stages:

    from llmload import ChatUser, StagesShape

    class Spike(StagesShape):
        stages = "30s:50, 2m:50, 10s:200, 1m:200, 20s:0"

For open-loop users the number of users is the rate in requests per second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gevent
from locust import LoadTestShape

from llmload.errors import SetupError
from llmload.load_config import LoadSettings
from llmload.pacing.course import CapacitySearch, course_of
from llmload.pacing.stages import Stages, parse_stages
from llmload.pacing.sweep import Sweep
from llmload.swarm.seeking import Seeking, sought
from llmload.swarm.stepping import Stepping

if TYPE_CHECKING:
    from llmload.swarm.session import Session

SPAWN_RATE = 100.0
"""Users started or stopped per second and worker where a shape jumps; Locust warns of more."""

UNTIL_THERE_S = 2.0
"""So long after the beginning of a hold its users are there: Locust asks once a second, and workers answer."""
TICK_S = 1.0
"""How often Locust asks."""


class _Shape(LoadTestShape):
    """A shape of ours; the page keeps its fields for users and spawn rate, which the shape does not read."""

    abstract = True
    use_common_options = True

    @property
    def session(self) -> Session:
        runner: Any = self.runner
        session: Session = runner.environment.llmload
        return session


class StagesShape(_Shape):
    """The number of users in straight lines from stage to stage; the run ends with the last."""

    abstract = True

    stages: ClassVar[str] = ""
    """Such as `30s:50, 2m:50, 20s:0`: in 30 s to 50 users, 2 minutes at 50, in 20 s down to none."""

    def course(self) -> Stages:
        """Return the stages.

        Raises:
            SetupError: they make no sense.
        """
        return parse_stages(self.stages, where=f"{type(self).__name__}.stages")

    def tick(self) -> tuple[int, float] | None:
        """Return users and spawn rate of this moment; None, just when the last stage ends."""
        course, elapsed_s, runner = self.course(), self.get_run_time(), self.session.runner
        wanted = int((course.at(elapsed_s) or 0) + 0.5), SPAWN_RATE * max(1, runner.worker_count)
        left_s = course.duration_s - elapsed_s
        if left_s > TICK_S:
            return wanted
        if left_s > 0:  # Locust would come again after the end
            runner.start(*wanted)
            gevent.sleep(left_s)
        if self.session.run is not None:
            self.session.run.stopping("the end of the stages")
            self._mark_steady(course)
        return None

    def _mark_steady(self, course: Stages) -> None:
        """Mark the longest hold, less the time until its users are there, as the steady part of the run."""
        holds = [(end_s - from_s, from_s + UNTIL_THERE_S, end_s, users) for from_s, end_s, users in course.holds()]
        longest = max(holds, default=None)
        if longest is not None and longest[0] >= UNTIL_THERE_S + 2 and self.session.run is not None:
            _, from_s, end_s, users = longest
            started_s = self.session.setup.clock.now_s() - self.get_run_time()
            self.session.run.held(started_s + from_s, started_s + end_s, users)


class OptionStages(StagesShape):
    """The stages of `--stages`."""

    def course(self) -> Stages:
        course = course_of(self.session.setup.load)
        assert isinstance(course, Stages)
        return course


class StepsShape(_Shape):
    """Steps, of a sweep or a search. They follow what the run does, not a clock: one tick drives them all."""

    def tick(self) -> None:
        """Go through all steps and return when the last is over."""
        course = course_of(self.session.setup.load)
        if isinstance(course, Sweep):
            Stepping(self.session).sweep(course)
        elif isinstance(course, CapacitySearch):
            Seeking(self.session, course).run()


def why_unsteady(shape: Any) -> str:
    """Return why a run under a load shape has no steady part, in a few words."""
    if isinstance(shape, StepsShape):
        return "the load went in steps; each has a window of its own"
    return "a load shape changed the number of users"


def choose(session: Session, load: LoadSettings) -> None:
    """Give Locust the shape that these settings ask for, or the locustfile's own.

    Raises:
        SetupError: the settings make no sense, or the locustfile has a shape as well.
    """
    course, own = course_of(load), session.setup.own_shape
    if isinstance(own, StagesShape):
        own.course()
    if isinstance(course, CapacitySearch):
        sought(course)
    if course is not None and own is not None:
        raise SetupError(
            f"the locustfile has a load shape of its own ({type(own).__name__})", "remove it, or leave the option out"
        )
    shape: Any = own
    if course is not None:
        shape = OptionStages() if isinstance(course, Stages) else StepsShape()
        shape.runner = session.runner
    session.environment.shape_class = shape

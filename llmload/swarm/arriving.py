"""One user of an open loop: an arrival process. Each arrival runs a task of the user in a greenlet of its own.

What Locust asks of a user stays true. A user that is stopped starts nothing more, and its greenlet ends once what it
has under way has ended; a user that is killed cancels what it has under way, and each of those requests is in the
ledger before its greenlet is gone.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from gevent import Greenlet, GreenletExit, getcurrent
from gevent.event import Event
from gevent.pool import Group
from locust.exception import InterruptTaskSet, RescheduleTask, RescheduleTaskImmediately, StopTest, StopUser
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING, DefaultTaskSet

from llmload.workload.prompts import Prompt

if TYPE_CHECKING:
    from llmload.swarm.schedule import Schedule

log = logging.getLogger("llmload")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request that is to start."""

    at_s: float
    """Since the start of the run."""
    due_ns: int
    """The intended start, monotonic."""
    prompt: Prompt | None = None
    """What a trace wants to be asked; None: the next prompt of the prompt set."""
    max_tokens: int | None = None
    position: int | None = None
    """Which prompt of the set it asks; None: the next one."""


def current_arrival() -> Arrival | None:
    """Return the arrival that the calling greenlet runs for, unless a request has started for it already."""
    return getattr(getcurrent(), "arrival", None)


def use_arrival() -> None:
    """The request of the calling greenlet's arrival starts now; those that follow it in the same task are not due at
    any moment, but when the one before has ended."""
    getcurrent().arrival = None


class ArrivalProcess:
    """Runs a user's tasks when its arrivals are due.

    Args:
        user: the Locust user.
        schedule: says when, and counts.
    """

    def __init__(self, user: Any, schedule: Schedule) -> None:
        self._user = user
        self._schedule = schedule
        self._woken = Event()
        self._stop_ns: int | None = None
        self._under_way = Group()
        self.arriving = False
        """Whether more is to come: not stopped, and not at the end of a trace."""

    def start(self, group: Group) -> Greenlet:
        """Start the user's greenlet; see `User.start`."""
        user = self._user
        self.arriving = True
        self._schedule.join(self)
        user._greenlet, user._group = group.spawn(_run, user), group
        user._greenlet.rawlink(lambda _: self._schedule.leave(self))
        return user._greenlet

    def stop(self, force: bool) -> bool:
        """Stop the user; see `User.stop`. What is under way may end, unless `force`."""
        user = self._user
        if force or user._state is None:
            user._group.killone(user._greenlet)
            return True
        user._state = LOCUST_STATE_STOPPING
        self.stop_arriving()
        return False

    def stop_arriving(self) -> None:
        """Start nothing from now on."""
        if self._stop_ns is None:
            self._stop_ns = monotonic_ns()
            self._nothing_more()
            self.wake()

    def _nothing_more(self) -> None:
        self._schedule.count_time()
        self.arriving = False

    def wake(self) -> None:
        """Look anew at what comes next."""
        self._woken.set()

    def run(self) -> None:
        """Live the user's life: what `User.run` does, with arrivals instead of turns."""
        user = self._user
        user._state = LOCUST_STATE_RUNNING
        user._taskset_instance = DefaultTaskSet(user)
        try:
            self._on_start()
            self._arrive()
            self._under_way.join()
            user.on_stop()
        except (GreenletExit, StopUser, StopTest):
            self._end()
            user.on_stop()
        finally:
            self._end()

    def _on_start(self) -> None:
        try:
            self._user.on_start()
        except Exception as error:
            if not isinstance(error, (StopUser, StopTest)):
                self._tell_error(error)
            raise

    def _arrive(self) -> None:
        for arrival in self._due():
            if self._stop_ns is not None:
                self._schedule.missed(arrival, self._stop_ns)
            elif self._schedule.take():
                greenlet = self._under_way.spawn(self._task)
                greenlet.arrival = arrival
                greenlet.rawlink(self._ended)

    def _due(self) -> Iterator[Arrival]:
        """Yield each arrival when it is due; those that are when the user is stopped, then end."""
        after_s = self._schedule.now_s()
        while self._stop_ns is None:
            self._woken.clear()
            upcoming = self._schedule.upcoming(self, max(after_s, self._schedule.since_s))
            for arrival in upcoming or ():
                self._wait_until(arrival.due_ns)
                if self._stop_ns is not None and arrival.due_ns > self._stop_ns:
                    return
                if self._stop_ns is None and self._woken.is_set() and arrival.at_s > self._schedule.since_s:
                    break  # another share holds from then on
                after_s = arrival.at_s
                yield arrival
            else:
                if upcoming is not None:
                    self._nothing_more()
                self._woken.wait()

    def _wait_until(self, due_ns: int) -> None:
        # a timer may be early by what the loop was late
        while (left_ns := due_ns - monotonic_ns()) > 0 and not self._woken.wait(left_ns / 1e9):
            pass

    def _task(self) -> None:
        """Run one task for one arrival."""
        tasks = self._user._taskset_instance
        try:
            tasks.execute_task(tasks.get_next_task())
        except (InterruptTaskSet, RescheduleTask, RescheduleTaskImmediately):
            pass
        except (StopUser, StopTest):
            self.stop_arriving()
        except Exception as error:
            self._tell_error(error)

    def _tell_error(self, error: Exception) -> None:
        log.error("%s\n%s", error, traceback.format_exc())
        self._user.environment.events.user_error.fire(user_instance=self._user, exception=error, tb=error.__traceback__)

    def _ended(self, greenlet: Any) -> None:
        self._schedule.ended()
        if greenlet.arrival is not None:
            self._schedule.unsent(greenlet.arrival, self._stop_ns)

    def _end(self) -> None:
        """Cancel what is under way; it is in the ledger when this returns."""
        self.stop_arriving()
        self._under_way.kill()


def _run(user: Any) -> None:
    """The user's greenlet; Locust finds the user as its first argument."""
    user.process.run()

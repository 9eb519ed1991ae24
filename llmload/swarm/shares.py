"""Who runs which arrival process: told by the process that knows all users, whenever their number has changed.

llmload_share    master → worker   {"run": id, "first", "own", "total", "from_s", "offset_s"}: see `Share`; `offset_s`
                                   is the worker's clock minus the master's

A share holds from a moment a little later on, the same for all workers, so that an arrival whose process moves from
one worker to another is sent once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gevent

from llmload.swarm.schedule import Share
from llmload.swarm.workers import WorkerSide

if TYPE_CHECKING:
    from llmload.swarm.run import Run
    from llmload.swarm.session import Session

log = logging.getLogger("llmload")

AHEAD_S = 1.0
"""How much later than it is told a share holds: longer than a message to a worker takes."""

READY_S = 0.1
"""How much earlier a trace is dealt: its first requests are due the moment that it holds."""


class Shares:
    """Tells (local, master) or is told (worker)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        if isinstance(session.workers, WorkerSide):
            session.runner.register_message("llmload_share", self._on_share)
        else:
            session.environment.events.spawning_complete.add_listener(self._on_spawned)
        self._dealing: gevent.Greenlet | None = None

    def _on_spawned(self, **_: Any) -> None:
        session = self._session
        if session.plan is None or session.run is None or session.ended.is_set() or not session.plan.any_open:
            return
        if session.is_master:
            if self._dealing is not None:
                self._dealing.kill(block=False)
            self._dealing = gevent.spawn(self._deal, session.run)
            return
        users = self._open_users(session.runner.user_classes_count)
        self._take(Share(0, users, users, from_s=_since_s(session)))

    def _deal(self, run: Run) -> None:
        """Tell every worker. Locust says that spawning is complete a second after it should be, whether or not the
        workers have said so."""
        session, plan = self._session, self._session.plan
        while session.runner.user_count != session.runner.target_user_count:
            gevent.sleep(0.05)
            if session.run is not run or session.stopping or session.ended.is_set():
                return
        counts = {client.id: self._open_users(client.user_classes_count) for client in session.runner.clients.all}
        idle = sum(not count for count in counts.values())
        if idle and plan is not None and plan.trace is not None:
            log.warning("%d of %d workers have nothing to replay: tell --expect-workers", idle, len(counts))
        first, from_s = 0, _since_s(session) + AHEAD_S
        for client_id, own in sorted(counts.items()):
            told = {"run": run.id, "first": first, "own": own, "total": sum(counts.values()), "from_s": from_s}
            told["offset_s"] = session.workers.clock_offset_s(client_id)  # type: ignore[union-attr]
            session.runner.send_message("llmload_share", told, client_id=client_id)
            first += own

    def _open_users(self, counts: Mapping[str, int]) -> int:
        session = self._session
        open_names = {cls.__name__ for cls in session.setup.chat_classes if session.plan and session.plan.is_open(cls)}
        return sum(count for name, count in counts.items() if name in open_names)

    def _on_share(self, environment: Any, msg: Any, **_: Any) -> None:
        data, load = msg.data, self._session.load
        if load is None or load.run_id != data["run"]:
            return
        share = Share(data["first"], data["own"], data["total"], data["from_s"])
        self._take(share, offset_s=data["offset_s"])

    def _take(self, share: Share, *, offset_s: float = 0.0) -> None:
        load = self._session.load
        if load is None or load.schedule is None or not share.total:
            return
        load.schedule.correct_clock(offset_s)
        wait_s = share.from_s - load.schedule.now_s() - (READY_S if load.schedule.traced else 0)
        if wait_s > 0:
            gevent.spawn_later(wait_s, load.schedule.take_share, share)
        else:
            load.schedule.take_share(share)


def _since_s(session: Session) -> float:
    """Return the seconds since the start of the run, on the clock that all processes count from."""
    shared = vars(session.environment.parsed_options)["llmload_run"]
    return session.setup.clock.now_s() - float(shared["at"])

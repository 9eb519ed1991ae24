"""How a run begins in one process: the plan, the run id and who takes part, the record, the load.

Called at Locust's `test_start`. The master or local process makes up what all processes of a run share; Locust carries
it to the workers inside the options, and each worker checks that it can take part.
"""

from __future__ import annotations

import gc
import inspect
import logging
import random
import time
from collections.abc import Mapping
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import gevent

import llmload
from llmload.errors import SetupError
from llmload.sinks.calibration import held_events_per_second
from llmload.sinks.record import RunRecord, new_run_id
from llmload.surroundings import WallClock
from llmload.swarm.about import about_run
from llmload.swarm.fitting import check_cap
from llmload.swarm.load import Load
from llmload.swarm.plan import Plan
from llmload.swarm.run import Run
from llmload.swarm.schedule import Schedule
from llmload.swarm.workers import Workers, WorkerSide

if TYPE_CHECKING:
    from llmload.swarm.session import Session

log = logging.getLogger("llmload")

LATE_PLACE = 10**6
"""From here on arrival processes of workers that join a run are numbered until the master deals anew: none twice."""


def start(session: Session) -> None:
    """Begin a run in this process.

    Raises:
        LlmloadError: it cannot begin.
    """
    options = vars(session.environment.parsed_options)
    shared = _shared(session, options)
    plan = session.plan = session.setup.plan(session.setup.options)
    if session.is_worker:
        _check_worker(plan, shared)
    check_cap(plan.arrivals, len(shared["members"]))
    shared["prompts"], shared["version"] = plan.fingerprints, llmload.__version__
    options["llmload_run"] = shared
    session.around.clear()
    session.setup.clock = WallClock()  # anchored anew: the wall clock may have been stepped since the last run
    shared.setdefault("at", session.setup.clock.now_s())
    if not session.is_worker:
        _begin_run(session, plan, str(shared["id"]))
    if not session.is_master:
        _begin_load(session, plan, shared)
    session.began()


def _shared(session: Session, options: Mapping[str, Any]) -> dict[str, Any]:
    if session.is_worker:
        return dict(options.get("llmload_run") or {})
    members = session.workers.ready() if isinstance(session.workers, Workers) else ["local"]
    run_id = new_run_id(time.time(), random.SystemRandom())
    return {"id": run_id, "members": members, "users": options.get("num_users")}


def _check_worker(plan: Plan, shared: Mapping[str, Any]) -> None:
    if shared.get("version") != llmload.__version__:
        raise SetupError(
            f"this worker has llmload {llmload.__version__}, the master {shared.get('version')}", "install the same"
        )
    if shared.get("prompts") not in (None, plan.fingerprints):
        raise SetupError("this worker has other prompts than the master", "give both the same prompts file")


def _begin_run(session: Session, plan: Plan, run_id: str) -> None:
    record = RunRecord.create(plan.settings.run_dir, run_id)
    session.run = Run(
        record,
        sinks=session.setup.sinks,
        process="master" if session.is_master else "local",
        about=about_run(session, plan, run_id),
        now_s=session.setup.clock.now_s,
        exceptions=lambda: sum(row["count"] for row in session.runner.exceptions.values()),
        abort_after=plan.settings.abort_after,
        abort_on=session.setup.gates(session.setup.options).abort_on,
    )
    log.info("Run %s: the record goes to %s", run_id, record.path)
    session.ending.run_began()
    if isinstance(session.workers, Workers):
        session.workers.run_began()
    gevent.spawn(session.collect)


def _begin_load(session: Session, plan: Plan, shared: Mapping[str, Any]) -> None:
    index, name = 0, "local"
    if isinstance(session.workers, WorkerSide):
        index, name = session.workers.place(shared["members"])
    plan.deal(worker_index=index, worker_count=len(shared["members"]), run_id=str(shared["id"]))
    # what blocks the loop the first time it happens must not happen while 200 users start: certificates, imports,
    # and a full collection of everything that was loaded so far, now or ever again
    plan.wire(next(iter(plan.targets))).close()
    # and the look at all modules with which Locust's stop asks who called it: 0.1 s, while answers are under way
    inspect.stack()
    gc.collect()
    gc.freeze()
    session.lag.start()
    run_id, held = str(shared["id"]), held_events_per_second()
    session.load = Load(
        session.environment,
        run_id=run_id,
        worker=name,
        lag=session.lag,
        now_s=session.setup.clock.now_s,
        held_events_per_second=held,
    )
    session.phases.label(shared.get("step"))
    if plan.any_open:
        late = LATE_PLACE + session.runner.worker_index if name.endswith("-late") else 0
        session.load.schedule = _schedule(session, plan, shared, place=index + late)


def _schedule(session: Session, plan: Plan, shared: Mapping[str, Any], *, place: int) -> Schedule:
    """Return when requests start here. All processes count from the same instant, as far as their clocks agree."""
    assert session.load is not None
    began_ns = session.setup.clock.monotonic_ns(float(shared["at"]))
    all_open = all(plan.is_open(cls) for cls in plan.targets) and session.environment.shape_class is None
    return Schedule(
        plan.arrivals,
        arrivals=plan.arrival_model,
        rate=plan.process_rate,
        start_ns=min(began_ns, monotonic_ns()),  # not in the future, however wrong this clock is
        place=place,
        workers=len(shared["members"]),
        planned=shared.get("users") if all_open else None,
        trace=plan.trace,
        is_open=plan.is_open,
    )

"""What master and workers say to each other beyond Locust's own messages.

Records and histograms travel inside Locust's periodic report (`report_to_master`, `worker_report`). The messages here:

    llmload_stop     master → worker   {"run": id}: stop, finish or cancel what is under way, send the final report
    llmload_cut      master → worker   cut the grace period short
    llmload_clock    both ways         {"t0": master's unix ns, "worker_ns": worker's unix ns}: the clock offset
    llmload_problem  worker → master   {"what": text}: this worker cannot run
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gevent
from locust import argument_parser, runners
from locust.runners import STATE_MISSING

from llmload.metrics.tally import Tallies
from llmload.swarm.member import Member
from llmload.swarm.run import Run

if TYPE_CHECKING:
    from llmload.swarm.session import Session

FINAL_MARGIN_S = 10.0
"""How much longer than the grace period the master waits for the final report of a worker."""
MASTER_SILENCE_S = 15
"""A worker that has not heard from its master for so long stops and quits."""
REPORT_S = 1.0
"""A worker reports so often: a run is shown second by second."""
GRACEFUL_S = 5.0
"""A worker that leaves in good order so shortly before the master stops met the same Ctrl-C."""

log = logging.getLogger("llmload")


class Workers:
    """The master's side."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._runner = session.runner
        self._names: dict[str, str] = {}
        self._clock_rtt_s: dict[str, float] = {}
        session.environment.events.worker_report.add_listener(self._on_report)
        self._runner.register_message("llmload_clock", self._on_clock)
        self._runner.register_message("llmload_problem", self._on_problem)

    def ready(self) -> list[str]:
        """Return the client ids of the workers that take part from the start, in the order of their index."""
        active = [client.id for client in self._runner.clients.all if client.state != STATE_MISSING]
        return sorted(active, key=self._runner.get_worker_index)

    def run_began(self) -> None:
        """A run begins: every worker that is there is expected to report, to its end."""
        run = self._session.run
        if run is None:
            return
        self._names = {client_id: worker_name(place) for place, client_id in enumerate(self.ready())}
        self._clock_rtt_s.clear()
        for name in self._names.values():
            run.members[name] = Member()
            run.series.note("worker_joined", f"{name} takes part")
        gevent.spawn(self._ask_clocks)

    def check(self) -> bool:
        """Look for workers that are gone; return whether none is left of those that took part."""
        run = self._session.run
        if run is None or not self._names:
            return False
        for client_id, name in self._names.items():
            member = run.members[name]
            gone = self._gone(client_id)
            if gone is None or member.lost is not None:
                continue
            if member.final:
                member.left_at = member.left_at or time.time()
                if not self._session.stopping and time.time() - member.left_at > GRACEFUL_S:
                    member.lost = "it left while the run went on"
            else:
                member.lost = gone
            if member.lost:
                log.error("%s is lost: %s", name, member.lost)
                run.series.note("worker_lost", f"{name} was lost", member.lost)
        return all(run.members[name].lost or run.members[name].left_at for name in self._names.values())

    def _gone(self, client_id: str) -> str | None:
        client = self._runner.clients.get(client_id)
        if client is None:
            return "its connection ended"
        return "it sent no heartbeat" if client.state == STATE_MISSING else None

    def await_final(self) -> None:
        """Stop the workers and wait for their final reports; a worker that is gone is not waited for."""
        run = self._session.run
        if run is None:
            return
        if not self._names:
            return
        self._to_members("llmload_stop", {"run": run.id})
        give_up_at = time.monotonic() + self._session.environment.stop_timeout + FINAL_MARGIN_S
        while time.monotonic() < give_up_at:
            self.check()
            if all(run.members[name].final or run.members[name].lost for name in self._names.values()):
                return
            gevent.sleep(0.05)
        for name in self._names.values():
            if not run.members[name].final and not run.members[name].lost:
                run.members[name].lost = "its final report never came"

    def cut_short(self) -> None:
        """Tell the workers to cancel what is under way now."""
        self._to_members("llmload_cut", {})

    def _to_members(self, message: str, data: dict[str, Any]) -> None:
        for client_id in self._names:
            if self._gone(client_id) is None:
                self._runner.send_message(message, data, client_id=client_id)

    def _on_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.pop("llmload", None)
        run = self._session.run
        # a report of an earlier run may come late; its sender is no member of this one
        if report is not None and run is not None and report["run"] == run.id and run.summary is None:
            self._names.setdefault(client_id, report["worker"])
            run.absorb(self._on_our_clock(run, report))

    def _on_our_clock(self, run: Run, report: dict[str, Any]) -> dict[str, Any]:
        """Return a report with its times moved onto the master's clock, by whole seconds: a throughput window takes
        whole seconds too, and what was summed on the worker can be moved by no less."""
        tallies, completions = Tallies.from_wire(report["tallies"]), report["completions"]
        member = run.members.setdefault(report["worker"], Member())
        if member.shift_s is None:
            member.shift_s = -round(member.clock_offset_s or 0)
        if member.shift_s:
            tallies.shift(member.shift_s)
            shift_ns = member.shift_s * 10**9
            completions = [{**one, "started_unix_ns": one["started_unix_ns"] + shift_ns} for one in completions]
        return {**report, "at": report["at"] + member.shift_s, "tallies": tallies, "completions": completions}

    def _on_problem(self, environment: Any, msg: Any, **_: Any) -> None:
        run, name = self._session.run, self._names.get(msg.node_id)
        if run is not None and name is not None:
            run.members[name].lost = f"it cannot run: {msg.data['what']}"
            log.error("%s is lost: %s", name, run.members[name].lost)
            run.series.note("worker_lost", f"{name} was lost", run.members[name].lost or "")
            gevent.spawn(self._session.stop, "bad set-up of a worker")

    def clock_offset_s(self, client_id: str) -> float:
        """Return a worker's clock minus the master's; 0 where that is not known, or less than what it may be wrong by:
        processes of one machine have one clock."""
        run, name = self._session.run, self._names.get(client_id)
        offset_s = run.members[name].clock_offset_s if run is not None and name in run.members else None
        unsure_s = self._clock_rtt_s.get(name or "", 0.0) / 2
        return offset_s if offset_s is not None and abs(offset_s) > unsure_s else 0.0

    def _ask_clocks(self) -> None:
        for _ in range(3):
            self._runner.send_message("llmload_clock", {"t0": time.time_ns()})
            gevent.sleep(0.5)

    def _on_clock(self, environment: Any, msg: Any, **_: Any) -> None:
        """Of several answers the one with the shortest way counts: half of it is how wrong the offset can be."""
        now_ns, name = time.time_ns(), self._names.get(msg.node_id)
        rtt_s = (now_ns - msg.data["t0"]) / 1e9
        run = self._session.run
        if run is not None and name in run.members and rtt_s < self._clock_rtt_s.get(name, 1e9):
            self._clock_rtt_s[name] = rtt_s
            middle_ns = (now_ns + msg.data["t0"]) // 2
            run.members[name].clock_offset_s = (msg.data["worker_ns"] - middle_ns) / 1e9


class WorkerSide:
    """A worker's side."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._runner = session.runner
        session.environment.events.report_to_master.add_listener(self._on_report)
        self._runner.register_message("llmload_stop", self._on_stop, concurrent=True)
        self._runner.register_message("llmload_cut", self._on_cut)
        self._runner.register_message("llmload_clock", self._on_clock)
        self._final = False
        # Locust's worker would go on loading the server for a minute after its master has died
        runners.MASTER_HEARTBEAT_TIMEOUT = MASTER_SILENCE_S
        runners.WORKER_REPORT_INTERVAL = REPORT_S
        # Locust asks for these once per option and message, and builds its whole parser each time: 0.1 to 0.6 s of a
        # blocked loop whenever the number of users changes
        argument_parser.default_args_dict = functools.cache(argument_parser.default_args_dict)

    def place(self, members: Sequence[str]) -> tuple[int, str]:
        """Return this worker's place among the run's workers, and its name in the record."""
        self._final = False
        if self._runner.client_id in members:
            place = list(members).index(self._runner.client_id)
            return place, worker_name(place)
        # joined later: it shares the prompts of one that was there
        place = max(self._runner.worker_index, 0)
        return place % max(len(members), 1), f"{worker_name(place)}-late"

    def complain(self, what: str) -> None:
        """Tell the master that this worker cannot run."""
        self._runner.send_message("llmload_problem", {"what": what})

    def report_final(self) -> None:
        """Send the last report of this run, now: Locust sends its own only when the process quits."""
        self._final = True
        data: dict[str, Any] = {}
        self._session.environment.events.report_to_master.fire(client_id=self._runner.client_id, data=data)
        self._runner.send_message("stats", data)
        # Locust's worker sleeps for the grace period again after a stop; what is under way is done already. The next
        # spawn message brings the value back.
        self._session.environment.stop_timeout = 0

    def _on_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        session = self._session
        if session.load is not None and session.plan is not None and not session.ended.is_set():
            report = session.load.report(repeats=session.plan.served, final=self._final)
            data["llmload"] = {**report, "tallies": report["tallies"].to_wire()}

    def _on_stop(self, environment: Any, msg: Any, **_: Any) -> None:
        session, load = self._session, self._session.load
        # a worker that met the same Ctrl-C, or Locust's own stop message, is stopping already
        over = session.stopping or session.ended.is_set()
        if load is not None and load.run_id == msg.data["run"] and not over:
            load.stop()  # now: Locust looks at its call stack first, for half a second on a busy machine
            self._runner.stop()

    def _on_cut(self, environment: Any, msg: Any, **_: Any) -> None:
        self._session.cut_short()

    def _on_clock(self, environment: Any, msg: Any, **_: Any) -> None:
        self._runner.send_message("llmload_clock", {"t0": msg.data["t0"], "worker_ns": time.time_ns()})


def worker_name(place: int) -> str:
    """Return the name of the worker at a place among the run's workers, as it stands in the record."""
    return f"worker-{place}"

"""One run, as the process knows it that collects it: the local one or the master.

Takes the reports of the processes that carry the load, keeps the record, and freezes one summary, from which every
output is made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llmload.metrics.abort import Rule, Watch
from llmload.metrics.arrivals import merged
from llmload.metrics.histogram import Histogram
from llmload.metrics.ledger import Ledger
from llmload.metrics.recent import Recent
from llmload.metrics.steps import WARMUP, is_measured
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.sinks.record import RunRecord
from llmload.sinks.sink import Sink
from llmload.swarm.limits import Limits
from llmload.swarm.member import Member
from llmload.swarm.phases import Phases
from llmload.swarm.series import Series

RECENT_S = 10.0
"""What the progress of a run looks at."""

log = logging.getLogger("llmload")


class Run:
    """Collects one run.

    Args:
        record: the run's directory, already made.
        sinks: where the numbers go beside it.
        process: name of this process in the time series, `local` or `master`.
        exceptions: counts what user classes have raised so far.
        now_s: unix seconds on the clock that the completions of this process are stamped with.
        about: what `run.json` says of the run from its start on: id, settings, versions, command line, hosts.
        abort_on: rules that end the run early.
        abort_after: failures without a single success after which the run is not worth going on; 0 is never.
    """

    def __init__(
        self,
        record: RunRecord,
        *,
        sinks: Sequence[Sink] = (),
        process: str = "local",
        about: Mapping[str, Any],
        now_s: Callable[[], float],
        exceptions: Callable[[], int] = int,
        abort_after: int = 0,
        abort_on: Iterable[Rule] = (),
    ) -> None:
        self.record = record
        self.members: dict[str, Member] = {}
        self.tallies = Tallies()
        self.limits = Limits()
        self.phases = Phases()
        self.summary: dict[str, Any] | None = None
        self._abort_after = abort_after
        self._now_s = now_s
        self._exceptions = exceptions
        self._lags = Histogram(1_000_000)
        self._problems: list[str] = []
        self.recent = Recent(RECENT_S, dict.fromkeys(("ttft_s", "itl_s", "read_delay_s"), ("p50", "p95")))
        self._watch = Watch(abort_on, started_at_s=now_s())
        self._about: dict[str, Any] = {**about, "started_at": now_s()}
        self._steady_from: float | None = None
        self._steady_missing: str | None = None
        self._stopped_at: float | None = None
        self._ended_by: str | None = None
        self.series = Series(
            self.id,
            sinks=[record, *sinks],
            process=process,
            now_s=now_s,
            started_at=self._about["started_at"],
        )
        self.save()

    @property
    def id(self) -> str:
        return str(self._about["id"])

    @property
    def started_at(self) -> float:
        """When it began, unix seconds."""
        return float(self._about["started_at"])

    @property
    def ledger(self) -> Ledger:
        """The ledger over all members, as of their last reports."""
        total = Ledger()
        for member in self.members.values():
            total.merge(member.ledger)
        return total

    @property
    def hopeless(self) -> bool:
        """Whether the first requests have all failed, so many that the rest will."""
        ledger = self.ledger
        return bool(self._abort_after) and ledger.ok == 0 and ledger.failed >= self._abort_after

    def abort_reason(self) -> str | None:
        """Return why one of the rules of --abort-on ends this run now, or None."""
        breach = self._watch.breach(self._now_s())
        if breach is None:
            return None
        self._about["aborted"] = breach
        log.error("%s: %s", breach["text"], breach["why"])
        self.series.note("aborted", breach["text"], breach["why"])
        return f"{breach['text']} ({breach['why']})"

    @property
    def offered_rate(self) -> float | None:
        """The rate that the arrivals of an open loop have now, requests per second; None in a closed loop."""
        counts = merged(member.arrivals for member in self.members.values())
        return None if counts is None else counts["rate"]

    @property
    def replayed(self) -> bool:
        """Whether a trace was replayed to its end, and everything has ended."""
        there = [member for member in self.members.values() if member.lost is None]
        done = [member.arrivals is not None and member.arrivals["done"] for member in there]
        return bool(done) and all(done) and sum(member.ledger.in_flight for member in there) == 0

    @property
    def latest(self) -> dict[str, Any] | None:
        """The newest second of the whole run: the fields of its `llm_interval` point, and `at`, unix seconds."""
        return self.series.latest

    def note(self, kind: str, title: str, text: str = "") -> None:
        """Write an `llm_event` point; `kind` is one of `points.EVENT_KINDS`."""
        self.series.note(kind, title, text)

    def steady(self) -> None:
        """All users are there. A second time, or under a load shape, their number changes: then nothing is steady."""
        if self._steady_from is not None:
            self.unsteady("the number of users was changed")
        elif self._steady_missing is None:
            self._steady_from = self._now_s()

    def unsteady(self, why: str) -> None:
        """No part of this run is steady."""
        self._steady_from, self._steady_missing = None, why

    def held(self, from_s: float, to_s: float, users: float) -> None:
        """The load stayed the same from one moment to another, unix seconds: that is the steady part."""
        self._steady_from, self._steady_missing = from_s, None
        self.say(steady_to=to_s, steady_users=users)

    def say(self, **facts: Any) -> None:
        """Add something to `run.json`."""
        self._about.update(facts)

    def begin_phase(self, step: str | None, facts: Mapping[str, Any]) -> None:
        """Requests that start from now on belong to this step."""
        self.phases.begin(step, now_s=self._now_s(), facts=facts)
        if step is not None:
            self.series.note("step", step)
        self.save()

    def stopping(self, ended_by: str) -> None:
        """No new request starts from now on; the first reason counts."""
        if self._stopped_at is None:
            self._stopped_at, self._ended_by = self._now_s(), ended_by
            if self.phases.current != WARMUP:  # a warm-up that was never over has no end
                self.phases.end(self._stopped_at)

    def problem(self, what: str) -> None:
        """Note what makes this run not valid, once."""
        if what not in self._problems:
            self._problems.append(what)
            log.error("This run is not valid: %s", what)
            self.series.note("warning", "this run is not valid", what)

    def absorb(self, report: Mapping[str, Any]) -> None:
        """Take one report of `Load.report`; one that was seen before is dropped, one that is missing is a problem."""
        if report.get("run") != self.id or self.series.ended:
            return
        member = self.members.setdefault(report["worker"], Member())
        if report["number"] <= member.reports:
            return
        if report["number"] != member.reports + 1:
            self.problem(f"{report['number'] - member.reports - 1} reports of {report['worker']} were lost")
        member.reports = report["number"]
        member.final = member.final or report["final"]
        member.ledger = Ledger.from_wire(report["ledger"])
        client = report["client"]
        if client["cpu_percent"] is not None:
            member.cpu_percent_max = max(member.cpu_percent_max or 0.0, client["cpu_percent"])
        member.rss_bytes_max = max(member.rss_bytes_max, client["rss_bytes"])
        member.arrivals = report.get("arrivals")
        member.served, member.repeats = client["served"], client["repeats"]
        self._lags.record_many(client["lags_us"])
        self.limits.take(report)
        self.phases.take(report)
        self.tallies.merge(report["tallies"])
        for window in (self.recent, self._watch):
            window.take(report["tallies"], self._now_s())
        self.series.take(report, clock_offset_s=member.clock_offset_s)

    @property
    def client(self) -> dict[str, float | None]:
        """Lag of the event loops over all members, and CPU of the busiest."""
        cpus = [one.cpu_percent_max for one in self.members.values() if one.cpu_percent_max is not None]
        return {
            "lag_p99_s": self._lags.percentile(99),
            "lag_max_s": self._lags.max,
            "cpu_percent_max": max(cpus, default=None),
        }

    def save(self) -> None:
        """Write run.json as it stands now."""
        self.record.write_run(self.about())

    def about(self) -> dict[str, Any]:
        """Return the content of run.json."""
        served = sum(member.served for member in self.members.values())
        repeats = sum(member.repeats for member in self.members.values())
        return {
            **self._about,
            "steady_from": self._steady_from,
            "steady_missing": self._steady_missing,
            "stopped_at": self._stopped_at,
            "started": self.ledger.started,
            "phases": self.phases.shown(),
            "arrivals": merged(member.arrivals for member in self.members.values()),
            "prompts_served": served,
            "prompts_repeated": repeats,
            "workers": {name: member.shown() for name, member in sorted(self.members.items())},
            "client": self.client,
            "record_lost": self.record.lost,
            "exceptions": self._exceptions(),
        }

    def freeze(self) -> dict[str, Any]:
        """End the run and return its summary; every output is made from this one. A second call returns it again."""
        if self.summary is None:
            for one in summarise(self.tallies, self.about())["objectives"] or ():
                if not one["met"]:
                    self.series.note("slo_breached", one["text"], one["why"])
            # the sinks first: what became of them belongs into the summary
            ended_by = self._ended_by or "unknown"
            self._about["sinks"] = self.series.end(f"run {self.id} ended by {ended_by}")
        if self.summary is None:  # still: another may have ended it while a slow sink was waited for
            reasons = [*self._problems, *self._findings()]
            self._about.update(ended_at=self._now_s(), ended_by=ended_by, valid=not reasons, reasons=reasons)
            about = self.about()
            self.summary = summarise(self.tallies, about)
            written = self.record.write_run(about) and self.record.write_summary(self.summary)
            if not written:
                # nobody can read it from the files any more, so the text and the exit code have to say it
                self.summary["run"]["valid"] = False
                self.summary["run"]["reasons"].append(f"its end could not be recorded ({self.record.error})")
        return self.summary

    def _findings(self) -> list[str]:
        ledger, findings = self.ledger, []
        for name, member in sorted(self.members.items()):
            if member.lost:
                findings.append(f"{name} was lost: {member.lost}")
        if ledger.started == 0:
            findings.append("nothing was sent")
        elif ledger.ok == 0:
            findings.append(f"not one of {ledger.started} requests was answered well")
        elif not any(tally.counts["ok"] for key, tally in self.tallies.by_key.items() if is_measured(key[2])):
            findings.append("nothing was measured: every answer belongs to a request of the warm-up, or of settling")
        if internal := self.tallies.total().failures["internal"]:
            findings.append(f"{internal} requests met a bug of llmload")
        if self.record.lost or self.record.error:
            findings.append(f"{self.record.lost} completions are missing from the record ({self.record.error})")
        return findings

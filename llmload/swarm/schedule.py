"""The open loop of one process: which arrivals are its own, and what became of them.

Every arrival that came due while its user ran is offered; it is sent, or counted under the reason why not. Nothing
here waits or sends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

from llmload.arrival_config import ArrivalSettings
from llmload.pacing.arrivals import Arrivals
from llmload.swarm.arriving import Arrival, ArrivalProcess
from llmload.workload.trace import Trace

AT_STOP_NS = 250_000_000
"""What was due so shortly before the stop, and had not started, is neither offered nor missed: to stop takes Locust
itself some 50 ms in which nothing else runs."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which processes of the load run here: those from `first` on, `own` of them, of `total` over all workers.

    Before the master has said so (`total` 0) they are numbered by the place of the worker.
    """

    first: int = 0
    own: int = 0
    total: int = 0
    from_s: float = 0.0
    """Since when it holds, seconds since the start of the run."""


class Schedule:
    """The open loop of one process in one run.

    Args:
        settings: what was asked for.
        arrivals: the model; read where there is no trace.
        rate: of each process, requests per second.
        start_ns: the start of the run, monotonic.
        place: of this worker among the run's workers.
        workers: how many there are.
        planned: how many processes the load will have; None where that is not known.
        trace: what is replayed, if something is.
        is_open: whether users of a class are arrival processes.
    """

    def __init__(
        self,
        settings: ArrivalSettings,
        *,
        arrivals: Arrivals,
        rate: float,
        start_ns: int,
        place: int,
        workers: int,
        planned: int | None = None,
        trace: Trace | None = None,
        is_open: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        self._arrivals = arrivals
        self._rate = rate
        self._start_ns = self._told_start_ns = start_ns
        self._place, self._workers, self._planned = place, workers, planned
        self._cap = None if settings.max_in_flight is None else _part(settings.max_in_flight, place, workers)
        self._trace = trace
        self._is_open = is_open
        self._processes: dict[int, ArrivalProcess] = {}
        self._share = Share()
        self._rows: dict[ArrivalProcess, Iterator[Arrival]] = {}
        self._offered = self._sent = self._in_flight = 0
        self._not_sent: Counter[str] = Counter()
        self._seconds = self._planned_arrivals = 0.0
        self._counted_ns = monotonic_ns()

    def process(self, user: Any) -> ArrivalProcess | None:
        """Return a new arrival process for a user; None where users of its class take turns (closed loop)."""
        return ArrivalProcess(user, self) if self._is_open(type(user)) else None

    # who runs, and with which share

    def join(self, process: ArrivalProcess) -> None:
        """A process begins."""
        self.count_time()
        slot = next(slot for slot in range(len(self._processes) + 1) if slot not in self._processes)
        self._processes[slot] = process

    def leave(self, process: ArrivalProcess) -> None:
        """A process has ended."""
        self.count_time()
        self._processes = {slot: one for slot, one in self._processes.items() if one is not process}
        self._rows.pop(process, None)

    def correct_clock(self, offset_s: float) -> None:
        """Take this process's clock minus the master's, seconds: by so much more the start was later here."""
        self._start_ns = self._told_start_ns + round(offset_s * 1e9)

    def take_share(self, share: Share) -> None:
        """Take what the master says of this worker's processes."""
        if self._trace is not None and self._share.total:
            return  # a row is dealt once
        self.count_time()
        ordered = [process for _, process in sorted(self._processes.items())]
        self._processes = dict(enumerate(ordered))
        self._share = share
        for slot, process in self._processes.items():
            if self._trace is not None and slot < share.own:
                self._rows[process] = self._replay(self._trace, share.first + slot)
            process.wake()

    @property
    def traced(self) -> bool:
        """Whether a trace is replayed."""
        return self._trace is not None

    @property
    def since_s(self) -> float:
        """Since when the share holds, seconds since the start of the run."""
        return self._share.from_s

    def now_s(self) -> float:
        """Return the seconds since the start of the run."""
        return (monotonic_ns() - self._start_ns) / 1e9

    def upcoming(self, process: ArrivalProcess, after_s: float) -> Iterator[Arrival] | None:
        """Return the arrivals of a process later than `after_s`; None where it has to wait for a share first."""
        if self._trace is not None:
            return self._rows.get(process) or (iter(()) if self._share.total else None)
        return self._scheduled(next(slot for slot, one in self._processes.items() if one is process), after_s)

    def _scheduled(self, slot: int, after_s: float) -> Iterator[Arrival]:
        index, known = self._index(slot), self._share.total or self._planned or 0
        for number, at_s in self._arrivals.numbered(index, count=known or 1, rate=self._rate, after_s=after_s):
            # all prompts in turn, whoever runs the process; what is beyond the load takes the next of its worker
            position = number * known + index if index < known else None
            yield Arrival(at_s, self._due_ns(at_s), position=position)

    def _index(self, slot: int) -> int:
        share = self._share
        if slot < share.own:
            return share.first + slot
        # more than was told of: beyond the load until the next share, each index once over all workers
        return share.total + self._place + (slot - share.own) * self._workers

    def _replay(self, trace: Trace, first: int) -> Iterator[Arrival]:
        share = self._share
        for row in trace.rows[first :: share.total]:
            at_s = share.from_s + row.at_s
            prompt = trace.prompt(row)  # made before it is due
            yield Arrival(at_s, self._due_ns(at_s), prompt, row.output_tokens)

    def _due_ns(self, at_s: float) -> int:
        return self._start_ns + round(at_s * 1e9)

    # what became of them

    def take(self) -> bool:
        """Count an arrival that is due; return whether it may start now."""
        self._offered += 1
        if self._cap is not None and self._in_flight >= self._cap:
            self._not_sent["cap"] += 1
            return False
        self._sent += 1
        self._in_flight += 1
        return True

    def ended(self) -> None:
        """An arrival that was taken is over."""
        self._in_flight -= 1

    def unsent(self, arrival: Arrival, stop_ns: int | None) -> None:
        """An arrival that was taken sent no request: it had come to nothing when its user was stopped, or its task has
        none."""
        self._sent -= 1
        self._offered -= 1
        if stop_ns is None:
            self._offered += 1
            self._not_sent["task"] += 1
        else:
            self.missed(arrival, stop_ns)

    def missed(self, arrival: Arrival, stop_ns: int) -> None:
        """Count an arrival that had been due when its user was stopped, but that this client had not come to yet."""
        if stop_ns - arrival.due_ns > AT_STOP_NS:
            self._offered += 1
            self._not_sent["late"] += 1

    def stop(self) -> None:
        """The run is being stopped: nothing is due any more."""
        self.count_time()
        for process in self._processes.values():
            process.stop_arriving()

    def count_time(self) -> None:
        """Count the time until now; called before the number of processes that have arrivals changes."""
        now_ns = monotonic_ns()
        passed_s, self._counted_ns = (now_ns - self._counted_ns) / 1e9, now_ns
        arriving = self._arriving
        if arriving:
            self._seconds += passed_s
            self._planned_arrivals += passed_s * arriving * self._rate

    @property
    def _arriving(self) -> int:
        if self._trace is not None and not self._share.total:
            return 0  # they wait to be dealt
        return sum(process.arriving for process in self._processes.values())

    @property
    def offered_rate(self) -> float | None:
        """The rate that this process offers now, requests per second; None for a trace."""
        return None if self._trace is not None else self._arriving * self._rate

    def report(self) -> dict[str, Any]:
        """Return the counts of the run so far, JSON-ready; see `metrics.arrivals`."""
        self.count_time()
        traced = self._trace is not None
        return {
            "offered": self._offered,
            "sent": self._sent,
            "not_sent": dict(self._not_sent),
            "rate": self.offered_rate,
            "seconds": self._seconds,
            "planned": None if traced else self._planned_arrivals,
            "done": traced and bool(self._share.total) and not any(one.arriving for one in self._processes.values()),
        }


def _part(whole: int, place: int, parts: int) -> int:
    """Return one of `parts` parts of a whole number that add up to it and differ by at most 1."""
    place %= parts
    return whole // parts + (place < whole % parts)

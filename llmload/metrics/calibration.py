"""What one worker holds: which levels to try, which of them hold, what limited them, and how many workers a plan needs.

No I/O, no clock. A level is a number of streams; it holds when the errors of TTFT and ITL stay below a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from llmload.metrics.truth import percentile
from llmload.metrics.verdict import CLIENT_CPU_PERCENT

HEADROOM_PERCENT = 30
"""Of what a worker holds, kept free in a plan: prompts, answers and neighbours differ from those of the calibration."""
PRECISION = 0.15
"""The search ends when the lowest level that misses is at most so much above the highest that holds."""
PACE_SHARE = 0.95
"""A level at which less than this was sent of what was asked for is not the level that it says."""
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of errors: how many, and percentiles by nearest rank, milliseconds; None where there are none."""

    n: int
    p50: float | None
    p90: float | None
    p99: float | None

    @classmethod
    def of(cls, errors_ms: Sequence[float]) -> Sizes:
        """Return the sizes of signed errors: of [-3, 1, 2] the p50 is 2."""
        sizes = sorted(map(abs, errors_ms))
        return cls(len(sizes), *(percentile(sizes, percent) if sizes else None for percent in PERCENTILES))

    def at(self, percent: int) -> float | None:
        """Return one of the percentiles."""
        return {50: self.p50, 90: self.p90, 99: self.p99}[percent]


@dataclass(frozen=True, slots=True)
class Bound:
    """What an error may be: at most `ms` at a percentile."""

    ms: float
    percent: int = 99

    def __str__(self) -> str:
        return f"p{self.percent} at most {self.ms:g} ms"

    @property
    def beyond_percent(self) -> int:
        """The share of samples that the bound says nothing about, percent."""
        return 100 - self.percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run of one level, in the window after the ramp.

    Args:
        streams: users, each of which holds one stream at a time.
        events_per_second: token events that the server sent.
        asked_per_second: what it would have sent had nobody been late.
        cpu_percent: of one core, the worker's.
        mock_cpu_percent: the same of the mock server, from its CPU an event over the whole run.
        waited_percent: share of the window in which the worker could run and had no core; None where the system does
            not say.
        mock_waited_percent: the same of the mock server.
        lag_p99_ms: of the worker's event loop.
        ttft_ms: errors of TTFT, client − server, as far as they can be the client's (`truth.client_ttft_ns`).
        ttft_total_ms: the whole of them, in which the time is that the server takes to notice a request.
        itl_ms: errors of ITL, client − server.
        bound_percent: TTFTs that are upper bounds, of all: the first token shared a read with a later one.
        shared_percent: events that shared a read with a later one, of all: they have no time of their own.
        failed: requests of the whole run that did not end ok.
        stamps: completions by where their arrival times come from, `kernel` or `read`.
    """

    streams: int
    events_per_second: float
    asked_per_second: float
    cpu_percent: float
    mock_cpu_percent: float
    waited_percent: float | None
    mock_waited_percent: float | None
    lag_p99_ms: float | None
    ttft_ms: Sizes
    ttft_total_ms: Sizes
    itl_ms: Sizes
    bound_percent: float
    shared_percent: float
    failed: int
    stamps: dict[str, int]

    def faults(self, bound: Bound) -> list[str]:
        """Return what keeps this run from holding the bound, a few words each; an empty list when it holds."""
        faults = [f"{self.failed} requests failed"] if self.failed else []
        for name, sizes in (("TTFT", self.ttft_ms), ("ITL", self.itl_ms)):
            error_ms = sizes.at(bound.percent)
            if error_ms is None:
                faults.append(f"no {name}")
            elif error_ms > bound.ms:
                faults.append(f"{name} p{bound.percent}")
        if self.bound_percent > bound.beyond_percent:
            faults.append(f"{self.bound_percent:.0f} % of TTFTs are bounds")
        if self.shared_percent > bound.beyond_percent:
            faults.append(f"{self.shared_percent:.0f} % of events shared a read")
        if self.pace_share < PACE_SHARE:
            faults.append(f"{self.pace_share * 100:.0f} % of the pace")
        return faults

    @property
    def pace_share(self) -> float:
        """What was sent of what was asked for: a server or a client that cannot go on makes it small."""
        return self.events_per_second / self.asked_per_second

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with rounded floats."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return round(value, 3) if isinstance(value, float) else value


class Search:
    """Which level to run next, from the runs so far: doubling, then bisection.

    A level counts by the median of its runs, that is by more than half of `repeats`. To save time a level that held
    once is climbed past; the highest of them is repeated at the end, and one that missed is repeated at once.

    Args:
        first: the level to begin with; below it the search halves.
        smallest, largest: levels that it does not pass.
        repeats: runs of a level at most.
    """

    def __init__(self, *, first: int, smallest: int, largest: int, repeats: int) -> None:
        self._first, self._smallest, self._largest = first, smallest, largest
        self._majority = repeats // 2 + 1
        self.held: Counter[int] = Counter()
        """Runs that held, by level."""
        self.missed: Counter[int] = Counter()

    def add(self, streams: int, holds: bool) -> None:
        """Take the result of one run."""
        (self.held if holds else self.missed)[streams] += 1

    def next(self, runs_left: float = float("inf")) -> int | None:
        """Return the level to run next; None when the answer is known.

        Args:
            runs_left: for how many more runs there is time: the last ones go to the answer so far, once it is certain
                that there is a level above it that misses.
        """
        open_levels = [level for level in self.missed if self.missed[level] and not self._decided(level)]
        if open_levels:
            return min(open_levels)
        low, high = self.low, self.high
        if low is None:
            if high is None:
                return self._first
            return max(high // 2, self._smallest) if high > self._smallest else None
        above = self._above(low, high)
        hurry = high is not None and runs_left <= self._majority - self.held[low]
        if above is not None and not hurry:
            return above
        return None if self._decided(low) else low

    def _above(self, low: int, high: int | None) -> int | None:
        """Return the next level above the highest that holds, None where it is known well enough."""
        if high is None:
            return min(low * 2, self._largest) if low < self._largest else None
        return (low + high) // 2 if high - low > max(1, PRECISION * low) else None

    def _decided(self, level: int) -> bool:
        return max(self.held[level], self.missed[level]) >= self._majority

    @property
    def high(self) -> int | None:
        """The lowest level that misses."""
        return min((level for level, runs in self.missed.items() if runs >= self._majority), default=None)

    @property
    def low(self) -> int | None:
        """The highest level below it of whose runs more held than missed: the answer so far."""
        high = self.high
        levels = [level for level in self.held if self.held[level] > self.missed[level]]
        return max((level for level in levels if high is None or level < high), default=None)

    @property
    def confirmed(self) -> bool:
        """Whether the answer holds in the median of its runs, and not only in those there was time for."""
        return self.low is not None and self.held[self.low] >= self._majority


def median_run(runs: Sequence[Measured], bound: Bound) -> Measured:
    """Return the run in the middle, by its worse error at the bound's percentile; of two the worse."""

    def worst_ms(run: Measured) -> float:
        errors_ms = [sizes.at(bound.percent) for sizes in (run.ttft_ms, run.itl_ms)]
        return max(float("inf") if error_ms is None else error_ms for error_ms in errors_ms)

    return sorted(runs, key=worst_ms)[len(runs) // 2]


def limit(run: Measured, bound: Bound) -> tuple[str, str]:
    """Say what limited a level that misses: one of `failures`, `cpu`, `mock`, `machine`, `lag`, `unknown`; and why.

    The worker's CPU is looked at first: a client that is out of CPU also slows its server, whose streams it reads.
    """
    at = f"at {run.streams} streams"
    mock = f"the mock server, not the client: {run.mock_cpu_percent:.0f} % of a core"
    if run.failed:
        return "failures", f"{run.failed} requests failed {at}"
    if run.cpu_percent >= CLIENT_CPU_PERCENT:
        return "cpu", f"the worker's CPU, {run.cpu_percent:.0f} % of a core {at}"
    if run.mock_cpu_percent >= CLIENT_CPU_PERCENT:
        return "mock", f"{mock} {at}"
    waited = max(run.waited_percent or 0.0, run.mock_waited_percent or 0.0)
    if waited > bound.beyond_percent:
        who = "worker" if waited == run.waited_percent else "mock server"
        return "machine", (
            f"the machine's cores, not the client: {at} the {who} could run and had no core in "
            f"{waited:.1f} % of the time, and p{bound.percent} leaves {bound.beyond_percent} %"
        )
    if run.lag_p99_ms is not None and run.lag_p99_ms > bound.ms:
        return "lag", f"the worker's event loop, p99 lag {run.lag_p99_ms:.1f} ms at {run.cpu_percent:.0f} % CPU {at}"
    if run.pace_share < PACE_SHARE:
        return "mock", f"{mock}, and {run.pace_share * 100:.0f} % of the events that were asked for {at}"
    return "unknown", f"neither CPU nor cores nor the event loop {at}: maybe how fast this machine wakes a process"


def workers_needed(*, users: int, tokens_per_second: float, streams: int, events_per_second: float) -> int:
    """Return the workers for a plan, with the head-room: enough for its events and for its streams.

    Example: 1,000 users at 50 tokens/s are 50,000 events/s; of workers that hold 200 streams and 9,800 events/s,
    with 30 % kept free, ceil(50,000 / 6,860) = 8.
    """
    usable = (100 - HEADROOM_PERCENT) / 100
    events = users * tokens_per_second / (events_per_second * usable)
    return max(1, ceil(round(events, 9)), ceil(round(users / (streams * usable), 9)))

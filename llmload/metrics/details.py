"""What a report shows beyond the summary: the run over time, distributions, the slowest and the failed requests.

No I/O, no clock. One pass over the completions of a record, in bounded memory: about 40 MB for any number of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappush, heappushpop
from math import sqrt

import numpy as np

from llmload.metrics.grid import BINS, COLUMNS, Counts, Grid, bin_of, bins_of
from llmload.metrics.notable import Notable, notable
from llmload.metrics.processes import Processes
from llmload.metrics.seconds import arrivals, ended_unix_ns
from llmload.metrics.served import Served
from llmload.metrics.steps import is_measured
from llmload.records import Completion

TIMED = ("ttft_s", "tpot_s", "e2e_s")
"""Metrics with one sample a request whose distributions are kept; ITL has one a gap."""
DISTRIBUTED = ("ttft_s", "itl_s", "tpot_s", "e2e_s")

SLOWEST = 20
FAILURES = 200
"""Failed requests that are shown at most; of each kind at least `FAILURES_EACH` nevertheless."""
FAILURES_EACH = 10
_BATCH = 100_000
"""Gaps that are kept back before they are counted together: numpy is slow for few and fast for many."""
_AT = {name: column for column, name in enumerate(COLUMNS)}


class Moments:
    """Number, mean and standard deviation of samples, exact."""

    __slots__ = ("n", "squares", "total")

    def __init__(self) -> None:
        self.n, self.total, self.squares = 0, 0.0, 0.0

    def add(self, n: int, total: float, squares: float) -> None:
        """Add samples by their number, sum and sum of squares."""
        self.n, self.total, self.squares = self.n + n, self.total + total, self.squares + squares

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the samples themselves (of the population, not an estimate); None without any."""
        return sqrt(max(0.0, self.squares / self.n - (self.total / self.n) ** 2)) if self.n else None


class Details:
    """Takes completions one by one; call `finish` at the end.

    Distributions and moments are of measured ok completions, as the summary's metrics; the grid has everything.
    """

    def __init__(self, completions: Iterable[Completion] = ()) -> None:
        self.grid = Grid()
        self.distributions: dict[str, Counts] = {name: np.zeros(BINS, dtype=np.int64) for name in DISTRIBUTED}
        self.moments = {name: Moments() for name in DISTRIBUTED}
        self.failures: list[Notable] = []
        self.failures_by_label: Counter[str] = Counter()
        self.steps: dict[str, int] = {}
        """First start of a request of each step, unix ns."""
        self.processes = Processes()
        """What was seen of the processes: empty until somebody who has read it puts it here."""
        self.served = Served()
        """What only vLLM's words need: empty until somebody who has counted it puts it here."""
        self._slowest: list[tuple[float, str, Notable]] = []
        self._gaps: dict[bool, list[tuple[int, tuple[int, ...]]]] = {True: [], False: []}
        self._waiting = 0
        for completion in completions:
            self.add(completion)
        self.finish()

    @property
    def slowest(self) -> list[Notable]:
        """The measured ok completions with the longest E2E latency, the longest first."""
        return [row for _, _, row in sorted(self._slowest, key=lambda entry: (-entry[0], entry[1]))]

    @property
    def failures_left_out(self) -> int:
        return sum(self.failures_by_label.values()) - len(self.failures)

    def add(self, completion: Completion) -> None:
        """Take one finished completion."""
        self._count(completion)
        if completion.step is not None:
            known = self.steps.get(completion.step, completion.started_unix_ns)
            self.steps[completion.step] = min(known, completion.started_unix_ns)
        if completion.outcome == "ok":
            self._measure(completion, is_measured(completion.step))
        elif completion.outcome == "failed":
            self._fail(completion)

    def finish(self) -> None:
        """Count what was kept back."""
        for measured, waiting in self._gaps.items():
            if waiting:
                self._count_gaps(waiting, measured)
            self._gaps[measured] = []
        self._waiting = 0

    def _count(self, completion: Completion) -> None:
        grid = self.grid
        grid.at(completion.started_unix_ns // 10**9).counts[_AT["started"]] += 1
        end = grid.at(ended_unix_ns(completion) // 10**9)
        end.counts[_AT[completion.outcome]] += 1
        end.counts[_AT["refused"]] += completion.outcome == "failed" and completion.status == 429
        end.lag(completion.client_lag_s)
        for second, tokens in arrivals(completion):
            grid.at(second).counts[_AT["tokens"]] += tokens

    def _measure(self, completion: Completion, measured: bool) -> None:
        started_us = completion.started_unix_ns // 1000
        for name in TIMED:
            value = getattr(completion, name)
            if value is None:
                continue
            index = bin_of(value * 1e6)
            offset_s = value if name == "ttft_s" else completion.e2e_s or 0.0
            self.grid.at(int(started_us + offset_s * 1e6) // 1_000_000).distribution(name)[index] += 1
            if measured:
                self.distributions[name][index] += 1
                self.moments[name].add(1, value, value * value)
        if completion.gaps_us and completion.ttft_s is not None and not completion.buffered:
            self._gaps[measured].append((started_us + round(completion.ttft_s * 1e6), tuple(completion.gaps_us)))
            self._waiting += len(completion.gaps_us)
            if self._waiting >= _BATCH:
                self.finish()
        if measured and completion.e2e_s is not None:
            self._offer(completion, completion.e2e_s)

    def _offer(self, completion: Completion, e2e_s: float) -> None:
        if len(self._slowest) < SLOWEST:
            heappush(self._slowest, (e2e_s, completion.id, notable(completion)))
        elif (e2e_s, completion.id) > self._slowest[0][:2]:
            heappushpop(self._slowest, (e2e_s, completion.id, notable(completion)))

    def _fail(self, completion: Completion) -> None:
        row_label = completion.kind or "internal"
        self.failures_by_label[row_label] += 1
        if len(self.failures) < FAILURES or self.failures_by_label[row_label] <= FAILURES_EACH:
            self.failures.append(notable(completion))

    def _count_gaps(self, waiting: list[tuple[int, tuple[int, ...]]], measured: bool) -> None:
        lengths = np.fromiter((len(gaps) for _, gaps in waiting), dtype=np.int64, count=len(waiting))
        firsts = np.fromiter((first for first, _ in waiting), dtype=np.int64, count=len(waiting))
        gaps = np.fromiter((gap for _, row in waiting for gap in row), dtype=np.int64, count=int(lengths.sum()))
        sums = np.cumsum(gaps)
        # arrival of a gap's end: the first arrival of its answer plus the gaps since
        before = np.concatenate(([0], sums[np.cumsum(lengths)[:-1] - 1]))
        arrived_s = (sums + np.repeat(firsts - before, lengths)) // 1_000_000
        bins = bins_of(gaps)
        keys, counts = np.unique(arrived_s * BINS + bins, return_counts=True)
        seconds, starts = np.unique(keys // BINS, return_index=True)
        for second, part, count in zip(
            seconds, np.split(keys % BINS, starts[1:]), np.split(counts, starts[1:]), strict=True
        ):
            self.grid.at(int(second)).distribution("itl_s")[part] += count
        if measured:
            self.distributions["itl_s"] += np.bincount(bins, minlength=BINS)
            seconds_of = gaps / 1e6
            self.moments["itl_s"].add(len(gaps), float(seconds_of.sum()), float((seconds_of**2).sum()))

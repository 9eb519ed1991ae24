"""A run second by second: completions and looks at the workers in, fields of whole seconds out.

Pure, no I/O, no clock. What comes out depends on what went in and its order alone, so that a run that was watched and
its record give the same. A second is given out again when something that belongs to it comes later: tokens of an
answer that was still going on, or a late report.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llmload.metrics.interval import Cell, Fields, merged
from llmload.metrics.seconds import end_ns
from llmload.metrics.tally import Key, Tallies
from llmload.metrics.verdict import client_verdict

SETTLED_S = 60
"""Percentiles of a second are settled when something has come that is so much younger."""
KEPT_S = 900
"""A second so much older than the newest one is given out for the last time; what comes later for it is left out."""
GONE_S = 10
"""A worker that was not looked at for so long counts no users and no requests in flight."""


class Intervals:
    """Collects the seconds of one run.

    Args:
        started_at: unix seconds of the run's start.
    """

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self._cells: dict[int, dict[Key, Cell]] = {}
        self._all: dict[int, Cell] = {}
        """Cells over all keys of seconds that are settled."""
        self._looks: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
        self._dirty: set[int] = set()
        self._newest = 0
        self._given_upto = 0
        self._before: Counter[tuple[Key, str]] = Counter()
        """Totals of the seconds that are no longer kept."""
        self._has_goodput = False

    def take(self, tallies: Tallies, completions: Iterable[Mapping[str, Any]]) -> None:
        """Take completions, as dicts, and the tallies of the same completions."""
        for completion in completions:
            second = ended_second(completion)
            self._has_goodput = self._has_goodput or completion.get("good") is not None
            cell = self._cell(second, (completion["scenario"], completion["model"], completion.get("step")))
            if cell is not None:
                cell.add(completion)
                self._touch(second)
        for key, tally in tallies.by_key.items():
            for second, (_, output, served, prompt, good) in tally.seconds.buckets.items():
                cell = self._cell(second, key)
                if cell is not None:
                    sums = cell.sums
                    sums["output_tokens"] += output
                    sums["served_tokens"] += served
                    sums["input_tokens"] += prompt
                    sums["good"] += good
                    self._dirty.add(second)
        self._settle()

    def take_look(self, worker: str, at: float, look: Mapping[str, Any]) -> None:
        """Take a look at a worker at a unix time: `users`, `in_flight`, `started`, and where known `cpu_percent`,
        `lag_p99_s` and `offered_rate`."""
        second = int(at)
        self._see(second)
        self._looks[worker][second] = look
        self._touch(second)
        self._settle()

    def ready(self, *, before: float, longest_s: int = KEPT_S) -> Iterator[tuple[int, Key | None, Fields]]:
        """Yield what is new about seconds that were over before a unix time, in their order: the second, its key (None
        of all together) and its fields.

        Args:
            before: the present, or infinity at the end of a run.
            longest_s: leave seconds that are older than this alone for now.
        """
        upto = min(self._newest, int(min(before, 1e12)) - 1)
        wanted = sorted(second for second in self._dirty if self._newest - longest_s <= second <= upto)
        self._dirty.difference_update(wanted)
        self._given_upto = max(self._given_upto, upto)
        yield from self._rows(wanted)
        self._forget()

    def _rows(self, wanted: list[int]) -> Iterator[tuple[int, Key | None, Fields]]:
        totals, seconds = Counter(self._before), sorted(self._cells)
        at = 0
        for second in wanted:
            while at < len(seconds) and seconds[at] <= second:
                for key, cell in self._cells[seconds[at]].items():
                    for name, count in cell.counts.items():
                        totals[key, name] += count
                at += 1
            cells = self._cells.get(second, {})
            for key, cell in cells.items():
                if any(cell.counts.values()) or any(cell.sums.values()):
                    so_far = {name: totals[key, name] for name in cell.counts}
                    yield second, key, {**self._elapsed(second), **so_far, **cell.fields(has_goodput=self._has_goodput)}
            yield second, None, self._all_fields(second, cells, totals)

    def _all_fields(self, second: int, cells: Mapping[Key, Cell], totals: Counter[tuple[Key, str]]) -> Fields:
        settled = self._all.get(second)
        cell = merged(cells.values())
        if settled is not None:
            cell.samples, cell.percentiles = None, settled.percentiles
        so_far = {name: sum(n for (_, what), n in totals.items() if what == name) for name in cell.counts}
        fields = {**self._elapsed(second), **so_far, **cell.fields(has_goodput=self._has_goodput)}
        fields.update(self._load(second))
        looks = [one[second] for one in self._looks.values() if second in one]
        if looks:
            verdict, _ = client_verdict(
                _highest(looks, "lag_p99_s"),
                _highest(looks, "cpu_percent"),
                fields.get("itl_p50_s"),  # type: ignore[arg-type]
                fields.get("ttft_p50_s"),  # type: ignore[arg-type]
                kernel_stamps=cell.stamps == {"kernel"},
            )
            fields["verdict"] = verdict
        return fields

    def _load(self, second: int) -> Fields:
        now, before = self._looks_at(second), self._looks_at(second - 1)
        if not now:
            return {}
        started = sum(look["started"] for look, _ in now)
        fields: Fields = {
            "users": sum(look["users"] for look, age_s in now if age_s < GONE_S),
            "in_flight": sum(look["in_flight"] for look, age_s in now if age_s < GONE_S),
            "started": started,
            "started_rate": float(started - sum(look["started"] for look, _ in before)),
        }
        rates = [look.get("offered_rate") for look, age_s in now if age_s < GONE_S]
        if any(rate is not None for rate in rates):
            fields["offered_rate"] = float(sum(rate or 0 for rate in rates))
        return fields

    def _looks_at(self, second: int) -> list[tuple[Mapping[str, Any], int]]:
        """Return the last look at each worker until a second, and how many seconds old it was then."""
        found = []
        for looks in self._looks.values():
            at = max((one for one in looks if one <= second), default=None)
            if at is not None:
                found.append((looks[at], second - at))
        return found

    def _elapsed(self, second: int) -> Fields:
        return {"elapsed_s": round(second - self._started_at, 3)}

    def _cell(self, second: int, key: Key) -> Cell | None:
        self._see(second)
        if second < self._newest - KEPT_S:
            return None
        return self._cells.setdefault(second, {}).setdefault(key, Cell())

    def _see(self, second: int) -> None:
        if second <= self._newest:
            return
        if self._newest:
            # nothing happened in between, which is worth a row
            self._dirty.update(range(max(self._newest + 1, second - KEPT_S), second))
        self._newest = second

    def _settle(self) -> None:
        for old in [one for one in self._cells if one < self._newest - SETTLED_S and one not in self._all]:
            cells = self._cells[old]
            self._all[old] = total = merged(cells.values())
            total.settle()
            for cell in cells.values():
                cell.settle()

    def _touch(self, second: int) -> None:
        """Totals count on: what was given out of later seconds has changed as well."""
        self._dirty.add(second)
        self._dirty.update(range(second + 1, self._given_upto + 1))

    def _forget(self) -> None:
        oldest = self._newest - KEPT_S
        for second in [one for one in self._cells if one < oldest and one not in self._dirty]:
            for key, cell in self._cells.pop(second).items():
                for name, count in cell.counts.items():
                    self._before[key, name] += count
            self._all.pop(second, None)
        for looks in self._looks.values():
            for second in sorted(looks)[:-1]:
                if second < oldest:
                    del looks[second]


def ended_second(completion: Mapping[str, Any]) -> int:
    """Return the unix second in which a completion, given as a dict, ended."""
    return end_ns(completion["started_unix_ns"], completion.get("closed_s"), completion.get("e2e_s")) // 10**9


def _highest(looks: Iterable[Mapping[str, Any]], name: str) -> float | None:
    return max((look[name] for look in looks if look.get(name) is not None), default=None)

"""Everything that a comparison knows of one run: an estimate with its doubt for each metric and statistic.

Pure maths, no I/O, no clock. Built from a record's columns, kept as JSON in an archive, where it stands for the
completions: 35 to 140 kB a run, by how many metrics have samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmload.metrics.bootstrap import LEVELS, Estimate, TooFew, estimate, scaled, share
from llmload.metrics.columns import FIELDS, Columns
from llmload.metrics.gaps import Gaps
from llmload.metrics.series import Series
from llmload.metrics.stepped import Spans

SCHEMA = "llmload.evidence/1"
STATISTICS = ("mean", "p50", "p90", "p95", "p99")
RATES = ("request_throughput", "output_throughput", "total_throughput")
SHARES = ("error_rate", "success_rate", "goodput")
GOODPUTS = ("goodput", "goodput_rate")
"""Missing where no limits were set."""
SLICES = 128
"""Parts of the window for the doubt about a rate."""

Flags = NDArray[np.bool_]
Key = tuple[str, str]
"""Metric and statistic; the statistic of a number of the whole run is ""."""


class Evidence:
    """Estimates by metric and statistic; a text, where there is none, says why."""

    def __init__(self, found: Mapping[Key, Estimate | str], counts: Mapping[str, int]) -> None:
        self.found = found
        self.counts = counts
        """Samples by metric; of what is not there: 0."""

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-ready."""
        rows = [
            {"metric": metric, "statistic": statistic, **_shown(one)} for (metric, statistic), one in self.found.items()
        ]
        return {"schema": SCHEMA, "counts": dict(self.counts), "estimates": rows}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evidence:
        """Return what `to_dict` was called on.

        Raises:
            KeyError, TypeError, ValueError: it is not ours.
        """
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']!r}, expected {SCHEMA!r}")
        found = {(row["metric"], row["statistic"]): _read(row) for row in data["estimates"]}
        return cls(found, dict(data["counts"]))


def _shown(one: Estimate | str) -> dict[str, Any]:
    if isinstance(one, str):
        return {"why": one}
    names = ("value", "n", "effective")
    return {**{name: getattr(one, name) for name in names}, "grid": [float(f"{x:.6g}") for x in one.grid]}


def _read(row: Mapping[str, Any]) -> Estimate | str:
    if "why" in row:
        return str(row["why"])
    grid = np.array(row["grid"], dtype=np.float64)
    if grid.shape != LEVELS.shape or not np.isfinite(grid).all():
        raise ValueError(f"{row['metric']} has a grid of {grid.shape}")
    return Estimate(row["value"], row["n"], row["effective"], grid)


class EvidenceOf:
    """Collects columns and works out the evidence.

    Memory: about 220 bytes a completion; gaps between tokens take 25 MB however many there are.
    """

    def __init__(self) -> None:
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._gaps = Gaps()

    def add(self, columns: Columns) -> None:
        """Take some completions; the columns are not kept."""
        part: dict[str, NDArray[Any]] = {
            "started_ns": np.array(columns.started_ns, dtype=np.int64),
            "ended_ns": np.array(columns.ended_ns, dtype=np.int64),
            "outcomes": np.array(columns.outcomes, dtype=np.int8),
            "measured": np.array(columns.measured, dtype=bool),
            "good": np.array(columns.good, dtype=bool),
            **{name: np.array(column, dtype=np.float64) for name, column in columns.values.items()},
        }
        self._parts.append(part)
        counts = np.array(columns.gap_counts, dtype=np.int64)
        gaps = np.array(columns.gaps_us, dtype=np.int64)
        keep = part["measured"]
        self._gaps.add(part["started_ns"][keep], counts[keep], gaps[np.repeat(keep, counts)])

    def evidence(self, summary: Mapping[str, Any], spans: Spans = ()) -> Evidence:
        """Return the evidence.

        Args:
            summary: of the same run; its throughput says over which window rates are, its goodput how many requests
                were started, and the rate where it is known.
            spans: the parts of that window that its rates are of; empty: all of it.
        """
        found: dict[Key, Estimate | str] = {}
        counts: dict[str, int] = {}
        table = self._table()
        for name, samples in self._samples(table):
            counts[name] = samples.n if samples is not None else 0
            if samples is not None:
                found |= {(name, statistic): _estimate(samples, statistic) for statistic in STATISTICS}
        window = summary["throughput"]["window"]
        ends = Ends(table, spans or [(window["from"], window["to"])]) if window else None
        if ends:
            found |= dict(_rates(ends, summary["throughput"]))
        found |= dict(_shares(table))
        if summary["goodput"] is not None:
            ended = table["good"] & (table["measured"] | (summary["throughput"]["steady"] is not None))
            rate = summary["goodput"]["rate"]
            rate = ends.count(ended) / window["seconds"] if rate is None and ends else rate
            found |= _goodput(table, ends, summary["goodput"]["started"], rate)
        return Evidence(found, counts)

    def _table(self) -> dict[str, NDArray[Any]]:
        """Return all columns in the order of the starts."""
        parts, self._parts = self._parts, []
        if not parts:
            EvidenceOf.add(self, Columns())
            return self._table()
        started = np.concatenate([part["started_ns"] for part in parts])
        order = np.argsort(started, kind="stable")
        table = {}
        for name in list(parts[0]):
            table[name] = np.concatenate([part.pop(name) for part in parts])[order]
        return table

    def _samples(self, table: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Any]]:
        use = (table["outcomes"] == 0) & table["measured"]
        for name in FIELDS:
            values = table[name][use]
            values = values[~np.isnan(values)]
            yield name, Series(values) if len(values) else None
        yield "itl_s", self._gaps.binned()


def _estimate(samples: Any, statistic: str) -> Estimate | str:
    try:
        return estimate(samples, statistic)
    except TooFew as error:
        return str(error)


class Ends:
    """The completions that ended in some spans of time, and how far in these."""

    def __init__(self, table: Mapping[str, NDArray[Any]], spans: Spans) -> None:
        ended_s = table["ended_ns"] / 1e9
        self.table = table
        self.inside = np.zeros(len(ended_s), dtype=bool)
        self.seconds = 0.0
        self._at_s = np.zeros(len(ended_s))
        for start, end in spans:
            # of a whole run the last end is the window's own; floats of such large numbers are 0.2 us apart
            here = (ended_s >= start - 1e-6) & (ended_s < end + 1e-6)
            self._at_s[here] = self.seconds + ended_s[here] - start
            self.inside |= here
            self.seconds += end - start

    def count(self, use: Flags) -> int:
        """Return how many of these ended in the time."""
        return int((use & self.inside).sum())

    def rate(self, use: Flags, weights: NDArray[Any], value: float) -> Estimate | str:
        """Return a rate with the doubt of what ended in each part of the time."""
        use = use & self.inside
        at = (self._at_s[use] / self.seconds * SLICES).astype(np.int64).clip(0, SLICES - 1)
        part = np.bincount(at, weights=weights[use], minlength=SLICES)
        found = _estimate(Series(part * SLICES / self.seconds), "mean")
        return found if isinstance(found, str) else scaled(found, value, n=len(at))


def _rates(ends: Ends, throughput: Mapping[str, Any]) -> Iterator[tuple[Key, Estimate | str]]:
    """Yield the rates of the headline window.

    Tokens count here when their request ends, in the value when they arrived: over blocks of many requests the doubt
    is the same.
    """
    output, prompt = (np.nan_to_num(ends.table[name]) for name in ("output_tokens", "input_tokens"))
    weights = dict(zip(RATES, (np.ones(len(output)), output, output + prompt), strict=True))
    for name in RATES:
        value = throughput.get(name)
        if value:
            yield (name, ""), ends.rate(ends.table["outcomes"] == 0, weights[name], value)


def _shares(table: Mapping[str, NDArray[Any]]) -> Iterator[tuple[Key, Estimate | str]]:
    answered = table["outcomes"][(table["outcomes"] != 2) & table["measured"]]
    for name, place in (("error_rate", 1), ("success_rate", 0)):
        yield (name, ""), _share(answered == place)


def _share(flags: Flags) -> Estimate | str:
    try:
        return share(Series(flags.astype(np.float64)))
    except TooFew as error:
        return str(error)


def _goodput(
    table: Mapping[str, NDArray[Any]], ends: Ends | None, started: int, rate: float | None
) -> dict[Key, Estimate | str]:
    """Return share and rate of good completions.

    What was started and never ended is not good. A rate of 0 has the doubt of the share of 0.
    """
    ended = table["good"][table["measured"]]
    good = np.concatenate([ended, np.zeros(max(started - len(ended), 0), dtype=bool)])
    found = {("goodput", ""): _share(good)}
    if ends is not None and rate is not None:
        one = found["goodput", ""]
        if rate:
            one = ends.rate(table["good"], np.ones(len(table["good"])), rate)
        elif not isinstance(one, str):
            one = replace(one, value=0.0, grid=one.grid * (len(good) / ends.seconds))
        found["goodput_rate", ""] = one
    return found

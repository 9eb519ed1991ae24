"""What one second of a run was like, for one scenario, model and step, or for all of them together.

Pure maths, no I/O, no clock. Counts, rates and percentiles of what ended in that second; tokens count where they
arrived. docs/influxdb.md lists the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from llmload.metrics.distributions import PERCENTILES
from llmload.records import BUFFERED_SHARE

Fields = dict[str, float | int | str | bool]

SAMPLED = {"ttft": "ttft_s", "itl": "gaps_us", "tpot": "tpot_s", "e2e": "e2e_s"}
"""Prefix of the fields → where a completion has it."""
_COUNTS = ("ok", "failed", "cancelled")
_SUMS = ("output_tokens", "served_tokens", "input_tokens", "good")


def _none_yet() -> dict[str, list[float]]:
    return {name: [] for name in SAMPLED}


@dataclass(slots=True)
class Cell:
    """One second of one key."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    samples: dict[str, list[float]] | None = field(default_factory=_none_yet)
    """None once the percentiles are settled."""
    percentiles: Fields = field(default_factory=dict)
    stamps: set[str] = field(default_factory=set)

    def add(self, completion: Mapping[str, Any]) -> None:
        """Count a completion that ended in this second, given as `Completion.to_dict` returns it."""
        self.counts[completion["outcome"]] += 1
        self.stamps.add(completion.get("stamps", "read"))
        if completion["outcome"] != "ok" or self.samples is None:
            return
        for name, source in SAMPLED.items():
            value = completion.get(source)
            if value is None:
                continue
            if name != "itl":
                self.samples[name].append(value)
            elif (completion.get("burst_share") or 0) <= BUFFERED_SHARE:
                self.samples[name].extend(value)

    def settle(self) -> None:
        """Keep the percentiles and let go of the samples."""
        if self.samples is not None:
            self.percentiles, self.samples = percentile_fields(self.samples), None

    def fields(self, *, has_goodput: bool) -> Fields:
        """Return rates per second, and the percentiles."""
        fields: Fields = {f"{name}_rate": float(self.counts[name]) for name in _COUNTS[:2]}
        fields.update(
            output_tps=float(self.sums["output_tokens"]),
            served_tps=float(self.sums["served_tokens"]),
        )
        if self.sums["input_tokens"]:  # prompt tokens that no usage counted are unknown, not 0
            fields["input_tps"] = float(self.sums["input_tokens"])
        if has_goodput:
            fields["goodput_rate"] = float(self.sums["good"])
        return fields | (self.percentiles if self.samples is None else percentile_fields(self.samples))


def merged(cells: Iterable[Cell]) -> Cell:
    """Return a cell of everything in these, whose percentiles are not settled yet."""
    total = Cell()
    assert total.samples is not None
    for cell in cells:
        for name in _COUNTS:
            total.counts[name] += cell.counts[name]
        for name in _SUMS:
            total.sums[name] += cell.sums[name]
        for name, values in (cell.samples or {}).items():
            total.samples[name].extend(values)
        total.stamps |= cell.stamps
    return total


def percentile_fields(samples: Mapping[str, list[float]]) -> Fields:
    """Return `ttft_p50_s` … `ttft_max_s` and `ttft_n` for each kind of sample that there is; of the rest only n = 0."""
    fields: Fields = {}
    for name, values in samples.items():
        fields[f"{name}_n"] = n = len(values)
        if n:
            ordered, unit = sorted(values), 1e-6 if name == "itl" else 1.0
            for percent in PERCENTILES:
                fields[f"{name}_p{percent}_s"] = ordered[ceil(percent * n / 100) - 1] * unit
            fields[f"{name}_max_s"] = ordered[-1] * unit
    return fields

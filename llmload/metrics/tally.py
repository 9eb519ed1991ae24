"""Tallies: everything a summary says about finished completions, in a mergeable form of bounded size.

No I/O, no clock. Merging is addition, minimum and maximum, so the order in which workers report changes
nothing. Latencies come from ok completions only: a request that failed fast would make a sick server look
quick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from llmload.metrics.definitions import REQUEST_METRICS
from llmload.metrics.histogram import Histogram
from llmload.metrics.seconds import Seconds, ended_unix_ns
from llmload.records import Completion

MAX_KEYS = 1000
"""Combinations of scenario, model and step. Those beyond it are counted together, but each step by itself: steps are
ours and bounded (`pacing.levels`), scenarios and models are a locustfile's."""
MAX_LABELS = 64
"""Different finish reasons, or kinds of failure: a server can invent as many as it likes."""
OTHER = "other"

Key = tuple[str, str, str | None]
"""Scenario, model, step."""

CUT_OFF = ("cut_ttft_s", "cut_e2e_s")
"""Histograms of how long cancelled requests had been under way: without a first token, and without an end."""

_TICKS = {metric.name: metric.ticks_per_unit for metric in REQUEST_METRICS} | dict.fromkeys(CUT_OFF, 1_000_000)
_FIELDS = tuple(metric.name for metric in REQUEST_METRICS if metric.name != "itl_s")
_SUMMED = ("token_events", "coalesced_events", "malformed_events", "invalid_bytes")
_FLAGS = ("usage_suspect", "ttft_is_bound", "compressed", "good")


class Tally:
    """Counts, histograms and per-second sums of finished completions.

    `counts` holds, by name: `ok`, `failed`, `cancelled`; `<direction>_tokens_<outcome>` for input and output;
    `token_events`, `coalesced_events`, `malformed_events`, `invalid_bytes`, `event_tokens` (output tokens of
    completions that had token events: not of answers that were not streamed), and completions with
    `usage_suspect`, `ttft_is_bound`, `compressed`, `reused` or `new_connection`, of every outcome; `streamed`,
    `buffered` and `good` of ok ones.
    """

    __slots__ = (
        "counts", "examples", "failures", "finish_reasons", "first_start_unix_ns", "histograms",
        "last_end_unix_ns", "missing", "seconds", "stamps", "usage_sources",
    )  # fmt: skip

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        """By kind; of `http_status` by `http_status 429`."""
        self.examples: dict[str, str] = {}
        """One message per kind: the first in the order of the alphabet, so that merging needs no order."""
        self.finish_reasons: Counter[str] = Counter()
        self.usage_sources: Counter[str] = Counter()
        """Where the output tokens of ok completions come from."""
        self.stamps: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        """Ok completions for which a metric is undefined, by metric."""
        self.histograms: dict[str, Histogram] = {}
        self.seconds = Seconds()
        self.first_start_unix_ns: int | None = None
        self.last_end_unix_ns: int | None = None

    def add(self, completion: Completion) -> None:
        """Count one finished completion."""
        self._count(completion)
        if completion.outcome == "ok":
            self._measure(completion)
        elif completion.outcome == "failed":
            self._fail(completion)
        elif completion.cut_s is not None:
            self._histogram("cut_e2e_s").record(completion.cut_s)
            if completion.stream and completion.ttft_s is None:
                self._histogram("cut_ttft_s").record(completion.cut_s)
        self.seconds.add(completion)
        self._span(completion.started_unix_ns, ended_unix_ns(completion))

    def _count(self, completion: Completion) -> None:
        counts, outcome = self.counts, completion.outcome
        counts[outcome] += 1
        for name in _SUMMED:
            if value := getattr(completion, name):
                counts[name] += value
        for name in _FLAGS:
            if getattr(completion, name):
                counts[name] += 1
        if completion.reused is not None:
            counts["reused" if completion.reused else "new_connection"] += 1
        counts["stale"] += completion.reconnects
        counts[f"input_tokens_{outcome}"] += completion.input_tokens or 0
        counts[f"output_tokens_{outcome}"] += completion.output_tokens or 0
        if completion.token_events:
            counts["event_tokens"] += completion.output_tokens or 0
        self.stamps[completion.stamps] += 1
        if completion.finish_reason is not None:
            _add_label(self.finish_reasons, completion.finish_reason[:80])

    def _measure(self, completion: Completion) -> None:
        for name in _FIELDS:
            value = getattr(completion, name)
            if value is None:
                self.missing[name] += 1
            else:
                self._histogram(name).record(value)
        buffered = completion.buffered
        self.counts["buffered"] += buffered
        self.counts["streamed"] += completion.stream
        if buffered or not completion.gaps_us:
            self.missing["itl_s"] += 1
        else:
            self._histogram("itl_s").record_many(completion.gaps_us)
        if completion.usage_source is not None:
            self.usage_sources[completion.usage_source] += 1

    def _fail(self, completion: Completion) -> None:
        kind = completion.kind or "internal"
        label = f"{kind} {completion.status}" if kind == "http_status" else kind
        _add_label(self.failures, label)
        if completion.message:
            self._example(label, completion.message)

    def _example(self, label: str, message: str) -> None:
        if label in self.failures:
            self.examples[label] = min(message, self.examples.get(label, message))

    def _histogram(self, name: str) -> Histogram:
        histogram = self.histograms.get(name)
        if histogram is None:
            histogram = self.histograms[name] = Histogram(_TICKS[name])
        return histogram

    def _span(self, start_ns: int | None, end_ns: int | None) -> None:
        if start_ns is not None and (self.first_start_unix_ns is None or start_ns < self.first_start_unix_ns):
            self.first_start_unix_ns = start_ns
        if end_ns is not None and (self.last_end_unix_ns is None or end_ns > self.last_end_unix_ns):
            self.last_end_unix_ns = end_ns

    def merge(self, other: Tally) -> None:
        """Add another tally; `other` is left as it is."""
        self.counts.update(other.counts)
        self.missing.update(other.missing)
        self.usage_sources.update(other.usage_sources)
        self.stamps.update(other.stamps)
        for mine, theirs in ((self.failures, other.failures), (self.finish_reasons, other.finish_reasons)):
            for label, count in theirs.items():
                _add_label(mine, label, count)
        for label, message in other.examples.items():
            self._example(label, message)
        for name, histogram in other.histograms.items():
            self._histogram(name).merge(histogram)
        self.seconds.merge(other.seconds)
        self._span(other.first_start_unix_ns, other.last_end_unix_ns)

    def to_wire(self) -> dict[str, Any]:
        """Return a dict of str keys, ints, strings, bytes and None for `from_wire`."""
        counters = ("counts", "failures", "finish_reasons", "usage_sources", "stamps", "missing")
        return {
            **{name: dict(getattr(self, name)) for name in counters},
            "examples": dict(self.examples),
            "histograms": {name: histogram.to_wire() for name, histogram in self.histograms.items()},
            "seconds": self.seconds.to_wire(),
            "first_start_unix_ns": self.first_start_unix_ns,
            "last_end_unix_ns": self.last_end_unix_ns,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Tally:
        """Return the tally that `to_wire` was called on."""
        tally = cls()
        for name in ("counts", "failures", "finish_reasons", "usage_sources", "stamps", "missing"):
            getattr(tally, name).update(wire[name])
        tally.examples.update(wire["examples"])
        tally.histograms = {name: Histogram.from_wire(value) for name, value in wire["histograms"].items()}
        tally.seconds = Seconds.from_wire(wire["seconds"])
        tally._span(wire["first_start_unix_ns"], wire["last_end_unix_ns"])
        return tally


class Tallies:
    """One `Tally` per scenario, model and step, at most `MAX_KEYS` of them and one more for each step."""

    def __init__(self, completions: Iterable[Completion] = ()) -> None:
        self.by_key: dict[Key, Tally] = {}
        for completion in completions:
            self.add(completion)

    def add(self, completion: Completion) -> None:
        """Count one finished completion."""
        self._tally((completion.scenario, completion.model, completion.step)).add(completion)

    def merge(self, other: Tallies) -> None:
        """Add another's tallies; `other` is left as it is."""
        for key, tally in other.by_key.items():
            self._tally(key).merge(tally)

    def shift(self, seconds: int) -> None:
        """Move everything in time by whole seconds: the worker's clock was that much slow."""
        for tally in self.by_key.values():
            tally.seconds.shift(seconds)
            if tally.first_start_unix_ns is not None:
                tally.first_start_unix_ns += seconds * 10**9
            if tally.last_end_unix_ns is not None:
                tally.last_end_unix_ns += seconds * 10**9

    def total(self) -> Tally:
        """Return a new tally of everything."""
        return _merged(self.by_key.values())

    def scenarios(self, steps: Iterable[str | None] | None = None) -> dict[str, Tally]:
        """Return one new tally per scenario, by name in the order of the alphabet; of these steps only, if given."""
        wanted = set(self.steps() if steps is None else steps)
        names = sorted({key[0] for key in self.by_key})
        return {
            name: _merged(tally for key, tally in self.by_key.items() if key[0] == name and key[2] in wanted)
            for name in names
        }

    def steps(self) -> list[str | None]:
        """Return the different step labels, in the order in which they came."""
        return list(dict.fromkeys(key[2] for key in self.by_key))

    def only(self, steps: Iterable[str | None]) -> Tallies:
        """Return what started in these steps; its tallies are those of this one."""
        wanted, part = set(steps), Tallies()
        part.by_key = {key: tally for key, tally in self.by_key.items() if key[2] in wanted}
        return part

    def of_steps(self, steps: Iterable[str | None]) -> Tally:
        """Return a new tally of what started in these steps."""
        wanted = set(steps)
        return _merged(tally for key, tally in self.by_key.items() if key[2] in wanted)

    def _tally(self, key: Key) -> Tally:
        if key not in self.by_key:
            if len(self.by_key) >= MAX_KEYS:
                key = (OTHER, OTHER, key[2])
            self.by_key.setdefault(key, Tally())
        return self.by_key[key]

    def to_wire(self) -> list[dict[str, Any]]:
        """Return one dict per tally, of what msgpack can carry, for `from_wire`."""
        return [
            {"scenario": scenario, "model": model, "step": step, "tally": tally.to_wire()}
            for (scenario, model, step), tally in self.by_key.items()
        ]

    @classmethod
    def from_wire(cls, wire: Iterable[Mapping[str, Any]]) -> Tallies:
        """Return the tallies that `to_wire` was called on."""
        tallies = cls()
        for row in wire:
            key = (row["scenario"], row["model"], row["step"])
            tallies.by_key[key] = Tally.from_wire(row["tally"])
        return tallies


def _merged(tallies: Iterable[Tally]) -> Tally:
    merged = Tally()
    for tally in tallies:
        merged.merge(tally)
    return merged


def _add_label(counter: Counter[str], label: str, count: int = 1) -> None:
    if label not in counter and len(counter) >= MAX_LABELS:
        label = OTHER
    counter[label] += count

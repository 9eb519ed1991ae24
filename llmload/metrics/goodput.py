"""Goodput: which completions met every objective of their own, and what share and rate of them a run had.

No I/O, no clock. The form is that of other tools, milliseconds: `ttft:500 tpot:50 e2e:5000`. A completion is judged
where it ends and carries the answer (`Completion.good`), so that counts merge and a record can be counted again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmload.config import nearest
from llmload.errors import SetupError
from llmload.metrics.definitions import REQUEST_METRICS
from llmload.metrics.tally import Tally
from llmload.records import Completion

EXAMPLE = "write e.g. 'ttft:500 tpot:50 e2e:5000', milliseconds"
_NAMES = {
    row.name.removesuffix("_s"): row.name for row in REQUEST_METRICS if row.unit == "s" and row.name != "itl_s"
} | {"e2el": "e2e_s"}
_PAIR = re.compile(r"([a-z_0-9]+)\s*:\s*(\d+(?:\.\d+)?|\.\d+)(ms|s)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Goodput:
    """What one completion must meet: largest values in seconds by metric.

    >>> Goodput("ttft:500", {"ttft_s": 0.5}).good("ok", {"ttft_s": 0.5})
    True
    """

    text: str
    limits: Mapping[str, float]

    def good(self, outcome: str, measured: Mapping[str, Any]) -> bool:
        """Whether a completion ended ok and has, for every metric, a value that is at most the limit.

        A metric that is not defined for the completion is not met: None is never 0.
        """
        if outcome != "ok":
            return False
        values = ((measured.get(name), limit) for name, limit in self.limits.items())
        return all(value is not None and value <= limit for value, limit in values)


def parse_goodput(text: str | None, *, where: str = "--goodput") -> Goodput | None:
    """Return the objectives of a completion, None for none.

    Raises:
        SetupError: the text is no list of `name:milliseconds`, or names something that is no time of a request.
    """
    if text is None or not text.strip():
        return None
    limits: dict[str, float] = {}
    for word in re.sub(r"\s*:\s*", ":", text.lower()).replace(",", " ").split():
        match = _PAIR.fullmatch(word)
        if match is None:
            raise SetupError(f"{where}: {word!r} is no objective", EXAMPLE)
        short, number, unit = match[1].removesuffix("_s"), float(match[2]), match[3]
        if short == "itl":
            raise SetupError(f"{where}: a request has many ITLs", "give tpot, the mean of its gaps")
        if short not in _NAMES:
            raise SetupError(
                f"{where}: {match[1]!r} is no time of a request", f"use {', '.join(nearest(short, _NAMES))}"
            )
        if _NAMES[short] in limits:
            raise SetupError(f"{where}: {short} is there twice", "give it once")
        if not number:
            raise SetupError(f"{where}: nothing takes 0 ms", "give the longest time that is still good")
        limits[_NAMES[short]] = number if unit == "s" else number / 1000
    return Goodput(" ".join(text.split()), limits)


def wanted_goodput(text: str | None) -> Goodput | None:
    """Return the objectives of an option that judges a record anew, None where it was not given.

    Raises:
        SetupError: the text is empty, or `parse_goodput` refuses it.
    """
    goodput = parse_goodput(text)
    if text is not None and goodput is None:
        raise SetupError("--goodput is empty", "give e.g. 'ttft:500 e2e:5000', or leave it out")
    return goodput


def limits_text(limits: Mapping[str, float]) -> str:
    """Return limits by metric, in seconds, in the form that is read.

    >>> limits_text({"ttft_s": 0.5, "e2e_s": 5.0})
    'ttft:500 e2e:5000'
    """
    return " ".join(f"{name.removesuffix('_s')}:{limit * 1e3:.10g}" for name, limit in limits.items())


def marked(completions: Iterable[Completion], goodput: Goodput | None) -> Iterator[Completion]:
    """Yield completions judged by other objectives than they were recorded with."""
    for completion in completions:
        measured = {name: getattr(completion, name) for name in goodput.limits} if goodput else {}
        yield replace(completion, good=goodput.good(completion.outcome, measured) if goodput else None)


def goodput_of(
    tally: Tally,
    run: Mapping[str, Any],
    *,
    started: int | None = None,
    rate: float | None = None,
) -> dict[str, Any] | None:
    """Return the part `goodput` of a summary, None where no objectives were set.

    `missing` says, by metric, how many ok completions
    are not good only because they have no such metric or for that, too.

    Args:
        tally: of the measured completions.
        run: the content of `run.json`; what was asked of each is `settings.goodput`.
        started: measured requests started; None: as many as ended.
        rate: good completions per second, see `good_rate`.
    """
    goodput = parse_goodput((run.get("settings") or {}).get("goodput"))
    if goodput is None:
        return None
    counts = tally.counts
    ended = counts["ok"] + counts["failed"] + counts["cancelled"]
    started = ended if started is None else started
    return {
        "objectives": dict(goodput.limits),
        "started": started,
        "good": counts["good"],
        "share": counts["good"] / started if started else None,
        "rate": rate,
        "missing": {name: tally.missing[name] for name in goodput.limits},
    }


def good_rate(tally: Tally, everything: Tally, throughput: Mapping[str, Any]) -> float | None:
    """Return good completions per second of the headline window of `throughput`; None where there is none.

    Args:
        tally: of the measured completions.
        everything: of all completions: what ends within the steady window counts.
        throughput: the summary's part of the same completions.
    """
    window = throughput["window"]
    if window is None:
        return None
    if throughput["steady"] is None:
        return float(tally.counts["good"] / window["seconds"])
    found = everything.seconds.between(window["from"], window["to"])
    return found[0]["good"] / window["seconds"] if found else None

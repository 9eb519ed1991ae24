"""The rules of `--fail-on`: `ttft p95 worse by 10%`, read and judged on a comparison.

Pure, no I/O, no clock. A rule fails when the whole interval of the change lies beyond its limit, in the worse
direction. With a confidence of 95 % its nominal rate of false alarms is 5 %, of which one direction takes half: that is
for a true change right at the limit; with a smaller one, or none, alarms are rarer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from llmload.config import nearest
from llmload.errors import SetupError
from llmload.metrics.comparison import KEYS, NEUTRAL
from llmload.metrics.definitions import BY_NAME
from llmload.metrics.evidence import GOODPUTS, STATISTICS, Key

EXAMPLE = "write e.g. 'ttft p95 worse by 10%'"
_SHORT = {name.removesuffix("_s"): name for name, _ in KEYS}
_RULE = re.compile(
    r"\s*(?:(?P<call>\w[\w.]*)\s*\(\s*(?P<inner>[\w.]+)\s*\)"
    r"|(?P<metric>[\w.]+)(?:\s+(?P<statistic>(?!worse\b)[\w.]+))?)(?P<rest>.*)",
    re.DOTALL,
)
_LIMIT = re.compile(r"\s*(?:(?P<worse>worse)(?:\s+by\s+(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>%|ms|s)?)?)?\s*")
_SECONDS = {"ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Args:
        text: as written.
        key: metric and statistic.
        limit: how much worse is allowed: a share of base (0.1 for 10 %), or with `absolute` in the metric's unit.
    """

    text: str
    key: Key
    limit: float
    absolute: bool

    def judge(self, comparison: Mapping[str, Any]) -> dict[str, Any]:
        """Return `text`, `verdict` (`failed`, `passed`, `not judged`) and `why`."""
        metric, rows = self.key[0], comparison["rows"]
        row = next((one for one in rows if (one["metric"], one["statistic"] or "") == self.key), None)
        if row is None:
            hint = ": give --goodput" if metric in GOODPUTS else ""
            return self._said("not judged", f"neither side has it{hint}")
        change = row["delta"] if self.absolute else row["relative"]
        if row["verdict"] == "not comparable" or change is None:
            return self._said("not judged", row["why"] or "base is 0, so that there is no share of it")
        least = -change["high"] if BY_NAME[metric].higher_is_better else change["low"]
        most = -change["low"] if BY_NAME[metric].higher_is_better else change["high"]
        reach = f"{self._shown(least)} to {self._shown(most)} worse, {comparison['confidence']:.0%} sure"
        return self._said("failed" if least > self.limit else "passed", reach)

    def _said(self, verdict: Literal["failed", "passed", "not judged"], why: str) -> dict[str, Any]:
        return {"text": self.text, "verdict": verdict, "why": why}

    def _shown(self, value: float) -> str:
        if not self.absolute:
            return f"{value * 100:+.1f} %"
        unit = BY_NAME[self.key[0]].unit
        return f"{value * 100:+.2f} points" if unit == "share" else f"{value * 1e3:+.1f} ms"


def parse_rule(text: str) -> Rule:
    """Return the rule of a text.

    Raises:
        SetupError: it does not parse (the message points at the character), or can never fail.
    """
    key, at = _read_key(text, "--fail-on", EXAMPLE)
    limit = _LIMIT.match(text, at)
    assert limit is not None  # every part of it is optional
    if not limit["worse"]:
        _fail(text, limit.end(), "'worse' is missing", EXAMPLE)
    if limit.end() < len(text):
        _fail(text, limit.end(), f"{text[limit.end()]!r} is too much", EXAMPLE)
    return _rule(text, key, limit)


def parse_key(text: str, where: str) -> Key:
    """Return the metric and statistic of a text such as `ttft p95`, `p95(ttft)` or `goodput`.

    Raises:
        SetupError: it does not parse (the message points at the character).
    """
    example = "write e.g. 'ttft p95'"
    key, at = _read_key(text, where, example)
    if rest := text[at:].strip():
        _fail(text, text.index(rest, at), f"{rest[0]!r} is too much", example, where)
    return key


def _read_key(text: str, where: str, example: str) -> tuple[Key, int]:
    """Return what the text begins with, and where the rest begins."""
    head = _RULE.match(text)
    if head is None:
        _fail(text, 0, "a metric is missing", example, where)
    place = "inner" if head["inner"] else "metric"
    name = _metric(text, head[place], head.start(place), where)
    return (name, _statistic(text, head, name, where)), head.start("rest")


def _metric(text: str, word: str, at: int, where: str) -> str:
    name = _SHORT.get(word.lower().removesuffix("_s"))
    if name is None:
        _fail(text, at, f"there is no metric {word!r}", f"use one of {', '.join(nearest(word, _SHORT))}", where)
    if name in NEUTRAL:
        _fail(text, at, f"{word} is neither good nor bad", "choose a metric that can be worse", where)
    return name


def _statistic(text: str, head: re.Match[str], name: str, where: str) -> str:
    place = "call" if head["inner"] else "statistic"
    word, at = head[place], head.start(place) if head[place] else head.end("metric")
    if (name, "") in KEYS:
        if word:
            _fail(text, at, f"{name} is one number of a run, it has no {word}", f"write {name} alone", where)
        return ""
    short = name.removesuffix("_s")
    if not word:
        _fail(text, at, f"{short} needs a statistic", f"write e.g. {short} p95", where)
    if word.lower() not in STATISTICS:
        _fail(text, at, f"there is no statistic {word!r}", f"use one of {', '.join(nearest(word, STATISTICS))}", where)
    return word.lower()


def _rule(text: str, key: Key, limit: re.Match[str]) -> Rule:
    said, share = " ".join(text.split()), BY_NAME[key[0]].unit == "share"
    number, unit = float(limit["number"] or 0), limit["unit"]
    if limit["number"] and unit is None:
        _fail(
            text, limit.end("number"), f"{limit['number']} of what", "write a share of base in %, or a time in ms or s"
        )
    if unit in _SECONDS:
        if BY_NAME[key[0]].unit != "s":
            _fail(text, limit.start("unit"), f"{key[0]} is no time", "write %")
        return Rule(said, key, number * _SECONDS[unit], absolute=True)
    if number > 1000 or (share and number >= 100):
        _fail(text, limit.start("number"), f"nothing can be {number:g}% worse", "write e.g. 10%")
    if BY_NAME[key[0]].higher_is_better and number >= 100:
        _fail(text, limit.start("number"), f"{key[0]} cannot fall by {number:g}%", "write e.g. 10%")
    return Rule(said, key, number / 100, absolute=share)


def _fail(text: str, at: int, what: str, hint: str, where: str = "--fail-on") -> NoReturn:
    shown = "".join(char if char.isprintable() else " " for char in text)
    raise SetupError(f"{where}: {what}", f"{hint}\n    {shown}\n    {' ' * at}^")

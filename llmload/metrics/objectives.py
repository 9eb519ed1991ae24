"""The grammar of objectives, and their verdicts on a summary.

No I/O, no clock.

    p95(ttft) < 800ms; p99.9(itl) < 120ms; error_rate < 1%; output_throughput > 900; goodput >= 98%
    chat: p95(ttft) < 1s and error_rate < 5%; model=llama, step=50: mean(e2e) < 20s

Objectives are separated by `;`, a line end or `and`. A scope stands before a colon: a scenario's name, or `scenario=`,
`model=` and `step=` with commas between them; it holds for what `and` joins to it, too. Names are those of
`definitions`, with or without `_s`. Times need a unit; rates are percent, or shares below 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NoReturn

from llmload.config import nearest
from llmload.errors import SetupError
from llmload.metrics.definitions import REQUEST_METRICS
from llmload.metrics.objective import UNITS, Objective, Scope, Section
from llmload.metrics.sense import contradiction, pointless

STATISTICS = ("mean", "min", "max", "p50", "p90", "p95", "p99", "n")
"""Beside these, any percentile: `p99.9`."""

EXAMPLE = "write e.g. p95(ttft) < 800ms"
_PER_REQUEST = {row.name: row.name.removesuffix("_s") for row in REQUEST_METRICS}
_SHORT = {short: name for name, short in _PER_REQUEST.items()}
_PLAIN = tuple(name for name in UNITS if name not in _PER_REQUEST)
_SCALES: dict[str, dict[str, Fraction]] = {
    "s": {"us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "min": Fraction(60)},
    "share": {"%": Fraction(1, 100), "": Fraction(1)},
    "tok/s": dict.fromkeys(("", "tok/s", "tokens/s", "tps"), Fraction(1)),
    "req/s": dict.fromkeys(("", "req/s", "requests/s", "/s", "rps"), Fraction(1)),
    "tokens": dict.fromkeys(("", "tokens"), Fraction(1)),
    "requests": dict.fromkeys(("", "requests"), Fraction(1)),
    "samples": {"": Fraction(1)},
}
_SEPARATOR = re.compile(r'"[^"]*"|(?P<soft>(?<!\S)and(?!\S))|(?P<hard>[;\n])', re.IGNORECASE)
_COLON = re.compile(r'"[^"]*"|(?P<colon>:)')
_PART = re.compile(r'\s*(?:(?P<key>\w+)\s*=\s*)?(?:"(?P<quoted>[^"]+)"|(?P<bare>[^\s,;"=()<>]+))\s*(?P<comma>,|$)')
_WORD = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_OP = re.compile(r"<=|>=|<|>")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d{1,2})?|\.\d+", re.ASCII | re.IGNORECASE)
_UNIT = re.compile(r"[^\s\d,]+")


def parse_objectives(texts: Iterable[str], *, where: str = "--slo") -> tuple[Objective, ...]:
    """Return the objectives of some texts, without duplicates, in order.

    Args:
        texts: each holds one or more.
        where: what an error calls their source.

    Raises:
        SetupError: a text is empty or does not parse (the message points at the character), an objective says nothing
            or cannot be met, or two contradict each other.
    """
    found: dict[Objective, None] = {}
    for text in texts:
        read = list(_read(text, where))
        if not read:
            raise SetupError(f"{where} is empty, a gate that checks nothing", f"{EXAMPLE}, or leave it out")
        found |= dict.fromkeys(read)
    if both := contradiction(found):
        raise SetupError(f"{where}: {both[0].text!r} and {both[1].text!r} contradict each other", "change one of them")
    return tuple(found)


def judge(
    objectives: Iterable[Objective],
    summary: Section,
    section_of: Callable[[Scope], Section | None] | None = None,
) -> list[dict[str, Any]]:
    """Return the verdict on each objective, JSON-ready; see `Objective.judge`.

    Args:
        objectives: what was asked for.
        summary: of the whole run.
        section_of: returns the part of the run that a scope names, None where there is none; without it only
            scenarios are found.
    """
    find = section_of or (lambda scope: _scenario_section(scope, summary))
    return [one.judge(find(one.scope) if one.scope else summary) for one in objectives]


def missed(verdicts: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """Return the verdicts that are not met."""
    return [one for one in verdicts or () if not one["met"]]


def _scenario_section(scope: Scope, summary: Section) -> Section | None:
    found: Section | None = None
    if scope.model is None and scope.step is None and scope.scenario is not None:
        found = summary.get("scenarios", {}).get(scope.scenario)
    return found


class _Reader:
    """A text and the place in it that is read next."""

    def __init__(self, text: str, start: int, end: int, where: str) -> None:
        self.text, self.at, self.end, self._where = text, start, end, where

    def take(self, pattern: re.Pattern[str]) -> str:
        """Return what the pattern matches here, "" for nothing, and go on behind it and behind white space."""
        self.skip()
        match = pattern.match(self.text, self.at, self.end)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def skip(self) -> None:
        while self.at < self.end and self.text[self.at].isspace():
            self.at += 1

    def fail(self, what: str, hint: str, *, at: int | None = None) -> NoReturn:
        """Refuse the text: one line, then the line that is meant with a mark below the character."""
        at = self.at if at is None else at
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text[start:].partition("\n")[0]
        first = max(0, at - start - 60)
        shown = "".join(char if char.isprintable() else " " for char in line[first : first + 100])
        raise SetupError(f"{self._where}: {what}", f"{hint}\n    {shown}\n    {' ' * (at - start - first)}^")


def _read(text: str, where: str) -> Iterator[Objective]:
    scope, joined, start = Scope(), False, 0
    cuts = [match for match in _SEPARATOR.finditer(text) if match["soft"] or match["hard"]]
    for cut in [*cuts, None]:
        reader = _Reader(text, start, len(text) if cut is None else cut.start(), where)
        joins = cut is not None and cut["soft"] is not None
        reader.skip()
        if reader.at < reader.end:
            scope = _read_scope(reader) or (scope if joined else Scope())
            yield _read_objective(reader, scope)
        elif joined or joins:
            reader.fail("an objective is missing beside 'and'", EXAMPLE)
        joined, start = joins, len(text) if cut is None else cut.end()


def _read_scope(reader: _Reader) -> Scope | None:
    """Take what stands before the last colon; no objective has one in itself, but a model's name may."""
    colons = [m.start() for m in _COLON.finditer(reader.text, reader.at, reader.end) if m["colon"]]
    if not colons:
        return None
    given: dict[str, str] = {}
    while True:
        match = _PART.match(reader.text, reader.at, colons[-1])
        if match is None:
            reader.fail("this is no scope", "write a scenario's name, or model=NAME, step=LABEL, before the colon")
        key = (match["key"] or "scenario").lower()
        if key not in ("scenario", "model", "step"):
            reader.fail(f"there is no scope {key!r}", "use scenario=, model= or step=")
        if key in given:
            reader.skip()
            reader.fail(f"the scope names {key} twice", "write one objective for each")
        given[key] = match["quoted"] or match["bare"]
        reader.at = match.end()
        if not match["comma"]:
            break
    reader.at = colons[-1] + 1
    return Scope(**given)


def _read_objective(reader: _Reader, scope: Scope) -> Objective:
    reader.skip()
    begin = reader.at
    metric, statistic = _read_value(reader)
    name = f"{statistic}({_PER_REQUEST[metric]})" if statistic else metric
    reader.skip()
    at = reader.at
    op: Any = reader.take(_OP)
    if not op:
        reader.fail(f"a comparison must follow {name}", "use <, <=, > or >=", at=at)
    reader.skip()
    at = reader.at
    number = reader.take(_NUMBER)
    if not number:
        reader.fail("a number must follow the comparison", f"write e.g. {name} {op} {_example(metric, statistic)}")
    unit = reader.take(_UNIT)
    reader.skip()
    limit = _limit(reader, metric, statistic, number, unit, at)
    if reader.at < reader.end:
        reader.fail(f"{reader.text[reader.at]!r} is too much", "put ; between objectives")
    if wrong := pointless(metric, statistic, op, limit):
        reader.fail(*wrong, at=at)
    said = " ".join(reader.text[begin : reader.end].split())
    return Objective(f"{scope}: {said}" if scope else said, scope, metric, statistic, op, limit)


def _read_value(reader: _Reader) -> tuple[str, str | None]:
    """Return (metric, statistic); the statistic is None for a number of the whole run."""
    at = reader.at
    word = reader.take(_WORD)
    if not word:
        reader.fail("a metric is missing", EXAMPLE, at=at)
    reader.skip()
    if reader.text[reader.at : reader.end][:1] != "(":
        return _plain(reader, word.lower(), at), None
    statistic = _statistic(reader, word.lower(), at)
    reader.at += 1
    reader.skip()
    inner_at = reader.at
    inner = reader.take(_WORD).lower()
    if inner in _PLAIN:
        reader.fail(f"{inner} is one number of a run, it has no {word}", f"write {inner} alone", at=inner_at)
    metric = _SHORT.get(inner) or (inner if inner in _PER_REQUEST else None)
    if metric is None:
        reader.fail(f"there is no metric {inner!r}", f"use one of {', '.join(nearest(inner, _SHORT))}", at=inner_at)
    reader.skip()
    if reader.text[reader.at : reader.end][:1] != ")":
        reader.fail(f"a ) must follow {inner}", EXAMPLE)
    reader.at += 1
    return metric, statistic


def _plain(reader: _Reader, word: str, at: int) -> str:
    if word in _SHORT or word in _PER_REQUEST:
        reader.fail(f"{word} needs a statistic", f"write e.g. p95({word}) or mean({word})", at=at)
    if word not in _PLAIN:
        reader.fail(
            f"there is no value {word!r}", f"use one of {', '.join(nearest(word, (*_PLAIN, 'p95(ttft)')))}", at=at
        )
    return word


def _statistic(reader: _Reader, word: str, at: int) -> str:
    if re.fullmatch(r"p\d{1,3}(\.\d{1,6})?", word, re.ASCII):
        if 0 < float(word[1:]) <= 100:
            return f"p{float(word[1:]):.10g}"
        reader.fail(f"{word} is no percentile", "use one above 0 and at most 100, e.g. p95", at=at)
    if word not in STATISTICS:
        reader.fail(
            f"there is no statistic {word!r}", f"use one of {', '.join(nearest(word, STATISTICS))}, or any pNN", at=at
        )
    return word


def _limit(reader: _Reader, metric: str, statistic: str | None, number: str, unit: str, at: int) -> float:
    kind = "samples" if statistic == "n" else UNITS[metric]
    scales, value = _SCALES[kind], Fraction(number)
    if unit.lower() not in scales:
        known = ", ".join(one for one in scales if one) or "no unit"
        if not unit:
            reader.fail(
                f"a {'time' if kind == 's' else kind} needs a unit", f"write e.g. {number}ms or {number}s", at=at
            )
        reader.fail(f"{unit!r} is no unit of {metric}", f"use {known}", at=reader.text.find(unit, at))
    value *= scales[unit.lower()]
    if kind == "share" and not unit and value >= 1:
        reader.fail(f"{number} of what", f"write {number}%, or a share below 1", at=at)
    if kind == "share" and value > 1:
        reader.fail(f"{number}% is more than all", "write at most 100%", at=at)
    return float(value)


def _example(metric: str, statistic: str | None) -> str:
    unit = "samples" if statistic == "n" else UNITS[metric]
    return {"s": "800ms", "share": "1%"}.get(unit, "100")

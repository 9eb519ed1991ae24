"""Traces: when requests came and how long they and their answers were, to be sent again in the same rhythm.

`load_trace` reads one file; nothing else here does I/O. No network, no clock. Known without being told:

* Mooncake: JSONL with `timestamp` (milliseconds), `input_length`, `output_length` and `hash_ids`, one for each 512
  tokens of the prompt, equal ids for equal prefixes (github.com/kvcache-ai/Mooncake). Without `hash_ids` every prompt
  is one of its own.
* BurstGPT: CSV with `Timestamp` (seconds), `Request tokens`, `Response tokens` (github.com/HPMLL/BurstGPT). Rows
  without a response token were failures of the traced service; they are left out, and counted.
* Azure: CSV with `TIMESTAMP` (a date), `ContextTokens`, `GeneratedTokens` (github.com/Azure/AzurePublicDataset).
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from llmload.errors import SetupError
from llmload.workload.prompts import Prompt
from llmload.workload.synthetic import BLOCK_TOKENS, synthetic_text, text_of_blocks

MAX_ROWS = 2_000_000
MAX_TOKENS = 10_000_000
MAX_GAP_S = 600.0
"""A longer silence in a replay looks like a run that hangs."""

_HINT = 'write {"timestamp": 0, "input_length": 6758, "output_length": 500} a line, timestamp in milliseconds'
_COLUMNS = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
}
_KEYS = ("timestamp", "input_length", "output_length")


@dataclass(frozen=True, slots=True)
class Row:
    """One request of a trace."""

    line: int
    at_s: float
    """Since the first request, after scaling."""
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] | None = None


class Trace:
    """A trace that is ready to be replayed.

    Args:
        name: of the file, for the ids of prompts.
        kind: `mooncake`, `burstgpt` or `azure`.
        rows: in the order of time.
        skipped: rows that were left out.
        seed: what the prompts are made of.
    """

    def __init__(self, name: str, kind: str, rows: list[Row], *, skipped: int = 0, seed: int = 1) -> None:
        self.name, self.kind, self.rows, self.skipped = name, kind, rows, skipped
        self._seed = seed

    def prompt(self, row: Row) -> Prompt:
        """Return the prompt of a row; its id names the line."""
        if row.blocks is not None:
            text = text_of_blocks(row.input_tokens, blocks=row.blocks, key=str(self._seed))
        else:
            text = synthetic_text(row.input_tokens, key=f"{self._seed}/{row.line}")
        return Prompt(f"{self.name}:{row.line}", ({"role": "user", "content": text},))

    def shown(self) -> dict[str, Any]:
        """Return what a record says of it."""
        return {
            "kind": self.kind,
            "requests": len(self.rows),
            "skipped": self.skipped,
            "seconds": round(self.rows[-1].at_s, 6),
            "input_tokens": sum(row.input_tokens for row in self.rows),
            "output_tokens": sum(row.output_tokens for row in self.rows),
        }

    @cached_property
    def fingerprint(self) -> str:
        """12 hex digits that are equal when two processes hold the same trace."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(f"{row}\n".encode())
        return digest.hexdigest()[:12]


def load_trace(path: str, *, scale: float = 1.0, limit: int | None = None, seed: int = 1) -> Trace:
    """Return the trace of a file.

    Args:
        path: of the file; what it is, is read from its first line.
        scale: 2 replays twice as fast: every time is divided by it.
        limit: only the first so many requests.
        seed: what the prompts are made of.

    Raises:
        SetupError: it cannot be read or makes no sense; names the line.
    """
    file = Path(path)
    lines = _lines(file)
    first = next(lines, None)
    if first is None:
        _refuse(f"the trace {file} is empty", _HINT)
    kind, parsed = _parsed(file, first, lines)
    rows, skipped = _checked(file, parsed, scale, limit)
    if not rows:
        _refuse(f"the trace {file} has no request to send", "give one with answers")
    return Trace(file.name.encode("utf-8", "replace").decode("utf-8"), kind, rows, skipped=skipped, seed=seed)


_Parsed = tuple[int, float, int, int, tuple[int, ...] | None]
"""Line, seconds, input tokens, output tokens, blocks."""


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is not blank."""
    try:
        with file.open("rb") as handle:
            for number, raw in enumerate(handle, 1):
                raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                if raw.strip():
                    yield number, raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        _refuse(f"{file}, line {number}: not UTF-8", "save the file as UTF-8, uncompressed")
    except (OSError, ValueError) as error:
        _refuse(f"cannot read the trace {file} ({getattr(error, 'strerror', None) or error})", "check the path")


def _parsed(file: Path, first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> tuple[str, Iterator[_Parsed]]:
    if first[1].lstrip().startswith("{"):
        return "mooncake", (_from_json(file, *line) for line in _chained(first, rest))
    header = [name.strip() for name in next(csv.reader([first[1]]))]
    for kind, columns in _COLUMNS.items():
        if set(columns) <= set(header):
            places = [header.index(column) for column in columns]
            return kind, (_from_csv(file, kind, columns, places, *line) for line in rest)
    return _refuse(
        f"{file}, line {first[0]}: neither JSON nor the header of a known trace",
        f"{_HINT}; or CSV with the columns {', '.join(_COLUMNS['azure'])} or {', '.join(_COLUMNS['burstgpt'])}",
    )


def _chained(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _from_json(file: Path, number: int, line: str) -> _Parsed:
    where = f"{file}, line {number}"
    try:
        value = json.loads(line)
    except ValueError as error:
        _refuse(f"{where}: not valid JSON ({error})", _HINT)
    if not isinstance(value, dict):
        _refuse(f"{where}: not a JSON object", _HINT)
    at, into, out = (_json_number(value, key, where) for key in _KEYS)
    blocks = value.get("hash_ids")
    if blocks is not None:
        blocks = _blocks(blocks, into, where)
    return number, at / 1e3, _tokens(into, "input_length", where), _tokens(out, "output_length", where), blocks


def _json_number(value: Mapping[str, Any], key: str, where: str) -> float:
    number = value.get(key)
    if number is None:
        _refuse(f"{where}: no {key}", _HINT)
    if isinstance(number, bool) or not isinstance(number, int | float):
        _refuse(f"{where}: {key} {number!r} is not a number", _HINT)
    return number


def _blocks(ids: object, tokens: float, where: str) -> tuple[int, ...]:
    if not isinstance(ids, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in ids):
        _refuse(f"{where}: hash_ids is not a list of whole numbers", _HINT)
    needed = math.ceil(tokens / BLOCK_TOKENS)
    if len(ids) != needed:
        what = f"{where}: {len(ids)} hash_ids for an input_length of {tokens:g}"
        _refuse(what, f"one stands for {BLOCK_TOKENS} tokens: {needed} are needed; or leave hash_ids out")
    return tuple(ids)


def _from_csv(file: Path, kind: str, columns: tuple[str, ...], places: list[int], number: int, line: str) -> _Parsed:
    where = f"{file}, line {number}"
    cells = next(csv.reader([line]))
    texts = [cells[place].strip() if place < len(cells) else "" for place in places]
    for column, text in zip(columns, texts, strict=True):
        if not text:
            _refuse(f"{where}: no {column}", "give every row a time and both lengths, or remove the row")
    at_s = _date_s(texts[0], where) if kind == "azure" else _csv_number(texts[0], columns[0], where)
    into, out = (_csv_number(text, column, where) for text, column in zip(texts[1:], columns[1:], strict=True))
    if kind == "burstgpt" and out == 0:
        return number, at_s, _tokens(into, columns[1], where), 0, None
    return number, at_s, _tokens(into, columns[1], where), _tokens(out, columns[2], where), None


def _csv_number(text: str, column: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        return _refuse(f"{where}: {column} {text!r} is not a number", "correct it or remove the row")


def _date_s(text: str, where: str) -> float:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        _refuse(f"{where}: TIMESTAMP {text!r} is not a date", "write e.g. 2023-11-16 18:15:46.680")
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _tokens(number: float, name: str, where: str) -> int:
    if not (1 <= number <= MAX_TOKENS and number == int(number)):
        _refuse(f"{where}: {name} {number:g} is not a whole number from 1 to {MAX_TOKENS}", "correct it")
    return int(number)


def _checked(file: Path, parsed: Iterable[_Parsed], scale: float, limit: int | None) -> tuple[list[Row], int]:
    """Return the rows with times from the first one on, scaled, and how many were left out."""
    rows: list[Row] = []
    skipped, origin_s, before_s = 0, None, 0.0
    for line, time_s, into, out, blocks in parsed:
        if limit is not None and len(rows) >= limit:
            break
        where = f"{file}, line {line}"
        if not math.isfinite(time_s) or time_s < 0:
            _refuse(f"{where}: its time is {time_s:g} s", "times count from 0 on")
        origin_s = time_s if origin_s is None else origin_s
        at_s = (time_s - origin_s) / scale
        if at_s < before_s:
            _refuse(f"{where}: earlier than the line before by {before_s - at_s:g} s", "sort the trace by time")
        if at_s - before_s > MAX_GAP_S:
            hint = "raise --trace-scale, or cut the trace there with --trace-limit"
            _refuse(f"{where}: a gap of {at_s - before_s:,.0f} s before it", hint)
        before_s = at_s
        if out == 0:
            skipped += 1
            continue
        if len(rows) >= MAX_ROWS:
            _refuse(f"{where}: more than {MAX_ROWS:,} requests", "use --trace-limit")
        rows.append(Row(line, at_s, into, out, blocks))
    return rows, skipped


def _refuse(what: str, hint: str) -> NoReturn:
    raise SetupError(what, hint)

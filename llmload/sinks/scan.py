"""Reads a record column by column: fast, and with memory that does not grow with tokens.

Files only; no network, no clock. `record.read_run` gives whole completions; this is for what reads a million of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llmload.errors import RecordError
from llmload.metrics.columns import Columns
from llmload.metrics.goodput import Goodput
from llmload.metrics.steps import is_measured
from llmload.sinks.record import COMPLETIONS_FILE, parse_line

CHUNK = 10_000
"""Completions that are handed over at once."""

Wanted = Callable[[dict[str, Any]], bool]


def scan(
    path: Path,
    problems: list[str],
    *,
    wanted: Wanted | None = None,
    measured: Callable[[str | None], bool] = is_measured,
    goodput: Goodput | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Columns]:
    """Yield the completions of a run directory, `CHUNK` at a time.

    Args:
        path: the run directory.
        problems: gets a sentence for each line that cannot be used, at most ten.
        wanted: says of a completion, as the record has it, whether it counts; None: all do.
        measured: whether what started in a step counts.
        goodput: judges each completion instead of what the record says; None: it does not.
        progress: told how many bytes have been read so far, after each chunk.

    Raises:
        RecordError: the file cannot be read, or holds what is no completion.
    """
    columns, done, where = Columns(), 0, path / COMPLETIONS_FILE
    try:
        with where.open("rb") as file:
            for number, line in enumerate(file, start=1):
                done += len(line)
                row = _row(line, number, where, problems)
                if row is not None and (wanted is None or wanted(row)):
                    if goodput is not None:
                        row["good"] = goodput.good(row.get("outcome", ""), row)
                    _add(columns, row, measured, f"{where} line {number}")
                if len(columns) == CHUNK:
                    yield columns
                    progress(done)
                    columns = Columns()
    except OSError as error:
        raise RecordError(f"cannot read {where} ({error.strerror})", "name a run that has its completions") from error
    yield columns
    progress(done)


def _row(line: bytes, number: int, where: Path, problems: list[str]) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        row = parse_line(line)
    except ValueError:
        if len(problems) < 10:
            torn = "was cut off" if not line.endswith(b"\n") else "is not JSON"
            problems.append(f"{where.name} line {number}: {torn}, skipped")
        return None
    if not isinstance(row, dict):
        raise RecordError(f"{where} line {number}: not a completion but {type(row).__name__}")
    return row


def _add(columns: Columns, row: dict[str, Any], measured: Callable[[str | None], bool], where: str) -> None:
    try:
        columns.add(row, measured)
    except KeyError as error:
        raise RecordError(f"{where}: not a completion, {error.args[0]} missing") from error
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise RecordError(f"{where}: not a completion ({error})", "it was changed by hand") from error

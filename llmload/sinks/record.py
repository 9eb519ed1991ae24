"""The run directory: `run.json`, `completions.jsonl` and `summary.json`, written as the run goes and read
back.

Files only; no network, no clock. docs/record.md describes the files. Everything is ASCII: a lone surrogate in
a message survives as its JSON escape, and no locale matters.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from llmload.errors import RecordError, SetupError
from llmload.records import Completion

log = logging.getLogger("llmload")

RUN_SCHEMA = "llmload.run/1"
COMPLETION_SCHEMA = "llmload.completion/1"

RUN_FILE, COMPLETIONS_FILE, SUMMARY_FILE = "run.json", "completions.jsonl", "summary.json"

BUFFER_BYTES = 1 << 20
"""Lines are kept back up to this size between two calls of `flush`."""

_REQUIRED = ("id", "scenario", "model", "worker", "started_unix_ns", "outcome")


def new_run_id(now_unix_s: float, random: Random) -> str:
    """Return UTC time and a random suffix, e.g. `20261130T212530Z-3f9a`; ids sort by time."""
    return f"{datetime.fromtimestamp(now_unix_s, UTC):%Y%m%dT%H%M%SZ}-{random.getrandbits(16):04x}"


class RunRecord:
    """Writes one run directory.

    Called by the process that owns the run, from one greenlet at a time. Once created it never raises: what
    could not be written is counted in `lost`, and the first reason is kept in `error`. It may block for as
    long as the file system does. `close` writes what is buffered.

    Args:
        path: an existing directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        """Lines that are whole in the file."""
        self.lost = 0
        """Completions that are not, and never will be."""
        self.error: str | None = None
        self._lines: list[bytes] = []
        self._size = 0
        self._torn = False
        self._file: int | None = os.open(path / COMPLETIONS_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    @staticmethod
    def check(run_dir: Path | str) -> None:
        """Make `run_dir` where it is missing and see that a run can be written there, long before it begins.

        Raises:
            SetupError: it cannot.
        """
        try:
            Path(run_dir).mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=run_dir, prefix=".check-"):
                pass
        except OSError as error:
            raise _unwritable(Path(run_dir), error) from error

    @classmethod
    def create(cls, run_dir: Path | str, run_id: str) -> RunRecord:
        """Make the directory `run_dir/run_id` and open the record in it, before any load is sent.

        Raises:
            SetupError: it exists already or cannot be written.
        """
        path = Path(run_dir) / run_id
        try:
            path.mkdir(parents=True)
            return cls(path)
        except OSError as error:
            raise _unwritable(path, error) from error

    def write_run(self, run: Mapping[str, Any]) -> bool:
        """Replace `run.json`, adding the schema names. Returns whether it was written."""
        return self._replace(RUN_FILE, {"schema": RUN_SCHEMA, "completions": COMPLETION_SCHEMA, **run})

    def write_summary(self, summary: Mapping[str, Any]) -> bool:
        """Replace `summary.json`. Returns whether it was written."""
        return self._replace(SUMMARY_FILE, summary)

    def write(self, completions: Sequence[Mapping[str, Any]]) -> None:
        """Append completions, as dicts of `Completion.to_dict`."""
        for completion in completions:
            try:
                line = json.dumps(completion, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
            except (TypeError, ValueError) as error:
                self._lose(1, error)
                continue
            self._lines.append(line)
            self._size += len(line)
        if self._size >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the operating system; a process that is killed after this loses nothing of
        it."""
        lines, self._lines, self._size = self._lines, [], 0
        if self._is_gone():
            self.lost += self.written
            self.written = 0
            self._lose(len(lines), FileNotFoundError(f"{COMPLETIONS_FILE} was removed"))
            return
        if not lines:
            return
        # After a torn line a line end comes first, so that only the torn one is broken.
        head = b"\n" if self._torn else b""
        data = head + b"".join(lines)
        done, error = self._append(data)
        self._torn = data[done - 1 : done] != b"\n" if done else self._torn
        whole = data.count(b"\n", len(head), max(done, len(head)))
        self.written += whole
        if error is not None:
            self._lose(len(lines) - whole, error)

    def _is_gone(self) -> bool:
        """Whether the file was removed: writes to it still succeed, but nobody will ever read them."""
        try:
            return self._file is not None and os.fstat(self._file).st_nlink == 0
        except OSError:
            return True

    def close(self) -> None:
        """Flush and close. Calling it again does nothing; what is written afterwards is lost and counted."""
        self.flush()
        if self._file is not None:
            try:
                os.close(self._file)
            except OSError as error:
                self._lose(0, error)
            self._file = None

    def _append(self, data: bytes) -> tuple[int, OSError | None]:
        """Write as much as goes; return the bytes written and what stopped the rest."""
        done = 0
        if self._file is None:
            return 0, OSError("the record is closed")
        try:
            while done < len(data):
                done += os.write(self._file, data[done:] if done else data)
        except OSError as error:
            return done, error
        return done, None

    def _replace(self, name: str, content: Mapping[str, Any]) -> bool:
        """Write beside and rename, so that a reader sees the old file or the new one, never a half.

        There is no fsync: it holds up a gevent loop for as long as a disk likes, and guards against power
        cuts only.
        """
        target = self.path / name
        beside = target.with_name(f".{name}.tmp")
        try:
            beside.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="ascii")
            beside.replace(target)
        except (OSError, TypeError, ValueError) as error:
            self._lose(0, error)
            return False
        return True

    def _lose(self, lines: int, error: Exception) -> None:
        self.lost += lines
        if self.error is None:
            self.error = f"{type(error).__name__}: {error}"
            log.error("The record in %s cannot be written: %s", self.path, self.error)


def _unwritable(path: Path, error: OSError) -> SetupError:
    return SetupError(
        f"cannot write the run directory {path} ({error.strerror})", "choose another, or make it writable"
    )


def read_run(path: Path | str) -> tuple[dict[str, Any], Iterator[Completion], list[str]]:
    """Read a run directory back.

    Returns:
        What `run.json` holds; an iterator over the completions, which reads the file as it goes; and a list
        of problems, one sentence each with file and line, which is complete when the iterator is at its end.

    Raises:
        RecordError: there is no such directory, or what is in it is not ours; also from the iterator.
    """
    path = Path(path)
    problems: list[str] = []
    return _read_run_file(path / RUN_FILE), _read_completions(path / COMPLETIONS_FILE, problems), problems


def find_run(path: Path | str) -> Path:
    """Return `path` if it is a run directory, else the newest run directory in it.

    Raises:
        RecordError: there is none.
    """
    path = Path(path)
    if (path / RUN_FILE).is_file():
        return path
    runs = sorted(file.parent for file in path.glob(f"*/{RUN_FILE}"))
    if not runs:
        raise RecordError(f"{path} is no run directory and holds none", f"name one that has a {RUN_FILE}")
    return runs[-1]


def _read_run_file(path: Path) -> dict[str, Any]:
    try:
        run = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise RecordError(f"cannot read {path} ({error.strerror})", "name a run directory") from error
    except ValueError as error:
        raise RecordError(f"{path} is not JSON ({error})") from error
    schema = run.get("schema") if isinstance(run, dict) else None
    if schema != RUN_SCHEMA:
        raise RecordError(
            f"{path} has schema {schema!r}, expected {RUN_SCHEMA!r}", "read it with the version that wrote it"
        )
    return dict(run)


def _read_completions(path: Path, problems: list[str]) -> Iterator[Completion]:
    try:
        file = path.open("rb")
    except OSError as error:
        problems.append(f"{path.name}: cannot be read ({error.strerror})")
        return
    with file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                torn = "was cut off" if not line.endswith(b"\n") else "is not JSON"
                problems.append(f"{path.name} line {number}: {torn}, skipped")
                continue
            yield _completion(row, f"{path} line {number}")


def _completion(row: Any, where: str) -> Completion:
    if not isinstance(row, dict):
        raise RecordError(f"{where}: not a completion but {type(row).__name__}")
    missing = [name for name in _REQUIRED if name not in row]
    if missing:
        raise RecordError(f"{where}: not a completion, {', '.join(missing)} missing")
    if row["outcome"] not in ("ok", "failed", "cancelled") or not isinstance(row["started_unix_ns"], int):
        raise RecordError(f"{where}: not a completion, outcome or started_unix_ns makes no sense")
    return Completion.from_dict(row)

"""The run directory: `run.json`, `completions.jsonl`, `series.jsonl` and `summary.json`, written as the run goes and
read back.

Files only; no network, no clock. docs/record.md describes the files. Everything is ASCII: a lone surrogate in
a message survives as its JSON escape, and no locale matters.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from llmload.errors import RecordError, SetupError
from llmload.records import Completion
from llmload.sinks.lines import Lines
from llmload.sinks.points import EVENT, WORKER, Point

log = logging.getLogger("llmload")

RUN_SCHEMA = "llmload.run/1"
COMPLETION_SCHEMA = "llmload.completion/1"

RUN_FILE, COMPLETIONS_FILE, SUMMARY_FILE, SERIES_FILE = "run.json", "completions.jsonl", "summary.json", "series.jsonl"

PROGRESS_LINES = 500
"""A reader is told how far it is every so many lines."""

Progress = Callable[[int], None]
"""Takes the bytes read so far of completions.jsonl."""

_REQUIRED = ("id", "scenario", "model", "worker", "started_unix_ns", "outcome")


def new_run_id(now_unix_s: float, random: Random) -> str:
    """Return UTC time and a random suffix, e.g. `20261130T212530Z-3f9a`; ids sort by time."""
    return f"{datetime.fromtimestamp(now_unix_s, UTC):%Y%m%dT%H%M%SZ}-{random.getrandbits(16):04x}"


class RunRecord:
    """Writes one run directory: a sink that loses nothing as long as the disk holds.

    Called by the process that owns the run, from one greenlet at a time. Once created it never raises: what
    could not be written is counted in `lost`, and the first reason is kept in `error`. It may block for as
    long as the file system does. `close` writes what is buffered.

    Args:
        path: an existing directory.
    """

    name = "record"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._completions = Lines(path / COMPLETIONS_FILE)
        self._series = Lines(path / SERIES_FILE)
        self._error: str | None = None

    @property
    def written(self) -> int:
        """Completions that are whole in their file."""
        return self._completions.written

    @property
    def lost(self) -> int:
        """Completions that are not, and never will be."""
        return self._completions.lost

    @property
    def error(self) -> str | None:
        """The first thing that could not be written; None while all is well."""
        return self._completions.error or self._series.error or self._error

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

    def describe(self) -> str:
        """See `Sink.describe`."""
        return str(self.path)

    def start(self, run_id: str) -> None:
        """See `Sink.start`."""

    def write(self, completions: Sequence[Mapping[str, Any]], points: Sequence[Point] = ()) -> None:
        """Append completions, as dicts of `Completion.to_dict`, and those points that do not follow from them."""
        self._completions.add(completions)
        self._series.add(point.to_dict() for point in points if point.measurement in (WORKER, EVENT))

    def flush(self) -> None:
        """Hand everything to the operating system; a process that is killed after this loses nothing of
        it."""
        self._completions.flush()
        self._series.flush()

    def stop(self, bound_s: float) -> None:
        """See `Sink.stop`: nothing more comes after this but `run.json` and `summary.json`."""
        self.close()

    def close(self) -> None:
        """Flush and close. Calling it again does nothing; what is written afterwards is lost and counted."""
        self._completions.close()
        self._series.close()

    def counts(self) -> dict[str, Any]:
        """See `Sink.counts`."""
        return {
            "written": self.written,
            "dropped": self.lost,
            "queued": self._completions.buffered,
            "error": self.error,
        }

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
            if self.error is None:
                self._error = f"{type(error).__name__}: {error}"
                log.error("The record in %s cannot be written: %s", self.path, self._error)
            return False
        return True


def _unwritable(path: Path, error: OSError) -> SetupError:
    return SetupError(
        f"cannot write the run directory {path} ({error.strerror})", "choose another, or make it writable"
    )


def read_run(
    path: Path | str, *, progress: Progress | None = None
) -> tuple[dict[str, Any], Iterator[Completion], list[str]]:
    """Read a run directory back.

    Args:
        path: the run directory.
        progress: is called now and then while the iterator goes on.

    Returns:
        What `run.json` holds; an iterator over the completions, which reads the file as it goes; and a list
        of problems, one sentence each with file and line, which is complete when the iterator is at its end.

    Raises:
        RecordError: there is no such directory, or what is in it is not ours; also from the iterator.
    """
    path = Path(path)
    problems: list[str] = []
    completions = _read_completions(path / COMPLETIONS_FILE, problems, progress)
    return _read_run_file(path / RUN_FILE), completions, problems


def read_series(path: Path | str, *, problems: list[str] | None = None) -> Iterator[Point]:
    """Yield the points of a run's `series.jsonl`: looks at its workers and what happened, in the order they were
    written. Lines that cannot be read are passed over; a run without the file has none.

    Args:
        path: the run directory.
        problems: gets a sentence for each such line, or for the file, as the iterator goes on.
    """
    problems = [] if problems is None else problems
    try:
        file = (Path(path) / SERIES_FILE).open("rb")
    except OSError as error:
        problems.append(f"{SERIES_FILE}: cannot be read ({error.strerror})")
        return
    with file:
        for number, line in enumerate(file, start=1):
            try:
                yield Point.from_dict(parse_line(line))
            except (ValueError, KeyError, TypeError):
                torn = "was cut off" if not line.endswith(b"\n") else "is no point"
                problems.append(f"{SERIES_FILE} line {number}: {torn}, skipped")


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


def _read_completions(path: Path, problems: list[str], progress: Progress | None) -> Iterator[Completion]:
    try:
        file = path.open("rb")
    except OSError as error:
        problems.append(f"{path.name}: cannot be read ({error.strerror})")
        return
    done = 0
    with file:
        for number, line in enumerate(file, start=1):
            done += len(line)
            if progress is not None and number % PROGRESS_LINES == 0:
                progress(done)
            if not line.strip():
                continue
            try:
                row = parse_line(line)
            except ValueError:
                torn = "was cut off" if not line.endswith(b"\n") else "is not JSON"
                problems.append(f"{path.name} line {number}: {torn}, skipped")
                continue
            yield _completion(row, f"{path} line {number}")


def parse_line(line: bytes) -> Any:
    """Parse a line of a record three times as fast as the standard library, which has the last word.

    Raises:
        ValueError: not JSON.
    """
    try:
        return orjson.loads(line)
    except ValueError:
        return json.loads(line)  # takes the escapes of lone surrogates, which we write, too


def _completion(row: Any, where: str) -> Completion:
    if not isinstance(row, dict):
        raise RecordError(f"{where}: not a completion but {type(row).__name__}")
    missing = [name for name in _REQUIRED if name not in row]
    if missing:
        raise RecordError(f"{where}: not a completion, {', '.join(missing)} missing")
    if row["outcome"] not in ("ok", "failed", "cancelled") or not isinstance(row["started_unix_ns"], int):
        raise RecordError(f"{where}: not a completion, outcome or started_unix_ns makes no sense")
    return Completion.from_dict(row)

"""Runs read for a comparison, with progress on a terminal: a million completions take half a minute."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from llmload.metrics.comparison import Facts
from llmload.sinks.facts import Part, read_facts
from llmload.sinks.record import COMPLETIONS_FILE, find_run

LARGE_BYTES = 64 << 20
"""From here on a log without a terminal is told as well, once a file."""


class Reader:
    """Reads runs; a context manager, because it draws while it is open.

    Args:
        part: what of each run.
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        columns = (TextColumn("reading {task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._progress = Progress(
            *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
        )

    def __enter__(self) -> Reader:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def side(self, names: Sequence[str]) -> list[Facts]:
        """Return the facts of the runs of one side; what is wrong with a record goes to standard error.

        Raises:
            RecordError: a run cannot be read, or measured nothing.
        """
        return [self._run(name) for name in names]

    def _run(self, name: str) -> Facts:
        path, problems = find_run(name), list[str]()
        size = _size(path)
        if size > LARGE_BYTES and not sys.stderr.isatty():
            print(f"llmload: reading {path}, {size / 1e6:,.0f} MB", file=sys.stderr, flush=True)
        task = self._progress.add_task(path.name, total=size)
        facts = read_facts(
            path,
            problems,
            part=self._part,
            progress=lambda done: self._progress.update(task, completed=done),
        )
        self._progress.remove_task(task)
        for problem in problems:
            print(f"llmload: {path}: {problem}", file=sys.stderr)
        return facts


def _size(path: Path) -> int:
    file = path / COMPLETIONS_FILE
    return file.stat().st_size if file.is_file() else 0

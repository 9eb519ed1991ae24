"""A progress bar on standard error for commands that read a long record; nothing where that is no terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from llmload.sinks.record import Progress


@contextlib.contextmanager
def progress_of(path: Path) -> Iterator[Progress | None]:
    """Show how much of a file has been read; yields what `read_run` calls, or None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading the record", total=path.stat().st_size if path.is_file() else None)
        yield lambda done: bar.update(task, completed=done)

"""The end of a run for `--archive`: a copy of its summary, small enough to be committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gevent import get_hub

from llmload.errors import LlmloadError
from llmload.sinks.archive import archive_run, check_archive

log = logging.getLogger("llmload")


def check_keeping(options: Mapping[str, Any]) -> None:
    """See that the archive can be written, before anything is sent.

    Raises:
        SetupError: it cannot.
    """
    if options.get("archive"):
        check_archive(str(options["archive"]))


def keep(run: Path, options: Mapping[str, Any]) -> str:
    """Archive a run that has ended, where that was asked for; return what to say of it.

    The run itself is safe in its own directory: what goes wrong here is said and changes nothing.
    """
    folder = options.get("archive")
    if not folder:
        return ""
    records = bool(options.get("archive_records"))
    # in a thread: a record of a million completions takes half a minute, in which the web page must answer
    said: str = get_hub().threadpool.apply(_archive, (run, str(folder), records))
    return said


def _archive(run: Path, folder: str, records: bool) -> str:
    """Return what is wrong as a text: gevent prints what a thread of its pool raises."""
    try:
        return f"Archived: {archive_run(run, folder, records=records)}"
    except (OSError, LlmloadError) as error:
        log.error("The run was not archived: %s", error)
        return f"NOT archived: {error}"

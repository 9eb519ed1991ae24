"""The report files of a run: written at its end, and again from its record, equal byte for byte.

Reads a run directory and writes files; the time of the writing is in none of them. A report that cannot be written is
a problem to be said, never an exception: a run does not fail for its report.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmload.errors import LlmloadError
from llmload.metrics.details import Details
from llmload.metrics.findings import Finding, findings
from llmload.reports import html, junit, markdown, table, vllm
from llmload.sinks.record import Progress, read_run
from llmload.sinks.replay import read_processes

log = logging.getLogger("llmload")

Render = Callable[[Mapping[str, Any], Mapping[str, Any], Details], str]


def as_json(value: Mapping[str, Any]) -> str:
    """Return JSON as a record has it: indented, ASCII, with a line end."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


RENDER: dict[str, tuple[str, Render]] = {
    "html": ("report.html", html.render),
    "md": ("report.md", lambda summary, _, details: markdown.render(summary, findings(summary, details))),
    "junit": ("junit.xml", lambda summary, info, _: junit.render(summary, info)),
    "json": ("summary.json", lambda summary, *_: as_json(summary)),
    "vllm": ("vllm.json", lambda summary, info, details: as_json(vllm.convert(summary, info, details))),
    "csv": ("summary.csv", lambda summary, *_: table.render_summary(summary)),
}
"""Format → the file's name, and what makes its text of summary, run.json and details."""

DEFAULT = ("html", "md", "junit")
"""Written at the end of every run."""

COMPLETIONS_TABLE = "completions.csv"


@dataclass(slots=True)
class Written:
    """What came of writing reports."""

    paths: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def write_all(
    run_path: Path | str,
    summary: Mapping[str, Any],
    *,
    formats: Collection[str] = DEFAULT,
    progress: Progress | None = None,
) -> Written:
    """Write the reports of a run that has ended into its directory, from its record and its summary.

    Never raises. Reads the whole record: about three minutes for a million completions.

    Args:
        run_path: the run directory.
        summary: the frozen summary.
        formats: keys of `RENDER`.
        progress: called now and then with the bytes read so far, for example to let others run.
    """
    written = Written()
    try:
        info, completions, _ = read_run(run_path, progress=progress)
        details = Details(completions)
        details.processes = read_processes(run_path)
        written.findings = findings(summary, details)
    except LlmloadError as error:
        written.problems.append(f"no reports: {error}")
    except Exception as error:  # a bug here must not cost a run its summary and its exit code
        written.problems.append(_bug("reports", error))
    else:
        write(Path(run_path), formats, summary, info, details, written)
    return written


def write(
    folder: Path,
    formats: Collection[str],
    summary: Mapping[str, Any],
    info: Mapping[str, Any],
    details: Details,
    written: Written,
) -> None:
    """Write some reports into a folder; what went well or wrong is added to `written`."""
    for name in formats:
        file_name, render = RENDER[name]
        path = folder / file_name
        try:
            replace(path, render(summary, info, details))
        except OSError as error:
            written.problems.append(f"{path} cannot be written ({error.strerror or error}): choose another folder")
        except Exception as error:  # a bug here must not cost a run its summary and its exit code
            written.problems.append(_bug(file_name, error))
        else:
            written.paths.append(path)


def replace(path: Path, text: str) -> None:
    """Write a file as a whole: a reader sees the old one or the new one, never a half.

    Raises:
        OSError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.tmp")
    # what UTF-8 does not know (a lone surrogate in a message) becomes a question mark
    beside.write_bytes(text.encode("utf-8", "replace"))
    beside.replace(path)


def _bug(what: str, error: Exception) -> str:
    log.debug("A report failed", exc_info=error)
    return f"{what}: not written, a bug of llmload ({type(error).__name__}: {error})"

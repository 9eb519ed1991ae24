"""An archive of runs that is small enough to be committed.

Files only; no network, no clock. It is a folder with a folder a run: `run.json`, `summary.json`, `evidence.json` (what
intervals are worked out from, 35 to 140 kB), and with records `completions.jsonl` and `series.jsonl`. An entry with
records is a run directory like any other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmload.errors import RecordError, SetupError
from llmload.sinks.facts import EVIDENCE_FILE, read_facts
from llmload.sinks.record import COMPLETIONS_FILE, RUN_FILE, SERIES_FILE, SUMMARY_FILE


def check_archive(folder: Path | str) -> None:
    """See that an archive can be written, long before a run ends.

    Raises:
        SetupError: it cannot.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        probe = Path(folder) / ".check"
        probe.write_text("", encoding="ascii")
        probe.unlink()
    except OSError as error:
        raise SetupError(
            f"cannot write the archive {folder} ({error.strerror})", "choose another folder, or make it writable"
        ) from error


def archive_run(run: Path, folder: Path | str, *, records: bool = False) -> Path:
    """Copy a finished run into an archive and return its entry; one that is there already is replaced.

    Args:
        run: the run directory.
        folder: the archive.
        records: keep the completions as well.

    Raises:
        RecordError: the run measured nothing, or is not ours.
        OSError: the archive cannot be written.
    """
    facts = read_facts(run, [])
    entry = Path(folder) / run.name
    beside = entry.with_name(f".{run.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    shutil.copyfile(run / RUN_FILE, beside / RUN_FILE)
    _write(beside / SUMMARY_FILE, facts.summary, indent=2)
    _write(beside / EVIDENCE_FILE, facts.evidence.to_dict(), indent=None)
    if records:
        shutil.copyfile(run / COMPLETIONS_FILE, beside / COMPLETIONS_FILE)
        if (run / SERIES_FILE).is_file():
            shutil.copyfile(run / SERIES_FILE, beside / SERIES_FILE)
    shutil.rmtree(entry, ignore_errors=True)
    beside.rename(entry)
    return entry


def _write(path: Path, content: Mapping[str, Any], *, indent: int | None) -> None:
    separators = None if indent else (",", ":")
    text = json.dumps(content, indent=indent, separators=separators, allow_nan=False)
    path.write_text(text + "\n", encoding="ascii")


def entries(folder: Path | str) -> list[Path]:
    """Return the runs in a folder, the oldest first: an archive, or a folder of run directories.

    Raises:
        RecordError: there is none.
    """
    folder = Path(folder)
    found = sorted(file.parent for file in folder.glob(f"*/{RUN_FILE}") if not file.parent.name.startswith("."))
    if not found:
        raise RecordError(f"{folder} holds no runs", "run with --archive DIR, or name a folder of runs")
    return found

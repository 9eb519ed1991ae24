"""Runs as a comparison finds them: run directories, and an archive of runs that is small enough to be committed.

Files only; no network, no clock. An archive is a folder with a folder a run: `run.json`, `summary.json`,
`evidence.json` (what intervals are worked out from, 35 to 140 kB), and with records `completions.jsonl` and
`series.jsonl`. An entry with records is a run directory like any other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from llmload.errors import RecordError, SetupError
from llmload.metrics.comparison import Facts
from llmload.metrics.evidence import Evidence, EvidenceOf
from llmload.metrics.goodput import Goodput, marked, parse_goodput
from llmload.metrics.summary import SCHEMA, summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion
from llmload.sinks.record import COMPLETIONS_FILE, RUN_FILE, SERIES_FILE, SUMMARY_FILE, read_run
from llmload.sinks.scan import scan

EVIDENCE_FILE = "evidence.json"

Progress = Callable[[int], None]


def read_facts(
    path: Path,
    problems: list[str],
    *,
    scenario: str | None = None,
    step: str | None = None,
    goodput: Goodput | None = None,
    progress: Progress = lambda _: None,
) -> Facts:
    """Return what a comparison needs of a run directory or an entry of an archive.

    Completions are read where they are, else the evidence that the archive has kept.

    Args:
        path: the directory.
        problems: gets a sentence for each line that cannot be used.
        scenario, step: only what has this scenario, this step (in all its rounds).
        goodput: limits that each completion is judged by, instead of those of the run.
        progress: told how many bytes of completions have been read.

    Raises:
        RecordError: it is not ours, is empty, or has no completions and no evidence for what is asked.
    """
    about, completions, _ = read_run(path)
    part = scenario is not None or step is not None
    anew = goodput is not None and goodput.limits != _limits(about)
    if anew and goodput is not None:
        about = {**about, "settings": {**(about.get("settings") or {}), "goodput": goodput.text}}
    if (path / COMPLETIONS_FILE).is_file():
        summary = None if part or anew else read_summary(path)
        if summary is None:
            mine = (one for one in completions if _is_part(one.scenario, one.step, scenario, step))
            summary = _summarise(path, marked(mine, goodput) if anew else mine, _alone(about) if part else about)
        collected, wanted = EvidenceOf(), _filter(scenario, step) if part else None
        for columns in scan(path, problems, wanted=wanted, goodput=goodput if anew else None, progress=progress):
            collected.add(columns)
        evidence = collected.evidence(summary)
    elif part:
        raise RecordError(f"{path} has no completions to choose from", "archive it with --archive-records")
    elif anew:
        raise RecordError(f"{path} has no completions to judge by --goodput", "archive it with --archive-records")
    else:
        evidence, found = _read_evidence(path), read_summary(path)
        if found is None:
            raise RecordError(f"{path} has no {SUMMARY_FILE} of this version", "archive the run again")
        summary = found
    if not summary["ledger"]["ok"]:
        what = " of what was asked for" if part else ""
        raise RecordError(f"{path} has no completion{what} that ended ok", "compare a run that measured something")
    return Facts(str(about.get("id") or path.name), about, summary, evidence)


def _limits(about: Mapping[str, Any]) -> Mapping[str, float] | None:
    own = parse_goodput((about.get("settings") or {}).get("goodput"))
    return own.limits if own else None


def _alone(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run.json without what it counts of the whole run: of a part of it the completions are all there is."""
    phases = [{**one, "started": None} for one in about.get("phases") or ()]
    return {**about, "started": None, "phases": phases}


def _is_part(its_scenario: str, its_step: str | None, scenario: str | None, step: str | None) -> bool:
    level = (its_step or "").partition("#")[0]
    return scenario in (None, its_scenario) and (step is None or step in (its_step, level))


def _filter(scenario: str | None, step: str | None) -> Callable[[dict[str, Any]], bool]:
    return lambda row: _is_part(row.get("scenario", ""), row.get("step"), scenario, step)


def _summarise(path: Path, completions: Any, about: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return summarise(Tallies(one for one in completions if isinstance(one, Completion)), about)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise RecordError(f"{path} holds values that no run can have ({error})", "it was changed by hand") from error


def read_summary(path: Path) -> dict[str, Any] | None:
    """Return summary.json, None where it is missing or of another version."""
    try:
        summary = json.loads((path / SUMMARY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return summary if isinstance(summary, dict) and summary.get("schema") == SCHEMA else None


def _read_evidence(path: Path) -> Evidence:
    where = path / EVIDENCE_FILE
    try:
        return Evidence.from_dict(json.loads(where.read_text(encoding="utf-8")))
    except OSError as error:
        raise RecordError(
            f"{path} has neither {COMPLETIONS_FILE} nor {EVIDENCE_FILE}", "archive the run again"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{where} is not ours ({error})", "archive the run again") from error


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

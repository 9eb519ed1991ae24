"""`llmload report RUN`: the summary of a run, worked out anew from its record, as text or as files, and judged by other
objectives if asked.

Reads the run directory and nothing else, so it also works for a run that broke off. The files equal those that the end
of the run wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from llmload.cli.progress import progress_of
from llmload.errors import EXIT_INVALID, EXIT_MISSED, EXIT_OK, RecordError
from llmload.metrics.details import Details
from llmload.metrics.findings import findings
from llmload.metrics.goodput import marked, parse_goodput, wanted_goodput
from llmload.metrics.objectives import missed, parse_objectives
from llmload.metrics.served import Served
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion
from llmload.reports.files import COMPLETIONS_TABLE, RENDER, Written, write
from llmload.reports.table import CompletionTable
from llmload.reports.text import render
from llmload.sinks.record import COMPLETIONS_FILE, find_run, read_run
from llmload.sinks.replay import read_processes
from llmload.swarm.gates import read_slo_file

_FILES = {
    "html": "one self-contained page",
    "md": "Markdown for a comment or a CI job's summary",
    "junit": "JUnit XML: validity and each objective as a test case",
    "csv": f"summary.csv and {COMPLETIONS_TABLE}",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run",
        nargs="?",
        default="runs",
        metavar="RUN",
        help="a run directory, or a directory of them: then the newest (default: %(default)s)",
    )
    for name, what in _FILES.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"write {what}")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON; with --out, write summary.json")
    parser.add_argument(
        "--format",
        choices=("llmload", "vllm"),
        default="llmload",
        help="field names of the JSON: ours, or those of `vllm bench serve` (default: %(default)s)",
    )
    parser.add_argument("--out", metavar="DIR", help="folder for the files (default: the run directory)")
    judging = parser.add_argument_group(
        "judging anew", "with any of these, code 3 says missed and 4 a run that is not valid"
    )
    judging.add_argument("--slo", action="append", metavar="OBJECTIVES", help="instead of the run's own; repeatable")
    judging.add_argument("--slo-file", metavar="FILE", help="more of them, one a line")
    judging.add_argument("--goodput", metavar="LIMITS", help="instead of the run's own, e.g. 'ttft:500 e2e:5000'")


def run(args: argparse.Namespace) -> int:
    """Print the summary or write files, and say on standard error what is wrong with the record.

    Raises:
        RecordError: there is no run, the files are not ours, or the folder cannot be written.
        SetupError: objectives do not parse.
    """
    asked = _asked(args)
    path = find_run(args.run)
    if str(path) != args.run.rstrip("/"):
        print(f"llmload report: {path} (the newest)", file=sys.stderr)
    out = _folder(args.out) if args.out else path
    with _completion_table(out if args.csv else None) as table:
        served = Served()
        consumers = [*([table.add] if table else []), *([served.add] if args.format == "vllm" else [])]
        info, summary, details, problems = read_all(path, asked, consumers)
        details.served = served
    if args.html:
        details.processes = read_processes(path)
    # of a run that broke off the last line may be half: it is not valid anyway, and nothing else is wrong with it
    damage = [] if info.get("ended_at") is None else [*problems, *_missing(info, summary)]
    if damage:
        summary["run"]["valid"] = False
        summary["run"]["reasons"].append(f"the record is damaged: {damage[0]}")
    _write_files(args, out, summary, info, details)
    _print(args, summary, info, details)
    for problem in damage or problems:
        print(f"llmload report: {problem}", file=sys.stderr)
    if damage or (asked and not summary["run"]["valid"]):
        return EXIT_INVALID
    return EXIT_MISSED if asked and missed(summary["objectives"]) else EXIT_OK


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that are judged by instead of the run's own; none where nothing was asked."""
    texts = [*(args.slo or ()), *(read_slo_file(args.slo_file) if args.slo_file else ())]
    asked: dict[str, Any] = {}
    if args.slo is not None or texts:
        parse_objectives(texts)
        asked["slo"] = texts
    if args.goodput is not None:
        wanted_goodput(args.goodput)
        asked["goodput"] = args.goodput
    return asked


def read_all(
    path: Path, asked: Mapping[str, Any] = MappingProxyType({}), consumers: Sequence[Callable[[Completion], None]] = ()
) -> tuple[dict[str, Any], dict[str, Any], Details, list[str]]:
    """Read a record once; return run.json, the summary worked out anew, its details, and what is wrong with it.

    Args:
        path: the run directory.
        asked: settings that are judged by instead of the run's own.
        consumers: are called with every completion as well.

    Raises:
        RecordError: the files are not ours, or hold what no run can have.
    """
    tallies, details = Tallies(), Details()
    with progress_of(path / COMPLETIONS_FILE) as progress:
        info, completions, problems = read_run(path, progress=progress)
        if asked:
            info = {**info, "settings": {**(info.get("settings") or {}), **asked}}
        if asked.get("goodput") is not None:
            completions = marked(completions, parse_goodput(asked["goodput"]))
        try:
            for completion in completions:
                tallies.add(completion)
                details.add(completion)
                for consumer in consumers:
                    consumer(completion)
            details.finish()
            summary = summarise(tallies, info)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise RecordError(
                f"{path} holds values that no run can have ({type(error).__name__}: {error})", "it was changed by hand"
            ) from error
    return info, summary, details, problems


def _write_files(
    args: argparse.Namespace, out: Path, summary: Mapping[str, Any], info: Mapping[str, Any], details: Details
) -> None:
    """Write what was asked for; the first file that cannot be written is the error of the command."""
    names = _files(args)
    written = Written([out / COMPLETIONS_TABLE] if args.csv else [])
    write(out, names, summary, info, details, written)
    for path in written.paths:
        print(f"llmload report: wrote {path}", file=sys.stderr)
    if written.problems:
        raise RecordError(written.problems[0])


def _files(args: argparse.Namespace) -> list[str]:
    names = [name for name in _FILES if getattr(args, name)]
    if args.out and _json_of(args):
        names.append(_json_of(args))
    return names


def _json_of(args: argparse.Namespace) -> str:
    """Which JSON was asked for: json, vllm, or "" for none."""
    return "vllm" if args.format == "vllm" else "json" if args.json else ""


def _print(args: argparse.Namespace, summary: Mapping[str, Any], info: Mapping[str, Any], details: Details) -> None:
    """Print JSON where it was asked for, and the text where nothing was."""
    with contextlib.suppress(BrokenPipeError):
        if (name := _json_of(args)) and not args.out:
            print(RENDER[name][1](summary, info, details), end="", flush=True)
        elif not _files(args):
            print(render(summary, findings(summary, details)), flush=True)


def _folder(name: str) -> Path:
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot write {name} ({error.strerror})", "choose another folder with --out") from error
    return Path(name)


@contextlib.contextmanager
def _completion_table(folder: Path | None) -> Iterator[CompletionTable | None]:
    """Yield a table that becomes completions.csv when all went well; None without a folder."""
    if folder is None:
        yield None
        return
    beside = folder / f".{COMPLETIONS_TABLE}.tmp"
    try:
        with beside.open("w", encoding="utf-8", errors="replace", newline="") as stream:
            yield CompletionTable(stream)
        beside.replace(folder / COMPLETIONS_TABLE)
    except OSError as error:
        raise RecordError(f"cannot write {folder} ({error.strerror})", "choose another folder with --out") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _missing(info: Mapping[str, Any], summary: Mapping[str, Any]) -> list[str]:
    """Compare what the processes of an ended run said they had finished with what is there."""
    if not info.get("workers") or info.get("record_lost"):
        return []
    said = sum(
        worker["ledger"][outcome]
        for worker in info.get("workers", {}).values()
        for outcome in ("ok", "failed", "cancelled")
    )
    found = sum(summary["ledger"][outcome] for outcome in ("ok", "failed", "cancelled"))
    return [] if said == found else [f"{found} completions are there, {said} were finished"]

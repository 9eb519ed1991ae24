"""What a comparison knows of a run, read from its directory or from an entry of an archive.

Files only; no network, no clock. Where there are completions intervals are worked out from them, else they are those
that the archive has kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmload.errors import RecordError
from llmload.metrics.comparison import Facts
from llmload.metrics.evidence import Evidence, EvidenceOf
from llmload.metrics.goodput import Goodput, marked, parse_goodput
from llmload.metrics.stepped import Spans, step_rates
from llmload.metrics.steps import is_measured
from llmload.metrics.summary import SCHEMA, summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion
from llmload.sinks.record import COMPLETIONS_FILE, SUMMARY_FILE, read_run
from llmload.sinks.scan import scan

EVIDENCE_FILE = "evidence.json"

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Part:
    """What of a run is compared; all None is the whole run.

    Args:
        scenario, step: only what has this scenario, this step (in all its rounds).
        goodput: limits that each completion is judged by, instead of those of the run.
    """

    scenario: str | None = None
    step: str | None = None
    goodput: Goodput | None = None

    @property
    def chosen(self) -> bool:
        return self.scenario is not None or self.step is not None

    def in_scenario(self, name: str | None) -> bool:
        return self.scenario in (None, name)

    def in_step(self, label: str | None) -> bool:
        return self.step is None or self.step in (label, (label or "").partition("#")[0])


WHOLE = Part()


def read_facts(path: Path, problems: list[str], *, part: Part = WHOLE, progress: Progress = lambda _: None) -> Facts:
    """Return what a comparison needs of a run directory or an entry of an archive.

    Args:
        path: the directory.
        problems: gets a sentence for each line that cannot be used.
        part: what of the run.
        progress: told how many bytes of completions have been read.

    Raises:
        RecordError: it is not ours, is empty, or has no completions and no evidence for what is asked.
    """
    about, completions, _ = read_run(path, progress=progress)
    anew = part.goodput is not None and part.goodput.limits != _limits(about)
    if anew and part.goodput is not None:
        about = {**about, "settings": {**(about.get("settings") or {}), "goodput": part.goodput.text}}
    if (path / COMPLETIONS_FILE).is_file():
        kept = None if part.chosen else read_summary(path)
        if kept is not None:
            summary = _judged_anew(kept, part.goodput) if anew and part.goodput else kept
            spans: Spans = ()
        else:
            judged = marked(completions, part.goodput) if anew else completions
            summary, spans = _summarise(path, judged, about, part)
        evidence = _evidence(path, problems, part, summary, spans, progress)
    else:
        summary, evidence = _kept(path, part, anew=anew)
    if not summary["ledger"]["ok"]:
        what = " of what was asked for" if part.chosen else ""
        raise RecordError(f"{path} has no completion{what} that ended ok", "compare a run that measured something")
    return Facts(str(about.get("id") or path.name), about, summary, evidence)


def _limits(about: Mapping[str, Any]) -> Mapping[str, float] | None:
    own = parse_goodput((about.get("settings") or {}).get("goodput"))
    return own.limits if own else None


def _judged_anew(summary: dict[str, Any], goodput: Goodput) -> dict[str, Any]:
    """Return a summary by other limits, without what these came to: the evidence counts that, in a sixth of the time
    that a summary takes."""
    ledger, left_out = summary["ledger"], (summary["excluded"] or {}).get("ledger") or {}
    started = ledger["started"] - left_out.get("started", 0)
    nothing: dict[str, Any] = {"good": None, "share": None, "rate": None, "missing": {}}
    return {**summary, "goodput": {"objectives": dict(goodput.limits), "started": started, **nothing}}


def _summarise(
    path: Path, completions: Iterable[Completion], about: Mapping[str, Any], part: Part
) -> tuple[dict[str, Any], Spans]:
    """Return the summary of a part, and the spans of time that its rates are of, where those are of several."""
    try:
        tallies = Tallies(one for one in completions if part.in_scenario(one.scenario))
        if not part.chosen:
            return summarise(tallies, about), ()
        labels = [label for label in tallies.steps() if part.in_step(label)]
        summary = summarise(tallies.only(labels), _alone(about))
        if part.step is None:
            return summary, ()
        phases = [one for one in about.get("phases") or () if one["step"] in labels and is_measured(one["step"])]
        found, good_rate, spans = step_rates(tallies.total(), phases)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise RecordError(f"{path} holds values that no run can have ({error})", "it was changed by hand") from error
    if spans:
        summary["throughput"] |= {**found["throughput"], "window": found["window"]}
        summary["goodput"] = summary["goodput"] and {**summary["goodput"], "rate": good_rate}
    return summary, spans


def _alone(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run.json without what it counts of the whole run: of a part of it the completions are all there is."""
    phases = [{**one, "started": None} for one in about.get("phases") or ()]
    return {**about, "started": None, "phases": phases}


def _evidence(
    path: Path, problems: list[str], part: Part, summary: Mapping[str, Any], spans: Spans, progress: Progress
) -> Evidence:
    """Return the evidence of the completions; what ended in the spans of a step counts for its rates, whatever started
    it."""

    def wanted(row: Mapping[str, Any]) -> bool:
        return part.in_scenario(row.get("scenario", "")) and bool(spans or part.in_step(row.get("step")))

    def measured(step: str | None) -> bool:
        return is_measured(step) and part.in_step(step)

    collected = EvidenceOf()
    for columns in scan(
        path, problems, wanted=wanted if part.chosen else None, measured=measured, goodput=part.goodput,
        progress=progress,
    ):  # fmt: skip
        collected.add(columns)
    return collected.evidence(summary, spans)


def _kept(path: Path, part: Part, *, anew: bool) -> tuple[dict[str, Any], Evidence]:
    """Return the summary and the evidence of an entry of an archive without completions."""
    if part.chosen:
        raise RecordError(f"{path} has no completions to choose from", "archive it with --archive-records")
    if anew:
        raise RecordError(f"{path} has no completions to judge by --goodput", "archive it with --archive-records")
    evidence, summary = _read_evidence(path), read_summary(path)
    if summary is None:
        raise RecordError(f"{path} has no {SUMMARY_FILE} of this version", "archive the run again")
    return summary, evidence


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

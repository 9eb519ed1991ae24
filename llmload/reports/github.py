"""What GitHub Actions shows of a run: the job's summary page, and annotations for what needs a look.

Writes where the variables of the job say, and nowhere without them. Source: GitHub, "Workflow commands".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

from llmload.metrics.findings import Finding
from llmload.reports import markdown


def publish(
    summary: Mapping[str, Any], findings: Iterable[Finding], environ: Mapping[str, str], out: IO[str]
) -> list[str]:
    """Append Markdown to the job's summary and print annotations; return what went wrong, one sentence each.

    Args:
        summary: of the run.
        findings: of the same run.
        environ: `GITHUB_STEP_SUMMARY` names the file, `GITHUB_ACTIONS` says that somebody reads annotations.
        out: where annotations are printed.
    """
    if environ.get("GITHUB_ACTIONS") == "true":
        for line in said(summary):
            print(line, file=out)
    path = environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return []
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(markdown.render(summary, findings) + "\n")
    except OSError as error:
        return [f"GITHUB_STEP_SUMMARY {path} cannot be written ({error.strerror})"]
    return []


def said(summary: Mapping[str, Any]) -> Iterable[str]:
    """Yield an error for each reason why the run is not valid and each missed objective, a warning where the client
    was the limit."""
    if not summary["run"]["valid"]:
        for reason in summary["run"]["reasons"]:
            yield _command("error", "run not valid", reason)
    for one in summary["objectives"] or ():
        if not one["met"]:
            yield _command("error", "objective missed", f"{one['text']}: {one['why']}")
    if summary["client"]["verdict"] == "client":
        yield _command("warning", "the client was the limit", summary["client"]["why"])


def _command(kind: str, title: str, text: str) -> str:
    return f"::{kind} title={_escaped(title)}::{_escaped(text)}"


def _escaped(text: str) -> str:
    """A line break would begin another command."""
    for char, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        text = text.replace(char, code)
    return text

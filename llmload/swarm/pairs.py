"""What is printed under the summary of an A/B run, worked out from its record."""

from __future__ import annotations

from pathlib import Path

from llmload.errors import LlmloadError
from llmload.metrics.arms import compare_arms
from llmload.reports.arms import render
from llmload.sinks.record import read_run


def pairs_text(path: Path) -> str:
    """Return the comparison of the arms of a run directory; "" for a run without arms."""
    try:
        about, completions, _ = read_run(path)
        arms = about.get("arms")
        return render(compare_arms(completions, arms)) if arms else ""
    except LlmloadError as error:
        return f"The arms cannot be compared: {error}"

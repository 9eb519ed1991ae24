"""`llmload compare --arms RUN`: the arms of one A/B run, in pairs that answered the same prompt."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from llmload.errors import EXIT_OK, RecordError, SetupError
from llmload.metrics.arms import compare_arms
from llmload.reports.arms import render, render_markdown, render_page
from llmload.sinks.record import find_run, read_run


def run_arms(args: argparse.Namespace, confidence: float) -> int:
    """Compare, print, and return the exit code.

    Raises:
        SetupError: the arguments make no sense.
        RecordError: the run cannot be read, or has no two arms.
    """
    others = ("runs", "base", "new", "against", "fail_on", "goodput", "scenario", "step", "all")
    given = [f"--{name.replace('_', '-')}" if name != "runs" else "runs" for name in others if getattr(args, name)]
    if given:
        raise SetupError(f"--arms stands alone, without {', '.join(given)}", "write llmload compare --arms RUN")
    result = _read(find_run(args.arms), confidence)
    if args.html:
        try:
            Path(args.html).write_text(render_page(result), encoding="utf-8")
        except OSError as error:
            raise SetupError(f"cannot write {args.html} ({error.strerror})", "name a file that can be made") from error
    shown = json.dumps(result, indent=2, allow_nan=False) if args.json else None
    with contextlib.suppress(BrokenPipeError):
        print(shown or (render_markdown(result) if args.md else render(result)), flush=True)
    if args.html:
        print(f"llmload compare: wrote {args.html}", file=sys.stderr)
    return EXIT_OK


def _read(path: Path, confidence: float) -> dict[str, Any]:
    about, completions, problems = read_run(path)
    result = compare_arms(completions, about.get("arms") or {}, confidence=confidence)
    for problem in problems:
        print(f"llmload compare: {problem}", file=sys.stderr)
    if len(result["arms"]) < 2:
        found = ", ".join(arm["name"] for arm in result["arms"]) or "none"
        raise RecordError(f"{path} has no two arms ({found})", "run locustfiles/ab.py, or compare two runs")
    return result

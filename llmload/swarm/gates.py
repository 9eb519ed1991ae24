"""The gates of a run: objectives, goodput, strictness and when to abort, read and checked before anything is sent.

Only the process that collects judges (local or master); workers get `--goodput` through their plan. The file of
--slo-file is read here, so that `run.json` holds the objectives themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locust.argument_parser import DEFAULT_CONFIG_FILES

from llmload.errors import SetupError
from llmload.metrics.abort import Rule, parse_abort
from llmload.metrics.objective import Objective
from llmload.metrics.objectives import parse_objectives
from llmload.swarm.plan import UserClass
from llmload.swarm.possible import refuse_impossible

_CUT = re.compile(r"""\s*(slo|abort-on)(\s*[:=]\s*|\s+)(?![:='"\[\s])[^#]*\s;\s*\S""")


@dataclass(frozen=True, slots=True)
class Gates:
    """What decides about a run. `slo` and `goodput` are the texts as given, `objectives` what they mean."""

    slo: tuple[str, ...] = ()
    objectives: tuple[Objective, ...] = ()
    goodput: str | None = None
    strict: bool = False
    abort_on: tuple[Rule, ...] = ()

    def shown(self) -> dict[str, Any]:
        """Return what `run.json` keeps, among its settings."""
        return {
            "slo": list(self.slo),
            "goodput": self.goodput,
            "strict": self.strict,
            "abort_on": [rule.text for rule in self.abort_on],
        }


def read_gates(options: Mapping[str, Any], classes: Sequence[UserClass] = ()) -> Gates:
    """Return the gates of a run.

    Args:
        options: option values by name.
        classes: the `ChatUser` classes that will run.

    Raises:
        SetupError: an objective does not parse, or none of its samples can exist.
    """
    _refuse_cut_lines(options.get("config"))
    given = _texts(options.get("slo"))
    objectives = parse_objectives(given)
    texts = list(given)
    if path := options.get("slo_file"):
        lines = read_slo_file(str(path))
        objectives = parse_objectives([*given, *lines], where="--slo and --slo-file")
        texts += lines
    goodput = str(options.get("goodput") or "").strip() or None
    gates = Gates(
        slo=tuple(texts),
        objectives=objectives,
        goodput=goodput,
        strict=bool(options.get("strict")),
        abort_on=parse_abort(options.get("abort_on")),
    )
    refuse_impossible((*objectives, *(rule.condition for rule in gates.abort_on)), options, classes)
    return gates


def read_slo_file(path: str) -> list[str]:
    """Return the objectives of a file: a text a line, `#` begins a comment.

    Raises:
        SetupError: the file cannot be read, holds none, or a line does not parse.
    """
    try:
        content = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(
            f"--slo-file {path!r} cannot be read ({error})", "give a text file, an objective a line"
        ) from None
    lines = []
    for number, line in enumerate(content.split("\n"), 1):
        text = line.partition("#")[0].strip() if line.lstrip().startswith("#") or " #" in line else line.strip()
        if text:
            parse_objectives([text], where=f"{path} line {number}")
            lines.append(text)
    if not lines:
        raise SetupError(f"--slo-file {path!r} holds no objective", "write one a line, e.g. p95(ttft) < 800ms")
    return lines


def _refuse_cut_lines(config: Any) -> None:
    """Refuse a line of Locust's configuration file of which Locust drops the end without a word: ` ;` begins a comment.

    What it drops is an objective, and the job would be green without it.
    """
    for name in [config, *DEFAULT_CONFIG_FILES]:
        path = Path(str(name)).expanduser() if name else None
        if path is None or path.suffix == ".toml" or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
            if _CUT.match(line):
                raise SetupError(
                    f"{path} line {number}: Locust takes what follows ' ;' for a comment",
                    'put the text in quotes, or write a list: slo = ["p95(ttft) < 800ms", "error_rate < 1%"]',
                )


def _texts(given: Any) -> list[str]:
    """Return an option that `options.Joined` keeps as one text; the web form sends an empty one for none."""
    return [str(given)] if given is not None and str(given).strip() else []

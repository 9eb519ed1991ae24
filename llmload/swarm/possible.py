"""Objectives that no request of a run can ever have a sample for: found before the load, not after an hour of it.

What user classes say is known; what their code may say in a call (`self.chat(scenario=...)`) is looked for in their
source, and where it is there, or no source is, nothing is refused.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmload.config import duration_s, nearest
from llmload.errors import SetupError
from llmload.metrics.objective import Objective
from llmload.swarm.plan import UserClass

_STREAMED = ("ttft_s", "ttfa_s", "itl_s", "tpot_s", "output_tps", "burst_share", "ttft_intended_s")
_GOODPUT = ("goodput", "goodput_rate")
_INTENDED = ("ttft_intended_s", "e2e_intended_s")
_COURSES = ("sweep", "sweep_prompt_tokens", "stages", "find_capacity")


def refuse_impossible(
    objectives: Iterable[Objective], options: Mapping[str, Any], classes: Sequence[UserClass]
) -> None:
    """Check objectives against what the options and the user classes can bring.

    Raises:
        SetupError: one cannot have samples.
    """
    for one in objectives:
        if one.metric in _GOODPUT and not str(options.get("goodput") or "").strip():
            _refuse(one, "needs to know what is good", "add e.g. --goodput 'ttft:500 e2e:5000'")
        if one.metric in _STREAMED and not _streams(options, classes):
            _refuse(one, "has no samples without streaming", "leave --no-stream out")
        if one.metric in _INTENDED and not (options.get("rate") or options.get("trace")):
            _refuse(one, "has no samples in a closed loop", "use ttft or e2e, or an open loop: --rate")
        _check_scope(one, options, classes)


def _check_scope(one: Objective, options: Mapping[str, Any], classes: Sequence[UserClass]) -> None:
    scope = one.scope
    names = [str(getattr(cls, "scenario", None) or cls.__name__) for cls in classes]
    if scope.scenario is not None and scope.scenario not in names and not _calls_say("scenario", classes):
        _refuse(one, f"is about scenario {scope.scenario!r}, which nobody sends", _use(scope.scenario, names))
    models = [str(name) for cls in classes if (name := getattr(cls, "model", None) or options.get("model"))]
    if scope.model is not None and models and scope.model not in models and not _calls_say("model", classes):
        _refuse(one, f"is about model {scope.model!r}, which nobody asks for", _use(scope.model, models))
    if scope.step is not None and not _has_step(scope.step, options):
        _refuse(one, f"is about step {scope.step!r} of a run without such steps", "give --sweep, or leave step= out")


def _has_step(step: str, options: Mapping[str, Any]) -> bool:
    if step == "warmup":
        return duration_s(options, "warmup") is not None
    return any(options.get(name) for name in _COURSES)


def _streams(options: Mapping[str, Any], classes: Sequence[UserClass]) -> bool:
    return (
        options.get("stream") is not False
        or any(getattr(cls, "stream", None) for cls in classes)
        or _calls_say("stream", classes)
    )


def _calls_say(keyword: str, classes: Sequence[UserClass]) -> bool:
    """Whether any call in the files of these classes has that keyword, or might."""
    own = {base.__module__ for cls in classes for base in cls.__mro__}
    return any(_file_says(keyword, name) for name in own if name.split(".")[0] not in ("builtins", "llmload", "locust"))


def _file_says(keyword: str, module: str) -> bool:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return True
    given = (one.arg for call in ast.walk(tree) if isinstance(call, ast.Call) for one in call.keywords)
    return any(arg in (None, keyword) for arg in given)


def _use(name: str, known: Sequence[str]) -> str:
    return f"use {', '.join(nearest(name, known))}" if known else "leave it out"


def _refuse(one: Objective, what: str, hint: str) -> None:
    raise SetupError(f"{one.text!r} {what}", hint)

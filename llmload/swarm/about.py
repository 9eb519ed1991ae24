"""What `run.json` says of a run from its start on: settings, versions, command line, hosts. No secrets."""

from __future__ import annotations

import platform
import shlex
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import locust

import llmload
from llmload.redaction import HIDDEN, shown_url
from llmload.swarm.plan import Plan

if TYPE_CHECKING:
    from llmload.swarm.session import Session

COMMAND_CHARS = 4000


def shown_command(argv: Sequence[str]) -> str:
    """Return a command line without header values and without the secrets of URLs."""
    shown, hide_next = [], False
    for word in argv:
        option, equals, value = word.partition("=")
        if hide_next or (option == "--header" and equals):
            value = value if not hide_next else word
            word = f"{'' if hide_next else '--header='}{value.partition(':')[0]}: {HIDDEN}"
        elif "://" in word:
            head, scheme, rest = word.partition("://")
            start = head.rfind("=") + 1
            word = head[:start] + shown_url(head[start:] + scheme + rest)
        hide_next = word == "--header"
        shown.append(word)
    return shlex.join(shown)


def about_run(session: Session, plan: Plan, run_id: str) -> dict[str, Any]:
    """Return the part of `run.json` that is known when a run begins; docs/record.md describes it."""
    options, probed = session.setup.options, session.setup.probed
    return {
        "id": run_id,
        "mode": "master" if session.is_master else "local",
        "targets": {cls.__name__: target.shown for cls, target in plan.targets.items()},
        **({"arms": plan.arms} if plan.arms else {}),
        "settings": {**plan.settings.shown(), **plan.load.shown(), **session.setup.gates(options).shown()},
        "locust": {
            name: options.get(name)
            for name in ("num_users", "spawn_rate", "run_time", "stop_timeout", "processes", "expect_workers")
        },
        "arrival_settings": plan.arrivals.shown() if plan.any_open else None,
        "arrivals_from": options["llmload_run"]["at"] if plan.any_open else None,
        "trace": None if plan.trace is None else plan.trace.shown(),
        "prompts": plan.fingerprints,
        "command": plan.settings.redactor(plan.target).clean(shown_command(sys.argv), limit=COMMAND_CHARS),
        "versions": {
            "llmload": llmload.__version__,
            "locust": locust.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "host": socket.gethostname(),
        "probe": None if probed is None else probed.to_dict(),
    }

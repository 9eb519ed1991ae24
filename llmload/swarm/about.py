"""What `run.json` says of a run from its start on: settings, versions, command line, hosts. No secrets."""

from __future__ import annotations

import platform
import socket
import sys
from typing import TYPE_CHECKING, Any

import locust

import llmload
from llmload.swarm.plan import Plan

if TYPE_CHECKING:
    from llmload.swarm.session import Session

COMMAND_CHARS = 4000


def about_run(session: Session, plan: Plan, run_id: str) -> dict[str, Any]:
    """Return the part of `run.json` that is known when a run begins; docs/record.md describes it."""
    options, probed = session.setup.options, session.setup.probed
    return {
        "id": run_id,
        "mode": "master" if session.is_master else "local",
        "targets": {cls.__name__: target.shown for cls, target in plan.targets.items()},
        "settings": plan.settings.shown(),
        "locust": {
            name: options.get(name)
            for name in ("num_users", "spawn_rate", "run_time", "stop_timeout", "processes", "expect_workers")
        },
        "prompts": plan.fingerprints,
        "command": plan.settings.redactor(plan.target).clean(" ".join(sys.argv), limit=COMMAND_CHARS),
        "versions": {
            "llmload": llmload.__version__,
            "locust": locust.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "host": socket.gethostname(),
        "probe": None if probed is None else probed.to_dict(),
    }

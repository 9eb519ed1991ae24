"""Where llmload joins Locust: listeners on Locust's global events, added when `ChatUser` is imported.

Adds listeners and nothing else: Locust forks its worker processes after the locustfile was imported.
"""

from __future__ import annotations

import sys
from typing import Any

from locust import events
from locust.env import Environment
from locust.runners import WorkerRunner

from llmload.errors import SetupError
from llmload.swarm import hooks
from llmload.swarm.options import add_options

_installed = False


def install() -> None:
    """Add the listeners, once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    hooks.attach(events)
    events.init_command_line_parser.add_listener(add_options)
    events.init.add_listener(_on_init)
    events.quitting.add_listener(_on_quitting)


def _on_quitting(environment: Environment, **_: Any) -> None:
    """Decide once more: Locust calls these listeners last to first, and this one after the locustfile's own."""
    session = getattr(environment, "llmload", None)
    if session is not None:
        session.ending.set_exit_code()


def _on_init(environment: Environment, runner: Any, web_ui: Any, **_: Any) -> None:
    from llmload.swarm.session import Session

    hooks.attach(environment.events)
    session = Session(environment, runner=runner, web_ui=web_ui)
    try:
        session.open()
    except SetupError as error:
        if runner is not None and not isinstance(runner, WorkerRunner):
            runner.quit()
        print(f"llmload: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)

"""The exit code of the process that collects, from the frozen summary of its last run.

    0    valid, and every objective was met; without objectives: no request failed
    1    Locust's own: requests failed that no objective speaks of, or a user's code raised (--exit-code-on-error)
    2    bad set-up, nothing was sent
    3    an objective was missed, or --abort-on ended the run
    4    the run is not valid: it says nothing about objectives, met or missed
    130, 143   Ctrl-C or SIGTERM before the run time that was asked for was over

The first that applies of 2, 4, 130/143, 3, 1, 0 is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import locust.log

from llmload.errors import EXIT_INVALID, EXIT_MISSED, EXIT_OK
from llmload.metrics.objective import Scope
from llmload.metrics.objectives import missed

if TYPE_CHECKING:
    from llmload.swarm.session import Session

_ABOUT_FAILURES = ("error_rate", "success_rate", "goodput")

log = logging.getLogger("llmload")


def settle_exit_code(session: Session, *, interrupted_by: int | None) -> None:
    """Set the environment's exit code; what a listener of the user's has set stays unless the run was not good.

    Called again after the user's own listeners of `quitting`, since one of those may answer 0 to anything.
    """
    environment = session.environment
    if session.is_worker:
        return
    summary = None if session.run is None else session.run.summary
    if summary is None:
        if session.web_ui is None and environment.process_exit_code is None:
            environment.process_exit_code = EXIT_INVALID
        return
    if not summary["run"]["valid"]:
        environment.process_exit_code = EXIT_INVALID
    elif interrupted_by is not None and session.setup.options.get("run_time") and session.web_ui is None:
        environment.process_exit_code = 128 + interrupted_by
    elif missed(summary["objectives"]):
        environment.process_exit_code = EXIT_MISSED
    elif environment.process_exit_code is None and _failures_are_allowed(session, summary):
        environment.process_exit_code = EXIT_OK


def _failures_are_allowed(session: Session, summary: Mapping[str, Any]) -> bool:
    """Whether there are failures, and all that Locust would turn red for are such that a met objective has judged."""
    runner, scenarios = session.runner, summary["scenarios"]
    others = any(error.method != "chat" for error in runner.errors.values())
    if not runner.errors or others or runner.exceptions or locust.log.unhandled_greenlet_exception:
        return False
    failing = {str(Scope(name)) for name, one in scenarios.items() if one["ledger"]["failed"]}
    judged = [one for one in summary["objectives"] or () if one["metric"] in _ABOUT_FAILURES]
    whole = any(one["scope"] is None for one in judged)
    return whole or (bool(judged) and failing <= {one["scope"] for one in judged})

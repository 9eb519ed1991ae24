"""What an open loop makes of Locust's own options: the number of users is the rate, or one for each replaying process.

Done once, before Locust starts users: where --rate or --trace is given nobody gives -u and -r.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llmload.arrival_config import ArrivalSettings, read_arrivals
from llmload.errors import SetupError
from llmload.pacing.arrivals import processes_for
from llmload.sinks.calibration import held_events_per_second

if TYPE_CHECKING:
    from llmload.swarm.session import Session

MAX_SPAWN_RATE = 100.0
"""Locust warns of more users per second."""

log = logging.getLogger("llmload")


def fit_users(session: Session) -> None:
    """Set the number of users and the spawn rate that --rate or --trace asks for.

    Raises:
        SetupError: an option of the open loop makes no sense, contradicts one of Locust's, or asks for more than can
            be sent.
    """
    options = session.setup.options
    arrivals = read_arrivals(options)
    check_cap(arrivals, max(1, options.get("expect_workers") or 1, options.get("processes") or 1))
    flag = "--rate" if arrivals.rate is not None else "--trace" if arrivals.trace is not None else None
    if flag is None:
        return
    _check(flag, arrivals, options, has_shape=session.environment.shape_class is not None)
    if arrivals.rate is not None:
        _check_rate(arrivals.rate, options)
        users = processes_for(arrivals.rate)[0]
    else:
        users = max(1, options.get("expect_workers") or 1, options.get("processes") or 1)
    parsed = vars(session.environment.parsed_options)
    parsed["num_users"] = users
    if parsed.get("spawn_rate") is None:
        parsed["spawn_rate"] = min(float(users), MAX_SPAWN_RATE)


def check_cap(arrivals: ArrivalSettings, workers: int) -> None:
    """See that the limit of requests in flight leaves every worker something.

    Raises:
        SetupError: it does not.
    """
    if arrivals.max_in_flight is not None and arrivals.max_in_flight < workers:
        raise SetupError(
            f"--max-in-flight {arrivals.max_in_flight} is shared by {workers} workers", "give each one at least"
        )


def _check(flag: str, arrivals: ArrivalSettings, options: Mapping[str, Any], *, has_shape: bool) -> None:
    if has_shape:
        raise SetupError(
            f"{flag} with a load shape in the locustfile", "the shape says how many users: use --arrival poisson"
        )
    if options.get("num_users") is not None:
        what = f"{flag} with -u {options['num_users']}"
        if arrivals.trace is not None:
            raise SetupError(what, "the trace says when requests start: leave -u out")
        raise SetupError(what, "the number of users is the rate: leave one of them out")


def _check_rate(rate: float, options: Mapping[str, Any]) -> None:
    """Hold a rate against what this machine was found to hold; each answer has at least one event."""
    held = held_events_per_second()
    remote = options.get("master") and not options.get("processes")
    if held is None or remote:
        return  # other machines carry the load
    workers = max(1, options.get("processes") or 1)
    limit = held * workers
    if rate > limit:
        raise SetupError(
            f"--rate {rate:g} cannot be sent: {workers} worker{'s hold' if workers > 1 else ' holds'} "
            f"{limit:,.0f} events per second on this machine (llmload calibrate)",
            "lower it, or use more workers",
        )
    tokens = options.get("max_tokens")
    if tokens and str(tokens).isdecimal() and rate * int(tokens) > limit:
        log.warning(
            "--rate %g with answers of %s tokens is %s events per second; %d worker%s hold%s %s here (llmload "
            "calibrate): use more workers, unless answers are shorter",
            rate, tokens, f"{rate * int(tokens):,.0f}", workers, "s" * (workers > 1), "s" * (workers == 1),
            f"{limit:,.0f}",
        )  # fmt: skip

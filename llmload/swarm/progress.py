"""Shows how a headless run goes: a live block on a terminal, a line each 10 s in a log.

Only in the process that collects. The block replaces the table that Locust prints every 2 s; `--print-stats` brings
that one back, `--only-summary` and `--quiet` leave both out. It is drawn on standard error, so that standard output
stays what it was.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gevent
from rich.console import Console
from rich.live import Live
from rich.text import Text

from llmload.metrics.verdict import client_verdict
from llmload.reports.progress import Progress, progress_block, progress_line

if TYPE_CHECKING:
    from llmload.swarm.session import Session

PERIOD_S = 1.0
LINE_TICKS = 10
"""How many seconds lie between two lines in a log."""

log = logging.getLogger("llmload")


def can_redraw(environ: Mapping[str, str], *, is_tty: bool) -> bool:
    """Whether a block can be drawn anew each second: not where a CI system keeps what a terminal would forget."""
    return is_tty and environ.get("TERM") != "dumb" and environ.get("CI", "").lower() in ("", "0", "false")


def _drawn(now: Progress) -> Text:
    head, *middle, client = progress_block(now)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{head}\n", style="bold")
    text.append("".join(f"{line}\n" for line in middle))
    return text.append(client, style="bold red" if now.verdict == "client" else "")


class ProgressView:
    """Watches the runs of a session from `run_began` to `run_ended`; both may be called where nothing is shown."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._greenlet: gevent.Greenlet | None = None
        self._live: Live | None = None
        self._moved: list[tuple[Any, Any]] = []

    @property
    def wanted(self) -> bool:
        """Whether this process shows progress."""
        options = self._session.setup.options
        return bool(options.get("headless")) and not (
            self._session.is_worker or options.get("print_stats") or options.get("quiet")
        )

    def open(self) -> None:
        """Take the place of Locust's table, before Locust asks whether it is wanted."""
        parsed: Any = self._session.environment.parsed_options
        if parsed.only_summary:
            parsed.quiet = True
        elif not self._session.is_worker and (self.wanted or getattr(parsed, "quiet", False)):
            parsed.only_summary = True

    def run_began(self) -> None:
        """Show the run that has begun."""
        if self.wanted and self._session.run is not None:
            if can_redraw(os.environ, is_tty=sys.stderr.isatty()):
                self._start_live()
            self._greenlet = gevent.spawn(self._run)

    def run_ended(self) -> None:
        """Take the block away and leave the terminal as it was."""
        if self._greenlet is not None and self._greenlet is not gevent.getcurrent():
            self._greenlet.kill(block=False)
        self._greenlet = None
        live, self._live = self._live, None
        if live is not None:
            live.stop()
            for handler, stream in self._moved:
                handler.setStream(stream)
            self._moved.clear()

    def _start_live(self) -> None:
        console = Console(stderr=True, highlight=False)
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        )
        stderr = sys.stderr
        self._live.start()
        atexit.register(self.run_ended)
        # log lines go above the block: handlers hold the stream that was standard error when they were made
        for handler in {*logging.getLogger().handlers, *logging.getLogger("locust").handlers}:
            if isinstance(handler, logging.StreamHandler) and handler.stream is stderr:
                self._moved.append((handler, stderr))
                handler.setStream(sys.stderr)

    def _run(self) -> None:
        ticks = 0
        while self._session.run is not None and self._session.run.summary is None:
            if self._live is not None:
                self._live.update(_drawn(self.now()), refresh=True)
            elif ticks and ticks % LINE_TICKS == 0:
                log.info("%s", progress_line(self.now()))
            ticks += 1
            gevent.sleep(PERIOD_S)

    def now(self) -> Progress:
        """Return how the run goes."""
        session, run = self._session, self._session.run
        assert run is not None
        now_s = session.setup.clock.now_s()
        elapsed_s = now_s - run.started_at
        recent_s = max(1.0, min(run.recent.seconds, elapsed_s))
        recent = run.recent.section(now_s, seconds=recent_s)
        verdict, why = client_verdict(
            run.client["lag_p99_s"],
            run.client["cpu_percent_max"],
            recent["metrics"]["itl_s"]["p50"],
            recent["metrics"]["ttft_s"]["p50"],
            kernel_stamps=set(recent["stamps"]) == {"kernel"},
            read_delay_p50_s=recent["metrics"]["read_delay_s"]["p50"],
        )
        ledger = run.ledger
        return Progress(
            run_id=run.id,
            elapsed_s=elapsed_s,
            run_time_s=session.setup.options.get("run_time"),
            users=session.runner.user_count,
            ledger={**ledger.to_wire(), "in_flight": ledger.in_flight},
            recent=recent,
            recent_s=recent_s,
            verdict=verdict,
            why=why,
            step=run.phases.current,
            offered_rate=run.offered_rate,
            stopping=session.stopping,
            influx=next((sink.counts() for sink in session.setup.sinks if sink.name == "influxdb"), None),
        )

"""How a run ends: signals, the grace period and its bound, the exit code, the text at the end.

Run time reached, Ctrl-C, SIGTERM, the stop button and the last worker lost all take the same path: Locust's `quit` or
`stop`, which fires `test_stopping`, lets answers under way finish for at most --stop-timeout, cancels the rest and
fires `test_stop`. What is special here: a signal never strikes in the middle of a request, a second one cuts the grace
period short, and nothing can keep the process alive beyond a bound.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import gevent
from gevent import get_hub, getcurrent
from gevent.event import Event

from llmload.errors import EXIT_INVALID
from llmload.reports.files import Written, write_all
from llmload.reports.github import publish
from llmload.reports.text import render
from llmload.swarm.exit_code import settle_exit_code
from llmload.swarm.keeping import keep
from llmload.swarm.pairs import pairs_text

if TYPE_CHECKING:
    from llmload.swarm.session import Session

MARGIN_S = 25.0
"""How much longer than the grace period the end of a run may take before the process is ended the hard way."""

log = logging.getLogger("llmload")


class Ending:
    """Ends the runs of one process that collects (local or master); in a worker only signals are its business."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._main: Any = getcurrent()
        self._signal: int | None = None
        self._planned = False
        self._printed: str | None = None

    def install(self) -> None:
        """Take over Ctrl-C, and listen for the end of the process."""
        gevent.signal_handler(signal.SIGINT, self._on_signal, signal.SIGINT)
        events = self._session.environment.events
        events.quitting.add_listener(self._on_quitting)
        events.quit.add_listener(self._on_quit)

    def run_began(self) -> None:
        """A run has begun; forget what ended the one before."""
        self._signal = None

    def reason(self) -> str:
        """Return why the run is being stopped now."""
        if self._signal is not None:
            return signal.Signals(self._signal).name
        session, options = self._session, self._session.setup.options
        if session.is_master and session.runner.worker_count == 0:
            return "the last worker left"
        if options.get("run_time") and session.web_ui is None:
            return "run time"
        return "stop" if session.web_ui is not None else "quit"

    def _on_signal(self, number: int) -> None:
        """Stop at the first signal, cut the grace period short at the next.

        Locust would let KeyboardInterrupt strike whichever greenlet runs, be it in the middle of counting a request;
        here it only ever reaches the main greenlet.
        """
        session = self._session
        first, self._signal = self._signal is None, self._signal or number
        if first and session.is_worker:
            # the master may have met the same Ctrl-C and be faster: then this worker is stopping already
            if session.stopping:
                session.ended.wait()
            self._interrupt_main()
        elif first and not session.stopping:
            self._interrupt_main()
        else:
            session.cut_short()

    def _interrupt_main(self) -> None:
        get_hub().loop.run_callback(self._main.throw, KeyboardInterrupt)

    def _on_quitting(self, **_: Any) -> None:
        session = self._session
        if getcurrent() is not self._main:
            # Locust runs its SIGTERM shutdown in a greenlet of its own, beside the main one: make it the same path
            self._on_signal(signal.SIGTERM)
            Event().wait()
        if session.stopping:
            session.ended.wait()
        elif not session.ended.is_set():
            session.runner.quit()
        self.set_exit_code()

    def set_exit_code(self) -> None:
        """Decide what the process will say of its last run."""
        settle_exit_code(self._session, interrupted_by=self._signal)

    def _on_quit(self, **_: Any) -> None:
        """Print the summary under Locust's own tables."""
        self.print_summary()

    def print_summary(self, *, with_reports: bool = True) -> None:
        """Print the summary of the run that ended last, once, after its reports are written."""
        run = self._session.run
        if run is None or run.summary is None or self._printed == run.id:
            return
        self._printed = run.id
        # with Locust's --json standard output is JSON and nothing else
        out = sys.stderr if self._session.setup.options.get("json") else sys.stdout
        # in a thread: a long record takes a while, and the web page goes on
        written = get_hub().threadpool.apply(write_all, (run.record.path, run.summary)) if with_reports else Written()
        print(render(run.summary, written.findings), file=out)
        if pairs := pairs_text(run.record.path):
            print(f"\n{pairs}", file=out)
        again = f"(llmload report {run.record.path} prints this again)" if run.record.error is None else "INCOMPLETE"
        print(f"\nRecord: {run.record.path}   {again}", file=out)
        for path in written.paths:
            print(f"Report: {path}", file=out)
        if kept := keep(run.record.path, self._session.setup.options):
            print(kept, file=out)
        for problem in [*written.problems, *publish(run.summary, written.findings, os.environ, out)]:
            log.warning("%s", problem)
        out.flush()

    def watch_drain(self) -> None:
        """Bound the end of the run that is stopping now."""
        gevent.spawn(self._watch, self._session.environment.stop_timeout + MARGIN_S)

    def _watch(self, limit_s: float) -> None:
        session = self._session
        if session.ended.wait(limit_s):
            return
        log.error("The run did not stop within %.0f s: it is frozen as it is", limit_s)
        if session.run is not None:
            session.run.problem(f"it did not stop within {limit_s:.0f} s")
        session.freeze()
        if session.web_ui is None:
            self.print_summary(with_reports=False)  # they can take long, and this process is late already
            sys.stdout.flush()
            os._exit(EXIT_INVALID)

"""One ChatRequest in, one Completion out.

Asks the protocol what to send, the wire to send it, stamps what comes, and decides the outcome. Never raises for a
failed request: a failure is data with a kind. Only what cuts a request off from outside (a user that is stopped)
goes on as the exception it is, after the completion was handed over.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Protocol

from llmload.metrics.request import measure
from llmload.records import ChatRequest, Completion, Outcome
from llmload.redaction import shown_url
from llmload.stamps import Stamps
from llmload.stream.sse import OversizedEvent
from llmload.surroundings import Surroundings
from llmload.transcript import Transcript
from llmload.wire.deadlines import Expired, Watch
from llmload.wire.exchange import Exchange, Wire, WireError, chunks

DRAIN_S = 1.0
"""How long to wait for the end of a response after its end marker: usage may still come, the end may never."""
COUNTED_S = 0.1
"""The same when usage has come: nothing is missing but the end, which keeps the connection."""
FINISHED_S = 5.0
"""The same after a finish reason without an end marker."""
ERROR_BODY_BYTES = 64 * 1024
ANSWER_BODY_BYTES = 64 * 1024 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request failed: one of `errors.FAILURE_KINDS`, and a message that is not yet redacted."""

    kind: str
    message: str = ""


class Listener(Protocol):
    """Who wants to know. Called in the request's greenlet; must not block."""

    def first_token(self, request: ChatRequest, ttft_s: float) -> None:
        """The first token has come; the answer goes on."""

    def finished(self, request: ChatRequest, completion: Completion) -> None:
        """The request has ended. Called exactly once for each request, whatever its outcome."""


class Client:
    """The client of one user: its own connections, kept for its life.

    Args:
        wire: carries the requests.
        around: what it shares with the other clients of the process.
    """

    def __init__(self, wire: Wire, around: Surroundings) -> None:
        self._wire = wire
        self._around = around
        self._closed = False

    def complete(self, request: ChatRequest, *, request_id: str, listener: Listener) -> Completion:
        """Send one request and wait for its end.

        Returns:
            The completion, `ok` or `failed`; `listener.finished` has been called with it.

        Raises:
            BaseException: whatever cut the request off; the completion, `cancelled`, went to the listener.
        """
        attempt = _Attempt(self._wire, self._around, request, request_id, listener)
        try:
            failure = attempt.run()
        except BaseException as cut:
            try:
                listener.finished(request, attempt.completion("cancelled"))
            finally:
                raise cut.error if isinstance(cut, _Interrupted) else cut
        if failure and self._closed:
            completion = attempt.completion("cancelled")  # the user ended while a greenlet of its own was still asking
        else:
            completion = attempt.completion("failed" if failure else "ok", failure)
        listener.finished(request, completion)
        return completion

    def close(self) -> None:
        """Close the connections; what is still under way on them is cancelled."""
        self._closed = True
        self._wire.close()


class _Interrupted(BaseException):
    """A listener of the first token raised: the request is cut off, and the exception goes on to the user."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Attempt:
    """The state of one request while it runs."""

    def __init__(
        self, wire: Wire, around: Surroundings, request: ChatRequest, request_id: str, listener: Listener
    ) -> None:
        self._wire, self._around, self._request, self._id = wire, around, request, request_id
        self._listener = listener
        self._now_ns = monotonic_ns()
        self._stamps = Stamps(asked_ns=request.intended_ns or self._now_ns)
        self._transcript = Transcript(around.protocol)
        self._timeline = self._transcript.timeline
        self._exchange: Exchange | None = None
        self._streamed = request.stream

    def run(self) -> Failure | None:
        """Return why the request failed, or None."""
        watch = self._around.keeper.watch(self._around.settings.deadlines, self._stamps, stream=self._request.stream)
        try:
            with watch:
                return self._talk(watch)
        except Expired as expired:
            if expired.kind == "drained" or self._settled:
                return self._ending(complete=False)
            return Failure(expired.kind, f"the deadline of {expired.kind.removeprefix('timeout_')} passed")
        except WireError as error:
            # what breaks after the answer's own end, good or bad, changes nothing
            return self._ending(complete=False) if self._settled else Failure(error.kind, error.message)
        except OversizedEvent as error:
            return Failure("bad_stream", str(error))
        except Exception as error:
            log.exception("llmload has a bug: request %s", self._id)
            return Failure("internal", f"{type(error).__name__}: {error}")
        finally:
            if self._exchange is not None:
                self._exchange.close()

    def _talk(self, watch: Watch) -> Failure | None:
        around = self._around
        body = around.protocol.encode(self._request)
        self._exchange = exchange = self._wire.open(
            "POST", around.target.url, headers=around.headers(self._id), body=body, stamps=self._stamps
        )
        if not 200 <= exchange.status < 300:
            return self._refused(exchange)
        kind = exchange.headers.get("content-type", "text/event-stream").partition(";")[0].strip().lower()
        if kind == "text/event-stream" and self._request.stream:
            return self._stream(exchange, watch)
        self._streamed = False
        if kind != "application/json":
            start = _body(exchange, 200, whole=False).decode(errors="replace")
            return Failure("bad_stream", f"unexpected content type {kind}: {start}")
        return self._answer(exchange)

    def _refused(self, exchange: Exchange) -> Failure:
        if 300 <= exchange.status < 400:
            return Failure("http_status", f"redirected to {_place(exchange.headers.get('location'))}")
        return Failure("http_status", self._around.protocol.read_error(_body(exchange, ERROR_BODY_BYTES, whole=False)))

    def _answer(self, exchange: Exchange) -> Failure | None:
        """Read an answer that came in one piece: latency is all that is known of its times."""
        delta = self._around.protocol.read_answer(_body(exchange, ANSWER_BODY_BYTES, whole=True))
        self._timeline.add(delta, self._stamps.closed_ns or monotonic_ns())
        return self._ending(complete=True)

    def _stream(self, exchange: Exchange, watch: Watch) -> Failure | None:
        watch.follow(exchange)
        transcript, timeline = self._transcript, self._timeline
        for pairs in exchange.batches():
            transcript.take(pairs)
            if exchange.eager and timeline.arrivals_ns:
                exchange.eager = False  # the first token was worth a turn of its own, the others come in batches
                self._tell_first(timeline.arrivals_ns[0])
            self._follow(watch)
        transcript.finish()
        if exchange.eager and timeline.arrivals_ns:
            self._tell_first(timeline.arrivals_ns[0])
        return self._ending(complete=True)

    def _follow(self, watch: Watch) -> None:
        """Move the deadline to where the last events have brought the answer."""
        timeline, last_ns = self._timeline, self._transcript.last_ns
        if last_ns is None:
            return
        if timeline.done or timeline.error is not None:
            watch.ending(last_ns, DRAIN_S if timeline.usage is None else COUNTED_S)
        elif timeline.finish_reasons:
            watch.ending(last_ns, FINISHED_S)
        elif timeline.arrivals_ns:
            watch.content(timeline.arrivals_ns[-1])

    def _tell_first(self, arrival_ns: int) -> None:
        if self._stamps.origin_ns is not None:
            try:
                self._listener.first_token(self._request, (arrival_ns - self._stamps.origin_ns) / 1e9)
            except Exception as error:
                raise _Interrupted(error) from error

    @property
    def _settled(self) -> bool:
        """Whether the answer itself has said how it ended."""
        return self._timeline.ending(complete=False) not in ("truncated", "bad_stream")

    def _ending(self, *, complete: bool) -> Failure | None:
        kind = self._timeline.ending(complete=complete)
        if kind is None:
            return None
        return Failure(kind, self._timeline.error or _EXPLAINED.get(kind, ""))

    def completion(self, outcome: Outcome, failure: Failure | None = None) -> Completion:
        """Return the record of this request."""
        around, request, timeline, stamps = self._around, self._request, self._timeline, self._stamps
        exchange = self._exchange
        measured: Mapping[str, Any] = {}
        try:
            measured = measure(stamps, timeline, stream=self._streamed, open_loop=request.intended_ns is not None)
        except Exception as error:  # a request must end, whatever we get wrong
            log.exception("llmload has a bug: request %s", self._id)
            outcome, failure = "failed", Failure("internal", f"{type(error).__name__}: {error}")
        return Completion(
            id=self._id,
            scenario=request.scenario,
            model=request.model,
            worker=around.worker,
            step=request.step,
            prompt=request.prompt,
            started_unix_ns=around.clock.unix_ns(stamps.origin_ns or self._now_ns),
            stream=self._streamed,
            outcome=outcome,
            kind=failure.kind if failure else None,
            status=exchange.status if exchange else None,
            message=around.redactor.clean(failure.message) if failure and failure.message else None,
            finish_reason=timeline.finish_reason,
            good=around.goodput.good(outcome, measured) if around.goodput else None,
            cut_s=(monotonic_ns() - (stamps.origin_ns or self._now_ns)) / 1e9 if outcome == "cancelled" else None,
            client_lag_s=around.lag_since(self._now_ns),
            reused=stamps.reused if stamps.sent_ns else None,
            reconnects=stamps.reconnects,
            malformed_events=timeline.malformed_events,
            invalid_bytes=self._transcript.invalid_bytes,
            compressed=exchange.compressed if exchange else False,
            received_bytes=exchange.received_bytes if exchange else 0,
            stamps=stamps.source,
            text=timeline.text,
            **measured,
        )


_EXPLAINED = {
    "truncated": "the stream ended without a finish reason and without an end marker",
    "empty": "the answer ended properly but holds no token",
    "bad_stream": "no event of the stream could be understood",
    "content_filter": "the provider's content filter ended the answer",
}


def _body(exchange: Exchange, limit: int, *, whole: bool) -> bytes:
    """Return the body up to `limit` bytes; beyond it, refuse (`whole`) or cut."""
    parts, size = [], 0
    for data, _ in chunks(exchange):
        parts.append(data)
        size += len(data)
        if size > limit:
            if whole:
                raise WireError("bad_stream", f"the answer is larger than {limit} bytes")
            break
    return b"".join(parts)[:limit]


def _place(location: str | None) -> str:
    """Return where a redirect points, without the query values that a login page gets."""
    try:
        return shown_url(location) if location else "nowhere"
    except ValueError:
        return "an address that is none"

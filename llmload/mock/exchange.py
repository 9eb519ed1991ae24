"""One request and its answer, from the slot to the last byte.

Knows the shapes, the schedule and the faults; sends through Reply.
Runs as one task, and is cancelled when the client leaves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from llmload.mock import chunks as shapes
from llmload.mock.faults import BREAKS, REFUSALS, Fault
from llmload.mock.order import Order, error_body
from llmload.mock.reply import Reply
from llmload.mock.schedule import groups
from llmload.mock.settings import Settings
from llmload.mock.truth import Record
from llmload.mock.wheel import Pace

SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
STREAM_OPTIONS_REFUSED = b'{"error":{"message":"stream_options: extra inputs are not permitted"}}'
HTML = b"<!doctype html><html><body><h1>Welcome</h1></body></html>"


class Exchange:
    """Answers one valid request.

    Args:
        order: what was asked for.
        reply: where the answer goes.
        faults: those that strike, by name.
        first_word: where in the list of words the text begins.
    """

    def __init__(
        self,
        order: Order,
        reply: Reply,
        *,
        record: Record,
        settings: Settings,
        pace: Pace,
        faults: Mapping[str, Fault],
        first_word: int,
    ) -> None:
        self._order = order
        self._reply = reply
        self._record = record
        self._pace = pace
        self._faults = faults
        self._text = settings.text
        self._first = first_word
        self._tokens = 0 if "empty" in faults else order.tokens
        self._reasoning = min(settings.reasoning, self._tokens)
        self._finish = "stop" if "empty" in faults else order.finish_reason
        self._sent = 0
        self._created = int(time.time())
        self._start_ns = record.arrived_ns

    async def refuse(self) -> bool:
        """Let a fault answer that comes before any slot; True if one did."""
        for fault in self._faults.values():
            if fault.status is not None:
                await self._refuse_status(fault, fault.status)
                return True
        for name in REFUSALS:
            fault_ = self._faults.get(name)
            if fault_ is not None and await self._refuse_with(fault_):
                return True
        return False

    async def answer(self, *, queued: bool) -> None:
        """Answer as asked; times count from the arrival, or from the slot if the request was queued."""
        if queued:
            self._start_ns = self._record.slot_ns or self._start_ns
        if self._order.stream:
            await self._stream()
        else:
            await self._plain()

    async def linger(self) -> None:
        """What comes after the answer and needs no slot: the response is held open if a fault says so."""
        hold = self._faults.get("hold_open")
        if hold is not None and self._order.stream and not self._broken():
            await self._pace.idle(hold.number("seconds"))
            await self._reply.end("ok")

    # Refusals

    async def _refuse_status(self, fault: Fault, status: int) -> None:
        seconds = fault.number("retry_after")
        if seconds is None and status in (429, 503):
            seconds = 1.0
        headers = [] if seconds is None else [(b"retry-after", b"%d" % round(seconds))]
        body = error_body(status, f"The mock server was told to answer {status}.")
        await self._reply.whole(status, body, outcome=f"fault:{fault.name}", headers=headers)

    async def _refuse_with(self, fault: Fault) -> bool:
        outcome, name, reply = f"fault:{fault.name}", fault.name, self._reply
        if name == "redirect":
            target = str(fault.params["to"]).encode("latin-1", "replace")
            status = int(str(fault.params["status"]))
            await reply.whole(status, b"", outcome=outcome, headers=[(b"location", target)])
        elif name == "reject_stream_options":
            if not self._order.has_stream_options:
                return False
            await reply.whole(400, STREAM_OPTIONS_REFUSED, outcome=outcome)
        elif name == "silent_close":
            reply.break_off(outcome, reset=bool(fault.number("reset")))
        elif name == "never":
            await self._pace.rest(None)
        elif name == "html":
            html = (b"content-type", b"text/html; charset=utf-8")
            await reply.whole(200, HTML, outcome=outcome, headers=[html])
        else:
            self._sent = self._tokens
            await reply.whole(200, self._plain_body(self._usage()), outcome=outcome)
        return True

    # Streamed answers

    async def _stream(self) -> None:
        order = self._order
        self._chunks = shapes.Chunks(
            self._record.id,
            self._created,
            model=order.model,
            text=self._text,
            first=self._first,
            include_usage=order.include_usage and "no_usage" not in self._faults,
        )
        await self._reply.head(200, SSE_HEADERS)
        await self._keepalive()
        self._role = self._chunks.role()
        if "role_early" in self._faults:
            await self._reply.write(self._role)
            self._role = b""
        broken = self._broken()
        if broken is None:
            await self._send_tokens(0, self._tokens)
            await self._close_stream(self._finish)
            return
        await self._send_tokens(0, broken.after(self._tokens))
        await self._break_stream(broken)

    async def _send_tokens(self, start: int, stop: int) -> None:
        batch = self._faults.get("batch")
        size = max(1, int(batch.number("size") or 1)) if batch else 1
        offsets, pace, reply, chunks = self._order.offsets_ns, self._pace, self._reply, self._chunks
        border = self._reasoning
        for first, end in groups(start, stop, size=size, border=border):
            # An event with several tokens leaves when the last of them is made.
            await pace.until(self._start_ns + offsets[end - 1])
            event = chunks.tokens(first, end, reasoning=first < border)
            if self._role:
                event, self._role = self._role + event, b""
            self._sent = end
            await reply.write(event, end - first)

    async def _close_stream(self, reason: str) -> None:
        if self._role:  # no token came before: the end is due when the first token would have been
            await self._pace.until(self._start_ns + self._order.offsets_ns[0])
        last, self._role = self._role + self._chunks.finish(reason), b""
        if self._order.include_usage and "no_usage" not in self._faults:
            last += self._chunks.usage(self._usage())
            if "usage_null_after" in self._faults:
                last += self._chunks.usage(None)
        if "no_done" not in self._faults:
            last += shapes.DONE
        await self._reply.write(last)
        if "hold_open" in self._faults:
            await self._reply.flush()
            self._reply.close_record("ok")
        else:
            await self._reply.end("fault:content_filter" if reason == "content_filter" else "ok")

    async def _keepalive(self) -> None:
        fault = self._faults.get("keepalive")
        if fault is None:
            return
        pause_s = max(0.001, (fault.number("every_ms") or 0) / 1000)
        seconds = fault.number("seconds")
        begun_ns = time.monotonic_ns()
        while seconds is None or time.monotonic_ns() - begun_ns < seconds * 1e9:
            await self._reply.write(shapes.KEEPALIVE)
            await self._pace.idle(pause_s)

    # Broken answers

    def _broken(self) -> Fault | None:
        return next((self._faults[name] for name in BREAKS if name in self._faults), None)

    async def _break_stream(self, fault: Fault) -> None:
        outcome, reply = f"fault:{fault.name}", self._reply
        sent = fault.after(self._tokens)
        if fault.name == "content_filter":
            await self._close_stream("content_filter")
        elif fault.name == "stall":
            await reply.flush()
            await self._pace.rest(fault.number("seconds"))
            await self._send_tokens(sent, self._tokens)
            await self._close_stream(self._finish)
        elif fault.name == "error":
            await reply.write(self._chunks.error(str(fault.params["style"])))
            if fault.number("done"):
                await reply.write(shapes.DONE)
            await reply.end(outcome)
        else:
            if fault.number("mid"):
                event = self._chunks.tokens(sent, sent + 1, reasoning=sent < self._reasoning)
                await reply.write(event[: len(event) // 2])
            await reply.flush()
            if fault.params["how"] == "clean":
                await reply.end(outcome)
            else:
                reply.break_off(outcome, reset=fault.params["how"] == "reset")

    # Answers in one piece

    async def _plain(self) -> None:
        await self._pace.until(self._start_ns + self._order.offsets_ns[max(self._tokens, 1) - 1])
        self._record.tokens = self._tokens
        fault, reply = self._broken(), self._reply
        if fault is not None and fault.name == "content_filter":
            self._finish, fault = "content_filter", None
        body = self._plain_body(None if "no_usage" in self._faults else self._usage())
        if fault is None:
            outcome = "fault:content_filter" if self._finish == "content_filter" else "ok"
            await reply.whole(200, body, outcome=outcome)
        elif fault.name == "error":
            await reply.whole(200, error_body(500, "The mock server failed on request."), outcome="fault:error")
        else:
            await reply.part(body, sent=len(body) // 2)
            if fault.name == "stall":
                await self._pace.rest(fault.number("seconds"))
            reply.break_off(f"fault:{fault.name}", reset=fault.params.get("how") == "reset")

    def _plain_body(self, usage: dict[str, Any] | None) -> bytes:
        border = self._reasoning
        return shapes.plain_body(
            self._record.id,
            self._created,
            model=self._order.model,
            content=shapes.answer_text(self._text, first=self._first, start=border, stop=self._tokens),
            thought=shapes.answer_text(self._text, first=self._first, start=0, stop=border),
            finish_reason=self._finish,
            usage=usage,
        )

    def _usage(self) -> dict[str, Any]:
        tokens = self._sent if self._order.stream else self._tokens
        return shapes.usage_of(
            prompt_tokens=self._order.prompt_tokens,
            tokens=tokens,
            reasoning=min(self._reasoning, tokens),
        )

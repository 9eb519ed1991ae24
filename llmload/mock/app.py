"""The routes of the mock server.

The chat endpoint is plain ASGI below Starlette's router; no middleware stands between it and the connection.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from llmload.errors import SetupError
from llmload.mock.chat import Chat
from llmload.mock.faults import parse_fault
from llmload.mock.order import Refused, check_key, error_body
from llmload.mock.settings import Settings
from llmload.mock.truth import Ledger, Record


def build_app(settings: Settings, ledger: Ledger, connections: Callable[[], int]) -> Router:
    """The ASGI application; `connections` says how many are open."""
    chat = Chat(settings, ledger)
    control = Control(chat, ledger, connections)

    async def models(request: Request) -> Response:
        try:
            check_key(request.headers, settings.api_key)
        except Refused as refused:
            return Response(refused.body, refused.status, media_type="application/json")
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "llmload"} for name in settings.models]
        return JSONResponse({"object": "list", "data": rows})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def missing(request: Request) -> Response:
        body = error_body(404, f"Unknown request URL: {request.method} {request.url.path}")
        return Response(body, 404, media_type="application/json")

    return Router(
        [
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/redirected/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
            Route("/mock/truth", control.truth),
            Route("/mock/stats", control.stats),
            Route("/mock/faults", control.faults, methods=["GET", "POST"]),
            Route("/mock/freeze", control.freeze, methods=["POST"]),
            Route("/{path:path}", missing, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
        ],
        redirect_slashes=False,
    )


class Control:
    """`/mock/...`: what a test asks the server, and what it changes while it runs."""

    def __init__(self, chat: Chat, ledger: Ledger, connections: Callable[[], int]) -> None:
        self._chat = chat
        self._ledger = ledger
        self._connections = connections
        self._started_s = time.monotonic()

    async def truth(self, request: Request) -> Response:
        """The records of ended requests as JSON lines, in the order they ended; `?clear=1` forgets them."""
        records = list(self._ledger.records)
        if request.query_params.get("clear") == "1":
            self._ledger.records.clear()
        return StreamingResponse(_in_pieces(records), media_type="application/x-ndjson")

    async def stats(self, _: Request) -> Response:
        """Counters since the start; `in_flight` includes `queued`, and `started == finished + in_flight`."""
        ledger, slots = self._ledger, self._chat.slots
        return JSONResponse(
            {
                "started": ledger.started,
                "finished": ledger.finished,
                "in_flight": ledger.in_flight,
                "peak_in_flight": ledger.peak_in_flight,
                "queued": slots.queued,
                "slots_used": slots.used,
                "peak_slots_used": slots.peak_used,
                "tokens_sent": ledger.tokens_sent,
                "outcomes": dict(ledger.outcomes),
                "connections": self._connections(),
                "uptime_s": time.monotonic() - self._started_s,
                "cpu_s": time.process_time(),
            }
        )

    async def faults(self, request: Request) -> Response:
        """POST `{"fault": "cut=0.1"}` or a list of such texts replaces all faults; an empty list ends all."""
        if request.method == "POST":
            try:
                wanted = json.loads(await request.body())["fault"]
                texts = wanted if isinstance(wanted, list) else [wanted] if wanted else []
                self._chat.faults = tuple(parse_fault(str(text), "fault") for text in texts)
            except SetupError as error:
                return _bad_request(str(error))
            except (ValueError, KeyError, TypeError):
                return _bad_request('send {"fault": "NAME=PROBABILITY"} or a list of such texts')
        return JSONResponse({"fault": [fault.text for fault in self._chat.faults]})

    async def freeze(self, request: Request) -> Response:
        """POST `?seconds=6` stops every token for so long; the rest of each stream comes that much later."""
        try:
            seconds = float(request.query_params.get("seconds", ""))
        except ValueError:
            seconds = -1.0
        if not (math.isfinite(seconds) and seconds >= 0):
            return _bad_request("say how long: POST /mock/freeze?seconds=6")
        self._chat.wheel.freeze(seconds)
        return JSONResponse({"frozen_s": seconds})


def _bad_request(message: str) -> Response:
    return Response(error_body(400, message), 400, media_type="application/json")


def _in_pieces(records: list[Record], size: int = 200) -> Iterator[bytes]:
    for start in range(0, len(records), size):
        yield b"".join(record.line() for record in records[start : start + size])

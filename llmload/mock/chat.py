"""The endpoint for chat completions: checks, faults, slot, answer, and the truth about all of it.

Plain ASGI: one request is one task, which is cancelled when the client leaves, so that its slot is free at
once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from llmload.mock.chunks import WORDS
from llmload.mock.exchange import Exchange
from llmload.mock.faults import Fault, draw_faults
from llmload.mock.order import Refused, check_key, header_faults, read_order
from llmload.mock.reply import Reply, Send
from llmload.mock.settings import Settings
from llmload.mock.slots import Slots
from llmload.mock.truth import Ledger, Record
from llmload.mock.wheel import Pace, Wheel

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

EXTENSION = "llmload.mock"
"""Where the server puts what it knows about the connection: `arrived_ns` and `transport`."""


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


class Chat:
    """`POST /v1/chat/completions`.

    `faults` may be replaced at run time; it is read once for each request.
    """

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._run = secrets.token_hex(4)
        self.faults = settings.faults
        self.slots = Slots(settings.slots)
        self.wheel = Wheel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every way out closes its record."""
        link: Mapping[str, Any] = scope["extensions"][EXTENSION]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        number = self._ledger.begin()
        record = Record(
            id=f"chatcmpl-{self._run}{number:08x}",
            request_id=headers.get("x-request-id"),
            arrived_ns=link["arrived_ns"],
        )
        outcome = "cut"
        try:
            await self._serve(scope, receive, send, headers=headers, record=record, number=number)
        except ClientLeft:
            outcome = "disconnected"
        finally:
            self._ledger.end(record, outcome, time.monotonic_ns())

    async def _serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        headers: Mapping[str, str],
        record: Record,
        number: int,
    ) -> None:
        settings = self._settings
        rng = Random(f"{settings.seed}/{number}")
        faults: dict[str, Fault] = {}
        refused: Refused | None = None
        body = await _read_body(receive)
        try:
            check_key(headers, settings.api_key)
            wanted = (*self.faults, *header_faults(headers))
            # A source of its own: a fault that is drawn must not move the times of the answers.
            faults = draw_faults(wanted, Random(f"{settings.seed}/{number}/faults")) if wanted else {}
            if scope["path"].startswith("/redirected/"):
                faults.pop("redirect", None)
            order = read_order(body, headers, settings=settings, rng=rng)
        except Refused as error:
            refused = error
        record.faults = list(faults)
        transport = scope["extensions"][EXTENSION]["transport"]
        reply = Reply(send, transport, record=record, ledger=self._ledger, faults=faults)
        if refused is not None:
            await reply.whole(refused.status, refused.body, outcome=f"refused:{refused.status}")
            return
        exchange = Exchange(
            order,
            reply,
            record=record,
            settings=settings,
            pace=Pace(self.wheel, settings.grid_ns),
            faults=faults,
            first_word=rng.randrange(len(WORDS[settings.text])),
        )
        await _while_connected(self._in_turn(exchange, record), reply, receive)

    async def _in_turn(self, exchange: Exchange, record: Record) -> None:
        if await exchange.refuse():
            return
        at_once = await self.slots.take()
        record.slot_ns = time.monotonic_ns()
        try:
            await exchange.answer(queued=not at_once)
        finally:
            self.slots.free()
        await exchange.linger()


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _while_connected(work: Any, reply: Reply, receive: Receive) -> None:
    """Run `work` in this task until it is done, or until the client leaves while the end is still open.

    Raises:
        ClientLeft: the client closed the connection first.
    """
    task = asyncio.current_task()
    assert task is not None
    left = False

    async def watch() -> None:
        nonlocal left
        while (await receive())["type"] != "http.disconnect":
            pass
        # The server also says "disconnect" after a complete response. A connection that is closed
        # after [DONE] (hold_open) ends the waiting, but the record already says ok.
        left = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        await work
    except asyncio.CancelledError:
        if not left:
            raise  # the server stops
        task.uncancel()
        if not reply.over:
            raise ClientLeft from None
    finally:
        watcher.cancel()

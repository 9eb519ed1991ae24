"""One small request before the load, so that a mistake is one line now and not ten minutes of red.

It is made once, by the master or the local process, with the run's own settings and a short answer. It is not part of
the load: no ledger, no statistics. Its completion is kept in `run.json`.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from urllib.parse import urlsplit

from llmload.client import Client
from llmload.config import KEY_VARIABLES, nearest
from llmload.errors import SetupError
from llmload.records import ChatRequest, Completion
from llmload.stamps import Stamps
from llmload.surroundings import Surroundings
from llmload.wire.choose import proxy_in_use
from llmload.wire.deadlines import Expired
from llmload.wire.exchange import Wire, WireError, chunks

PROBE_TOKENS = 16
LISTED = 8
TOLERATED = frozenset({"empty", "content_filter"})
"""Failures of the probe that say nothing about the load: a short answer may well hold no token."""

log = logging.getLogger("llmload")


class _Silent:
    def first_token(self, request: ChatRequest, ttft_s: float) -> None: ...

    def finished(self, request: ChatRequest, completion: Completion) -> None: ...


def probe(wire: Wire, around: Surroundings, *, model: str) -> Completion:
    """Send the probe and return its completion.

    Raises:
        SetupError: the server cannot be reached, or refuses what this run would send.
    """
    settings = around.settings
    request = ChatRequest(
        messages=[{"role": "user", "content": "Reply with the word ready."}],
        model=model,
        max_tokens=None if settings.max_tokens is None else min(settings.max_tokens, PROBE_TOKENS),
        temperature=settings.temperature,
        stream=settings.stream,
        extra_body=settings.extra_body,
        scenario="probe",
    )
    completion = Client(wire, around).complete(request, request_id="llmload-probe", listener=_Silent())
    if completion.outcome == "failed" and completion.kind not in TOLERATED:
        raise _explained(wire, around, completion)
    known = offered_models(wire, around)
    if known and model not in known and f"{model}:latest" not in known and not any("*" in name for name in known):
        log.warning("The server answers, but does not list the model %r; it offers %s", model, _listed(model, known))
    if completion.outcome == "ok" and completion.stream and completion.usage_source != "server":
        log.warning("The server reports no token counts: they will be estimates, marked as such")
    return completion


def offered_models(wire: Wire, around: Surroundings) -> list[str]:
    """Return the names that the server lists, or nothing where it does not say."""
    stamps = Stamps(asked_ns=0)
    settings = replace(around.settings.deadlines, total_s=10.0)
    try:
        with around.keeper.watch(settings, stamps, stream=False):
            exchange = wire.open(
                "GET",
                around.target.at(around.protocol.models_path),
                headers=around.headers("llmload-models"),
                body=None,
                stamps=stamps,
            )
            try:
                body = b"".join(data for data, _ in chunks(exchange)) if exchange.status == 200 else b""
            finally:
                exchange.close()
    except (WireError, Expired):
        return []
    return around.protocol.read_models(body)


def _explained(wire: Wire, around: Surroundings, failed: Completion) -> SetupError:
    """Return what is wrong, where, and what to do."""
    url, said = around.target.shown, failed.message or failed.kind or ""
    if failed.kind != "http_status":
        return _unreachable(url, failed, proxy_in_use(around.target.url))
    status = failed.status or 0
    if status in (401, 403):
        name = next((name for name in KEY_VARIABLES if os.environ.get(name)), None)
        if name is None:
            return SetupError(f"{url} wants a key ({status}: {said})", f"export {KEY_VARIABLES[0]} with the key")
        return SetupError(f"{url} refuses the key in {name} ({status}: {said})", "check that it belongs to this server")
    if 300 <= status < 400:
        return SetupError(f"{url} answers {status}, {said}", "give the address it points to as --host")
    if status in (400, 404, 422):
        known = offered_models(wire, around)
        if known and failed.model not in known:
            return SetupError(
                f"the server does not know the model {failed.model!r} ({status}: {said})",
                f"it offers {_listed(failed.model, known)}",
            )
    return SetupError(f"{url} answers {status}: {said}", _hint(status, said))


def _unreachable(url: str, failed: Completion, proxy: str | None) -> SetupError:
    where = urlsplit(url).netloc
    if proxy is not None and failed.kind in ("connect", "dns", "timeout_connect"):
        return SetupError(
            f"the proxy {proxy} does not answer ({failed.message})",
            f"unset the proxy variable or add {where} to NO_PROXY",
        )
    hints = {
        "dns": "check the name in --host",
        "connect": "is the server running, and is this its port?",
        "timeout_connect": "is the server running, and is this its port?",
        "tls": "is this an https server, and is its certificate known here? See --ca-file, and --insecure",
        "timeout_first_token": "is the model still loading? Raise --timeout-first-token or use --no-probe",
    }
    return SetupError(
        f"no answer from {where}: {failed.kind} ({failed.message})",
        hints.get(failed.kind or "", "check --host, or use --no-probe to send the load all the same"),
    )


def _hint(status: int, said: str) -> str:
    if "stream_options" in said or "include_usage" in said:
        return "the server does not take stream_options: use --no-usage"
    if "max_completion_tokens" in said or "max_tokens" in said:
        return "use --max-tokens-field max_completion_tokens or max_tokens, or --max-tokens 0"
    if status == 404:
        return "is there a chat API at this address? --host may end in /v1 or hold the full path"
    if status == 429:
        return "the quota is used up already: wait, or use --no-probe"
    return "fix the request, or use --no-probe to send the load all the same"


def _listed(model: str, known: list[str]) -> str:
    names = nearest(model, known)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more

"""The mock server as a process: socket, signals, ready line, truth file.

The only place that knows uvicorn.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from llmload.errors import SetupError
from llmload.mock.app import build_app
from llmload.mock.chat import EXTENSION
from llmload.mock.settings import Settings
from llmload.mock.truth import Ledger

BACKLOG = 4096


class Protocol(HttpToolsProtocol):
    """uvicorn's connection, which also says when a request arrived and lets a fault break the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # uvloop gathers writes until the end of a turn of the loop, unless more is buffered than this limit.
        # With many streams that is milliseconds after the stamp; with 0 the kernel gets the bytes at once.
        # Not under TLS: there uvloop would never say that the buffer is empty again.
        if transport.get_extra_info("sslcontext") is None:
            transport.set_write_buffer_limits(high=0)
        super().connection_made(transport)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        link: dict[object, object] = {"arrived_ns": time.monotonic_ns(), "transport": self.transport}
        self.scope["extensions"] = {EXTENSION: link}


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, line: str) -> None:
        super().__init__(config)
        self._line = line

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._line, flush=True)


class _OnlyBugs(logging.Filter):
    """uvicorn reports responses that a fault left open and streams cut by the stop: both are meant."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return error is not None and not isinstance(error, asyncio.CancelledError)


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    truth_file: Path | None,
    keep_alive_s: int,
    certificate: tuple[Path, Path] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT and return 0; open streams are cut.

    Args:
        port: 0 takes a free one, which the ready line on stdout names.
        truth_file: is overwritten; one JSON record a line, complete when the server has stopped.
        keep_alive_s: how long an idle connection stays open.
        certificate: PEM files of the certificate and its key: then it speaks TLS.

    Raises:
        SetupError: the address is taken or unknown, or a file cannot be written or read.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(_listen(host, port))
        file = stack.enter_context(_open(truth_file)) if truth_file is not None else None
        ledger = Ledger(file)

        async def flush() -> None:
            ledger.flush()

        config = uvicorn.Config(
            build_app(settings, ledger, lambda: len(server.server_state.connections)),
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_keep_alive=keep_alive_s,
            timeout_graceful_shutdown=0,
            callback_notify=flush,
            timeout_notify=1,
            backlog=BACKLOG,
            ssl_certfile=certificate and certificate[0],
            ssl_keyfile=certificate and certificate[1],
        )
        _load_certificate(config)
        logging.getLogger("uvicorn.error").addFilter(_OnlyBugs())
        bound_host, bound_port = listener.getsockname()[:2]
        shown = f"[{bound_host}]" if ":" in bound_host else bound_host
        server = _Server(
            config, f"mock: {'https' if certificate else 'http'}://{shown}:{bound_port}/v1 {settings.line()}"
        )
        _stop_on_signals(server)
        _allow_many_connections()
        server.run(sockets=[listener])
    # A second signal while the interpreter ends must not turn a graceful stop into a killed process.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return 0


def _load_certificate(config: uvicorn.Config) -> None:
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise SetupError(
            f"--certificate {config.ssl_certfile} cannot be used with --key {config.ssl_keyfile} "
            f"({error.strerror or error})",
            "name two PEM files that belong together",
        ) from error


def _stop_on_signals(server: uvicorn.Server) -> None:
    # uvicorn raises the signal again after a graceful stop, which would end the process with the signal's own
    # code; a handler of ours takes that second one, so that a requested stop is a success.
    def stop(number: int, frame: Any) -> None:
        server.handle_exit(number, frame)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise SetupError(
            f"cannot listen on {host} port {port} ({reason})", "choose another --port, or 0 for a free one"
        ) from error
    return listener


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as error:
        raise SetupError(f"--truth: cannot write {path} ({error.strerror})", "choose another file") from error


def _allow_many_connections() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource  # not on Windows

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

"""`llmload health`: whether the Locust or mock server process of this container is up, for a container's health check.

A worker listens nowhere, so what counts for it is its connection to the master. Read from the kernel's socket tables
(Linux), so that asking costs the process itself nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from llmload.errors import SetupError

ESTABLISHED, LISTEN = "01", "0A"
"""States in /proc/net/tcp, see the kernel's include/net/tcp_states.h."""
USUAL = {"listening": (5557, 8089, 8000), "connected": (5557,)}
"""Ports that a master, a web page, a mock server (listening) or a worker (connected) has."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `llmload health`."""
    parser.add_argument("--listening", type=int, action="append", metavar="PORT", help="must listen here; repeatable")
    parser.add_argument("--connected", type=int, action="append", metavar="PORT", help="must be connected to this port")


def run(args: argparse.Namespace) -> int:
    """Return 0 when every named port is as asked, or, with none named, when any of the usual ones is in use."""
    listening, connected = ports()
    if not args.listening and not args.connected:
        up = bool(listening & set(USUAL["listening"]) or connected & set(USUAL["connected"]))
        print("up" if up else "down: neither listening nor connected")
        return 0 if up else 1
    missing = [f"not listening on {port}" for port in args.listening or () if port not in listening]
    missing += [f"not connected to {port}" for port in args.connected or () if port not in connected]
    print(f"down: {', '.join(missing)}" if missing else "up")
    return 1 if missing else 0


def ports(folder: Path = Path("/proc/net")) -> tuple[set[int], set[int]]:
    """Return the ports that something here listens on, and the remote ports that something here is connected to.

    Raises:
        SetupError: the kernel shows no socket table.
    """
    rows = [row for name in ("tcp", "tcp6") for row in _rows(folder / name)]
    if not rows and not (folder / "tcp").exists():
        raise SetupError(f"{folder}/tcp: no such table", "llmload health works on Linux")
    listening = {_port(local) for local, _, state in rows if state == LISTEN}
    connected = {_port(remote) for _, remote, state in rows if state == ESTABLISHED}
    return listening, connected


def _rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (local address, remote address, state) of each socket."""
    if path.exists():
        for line in path.read_text(encoding="ascii").splitlines()[1:]:
            _, local, remote, state = line.split()[:4]
            yield local, remote, state


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)

"""`llmload demo`: the mock server and a short distributed run against it, on this machine, in one command."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from llmload.errors import SetupError
from llmload.mock.process import MockProcess


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `llmload demo`."""
    parser.add_argument("--users", type=int, default=20, metavar="N", help="users (default: 20)")
    parser.add_argument("--seconds", type=int, default=20, metavar="N", help="length of the run (default: 20)")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="worker processes (default: 2)")
    parser.add_argument("--run-dir", default="runs", metavar="DIR", help="where the record goes (default: runs)")


def run(args: argparse.Namespace) -> int:
    """Run the demo and return the exit code of its load run."""
    if min(args.users, args.seconds, args.processes) < 1:
        raise SetupError("--users, --seconds and --processes must be at least 1", "leave them out for 20, 20 and 2")
    mock_options = ("--ttft-ms", "200", "--itl-ms", "20", "--tokens", "64", "--slots", "16")
    with MockProcess(*mock_options) as mock, tempfile.TemporaryDirectory() as folder:
        port = str(_free_port())
        command = [
            str(Path(sys.executable).with_name("locust")),
            "-f", _locustfile(folder), "--headless",
            "--host", mock.url, "--model", "mock", "--max-tokens", "64", "--run-dir", args.run_dir,
            "-u", str(args.users), "-r", str(args.users), "-t", f"{args.seconds}s",
            "--processes", str(args.processes), "--master-port", port, "--master-bind-port", port,
        ]  # fmt: skip
        print("$", " ".join(command), flush=True)
        return _run(command)


def _run(command: list[str]) -> int:
    """Run the load to its own end: a terminal sends Ctrl-C to it as well, and a SIGTERM for us is passed on."""
    child = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
    return child.wait()


def _free_port() -> int:
    """Return a port for master and workers: Locust's own may be in use by another test on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _locustfile(folder: str) -> str:
    """The chat locustfile of the source tree; an installed package has none, so it gets the same two lines."""
    shipped = Path(__file__).parents[2] / "locustfiles" / "chat.py"
    if shipped.exists():
        return os.path.relpath(shipped)
    written = Path(folder, "chat.py")
    written.write_text("from llmload import ChatUser\n\nclass Chat(ChatUser):\n    pass\n", encoding="utf-8")
    return str(written)

"""The mock server as a child process, for tests and benchmarks.

Standard library only, so that it can be used under gevent's monkey patching, and before it.

    with MockProcess("--ttft-ms", "50", "--itl-ms", "5") as mock:
        send_requests_to(mock.url)
        records = mock.truth()
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from llmload.errors import SetupError

_READY = re.compile(rb"^mock: (https?://\S+/v1) ", re.MULTILINE)


class MockProcess:
    """One `llmload mock --port 0` of its own; ends with the `with` block.

    Args:
        options: command-line options of `llmload mock`.
        ready_timeout_s: how long the server may take to start.
    """

    def __init__(self, *options: str, ready_timeout_s: float = 30.0) -> None:
        self._options = options
        self._ready_timeout_s = ready_timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        # A file, not a pipe: nobody has to read it, so the server can never block on it.
        self._folder = tempfile.TemporaryDirectory(prefix="llmload-mock-")
        self.output = Path(self._folder.name, "output")
        """What the server printed; gone after `stop`."""
        # No proxy from the environment, no certificate to check: the server is on this machine, and is ours.
        self._http = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),
        )
        self.url = ""
        """The base URL with `/v1`, without a slash at the end."""

    def __enter__(self) -> MockProcess:
        """Start the server and wait until it listens.

        Raises:
            SetupError: it ended, or said nothing in time; its output is in the message.
        """
        command = [sys.executable, "-m", "llmload.cli.main", "mock", "--port", "0", *self._options]
        with self.output.open("wb") as sink:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
        deadline_s = time.monotonic() + self._ready_timeout_s
        while time.monotonic() < deadline_s:
            ended = self._child.poll() is not None
            ready = _READY.search(self.output.read_bytes())
            if ready:
                self.url = ready[1].decode()
                return self
            if ended:
                break
            time.sleep(0.01)
        output = self.output.read_bytes().decode(errors="replace").strip()
        self.stop()
        raise SetupError(f"the mock server did not start ({output})", "correct its options")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server."""
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._child is not None, "not started"
        return self._child.pid

    def truth(self, *, clear: bool = False) -> list[dict[str, Any]]:
        """The records of all ended requests, in the order of their ends (see `llmload.mock.truth.Record`)."""
        lines = self._call("GET", "/mock/truth" + ("?clear=1" if clear else "")).splitlines()
        return [json.loads(line) for line in lines]

    def stats(self) -> dict[str, Any]:
        """The counters of the server."""
        stats: dict[str, Any] = json.loads(self._call("GET", "/mock/stats"))
        return stats

    def set_faults(self, *faults: str) -> None:
        """Replace the faults that every request may meet; none ends them."""
        self._call("POST", "/mock/faults", json.dumps({"fault": faults}).encode())

    def freeze(self, seconds: float) -> None:
        """Let no token out for so long."""
        self._call("POST", f"/mock/freeze?seconds={seconds}", b"")

    def stop(self, timeout_s: float = 5.0) -> int | None:
        """End the server (SIGTERM, SIGKILL after `timeout_s`); its exit code, None if it never started."""
        code = None
        if self._child is not None:
            if self._child.poll() is None:
                self._child.terminate()
            try:
                code = self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._child.kill()
                code = self._child.wait()
        self._folder.cleanup()
        return code

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, data=body, method=method)
        with contextlib.closing(self._http.open(request, timeout=60)) as response:
            data: bytes = response.read()
            return data

"""A genuine llama-server with a small model, as `make .cache/llama/ready` fetches them: what a mock cannot promise.

    with LlamaServer() as llama:
        before = llama.counters()
        send_requests_to(llama.url)

One thread, four slots, so that a load generator beside it keeps a core: assert counts and order here, never times.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / ".cache" / "llama"
KEY = "sk-test"
MODEL = "smollm2"
READY_S = 60.0


class LlamaServer:
    """One llama-server on a port of its own; ends with the `with` block."""

    def __init__(self):
        self._child = None
        self._folder = tempfile.TemporaryDirectory(prefix="llmload-llama-")
        self._log = Path(self._folder.name, "log")
        # No proxy from the environment: the server is on this machine.
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.url = ""

    def __enter__(self):
        server = FOLDER / "server"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        # the launcher replaces itself by the server, so its pid is the server's
        command = [
            sys.executable, str(server / "bin" / "llama-server-vulkan"),
            "-m", str(next(FOLDER.glob("model/*/*.gguf"))), "--alias", MODEL,
            "--host", "127.0.0.1", "--port", str(port), "-t", "1", "-c", "8192", "-np", "4",
            "--offline", "--no-ui", "--metrics", "--api-key", KEY,
        ]  # fmt: skip
        with self._log.open("wb") as sink:
            self._child = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": str(server)},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        try:
            self._await_health()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # SIGKILL: asked nicely while an answer goes on, it stays for half a minute
        self._child.kill()
        self._child.wait()
        self._folder.cleanup()

    def counters(self):
        """Return what the server has counted since it started, by name without the prefix `llamacpp:`."""
        lines = self._get("/metrics").decode().splitlines()
        pairs = (line.removeprefix("llamacpp:").split() for line in lines if line.startswith("llamacpp:"))
        return {name: float(value) for name, value in pairs}

    def tokens(self):
        """Return the (prompt, output) tokens of all requests that have ended.

        The server counts the prompt tokens that it computed, so without those that it took from its cache, and the
        output tokens as it reports them in `usage`. Output tokens of a request that was cut off it never counts.
        """
        counters = self.counters()
        return int(counters["prompt_tokens_total"]), int(counters["tokens_predicted_total"])

    def count(self, text):
        """Return how many tokens a text is."""
        body = json.dumps({"content": text}).encode()
        return len(json.loads(self._get("/tokenize", body))["tokens"])

    def _await_health(self):
        give_up_at = time.monotonic() + READY_S
        while self._child.poll() is None and time.monotonic() < give_up_at:
            try:
                if json.loads(self._get("/health"))["status"] == "ok":
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"llama-server did not start: {self._log.read_text(errors='replace')[-2000:]}")

    def _get(self, path, body=None):
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=body, headers=headers)
        with self._http.open(request, timeout=30) as response:
            return response.read()


def require_llama():
    """Skip, or fail under CI, where the server was not fetched."""
    if not (FOLDER / "ready").exists():
        missing("there is no llama-server here: make test fetches it")


def missing(what):
    """End a test that lacks something: a failure under CI, where nothing may be missing, else a skip."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def free_port():
    """Return a port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

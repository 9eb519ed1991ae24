"""What all tests share: gevent from the first line on, as under Locust, and servers on loopback."""

from gevent import monkey

monkey.patch_all()

import contextlib  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import pytest  # noqa: E402

from tests import certificates, clients  # noqa: E402
from tests.influx import shared_influx  # noqa: E402
from tests.locusts import ROOT, free_port  # noqa: E402
from tests.scripted import ScriptedServer  # noqa: E402


@pytest.fixture
def scripted():
    """A server that says exactly what a test tells it to."""
    with ScriptedServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _close_clients():
    """No test leaves a connection behind."""
    yield
    while clients.OPENED:
        clients.OPENED.pop().close()


@pytest.fixture(scope="session")
def influx(tmp_path_factory):
    """A real InfluxDB, shared by all tests: each looks at its own runs."""
    influx = shared_influx(tmp_path_factory.mktemp("influx"))
    yield influx
    influx.kill()


@pytest.fixture
def http2_server():
    """The URL of an HTTP/2 server over TLS, with the certificate of `certificates`."""
    port = free_port()
    child = subprocess.Popen([sys.executable, ROOT / "tests" / "h2_server.py", str(port), *certificates.files()])
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"https://127.0.0.1:{port}"
    finally:
        child.kill()
        child.wait()

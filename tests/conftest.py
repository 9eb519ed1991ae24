"""What all tests share: gevent from the first line on, as under Locust, and servers on loopback."""

from gevent import monkey

monkey.patch_all()

import pytest  # noqa: E402

from tests import clients  # noqa: E402
from tests.influx import shared_influx  # noqa: E402
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

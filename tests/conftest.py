"""What all tests share: gevent from the first line on, as under Locust, and servers on loopback."""

from gevent import monkey

monkey.patch_all()

import pytest  # noqa: E402

from tests import clients  # noqa: E402
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

"""The fast wire wherever it can carry, the plain one elsewhere, and a line in the log that says why."""

import gc
import logging
import socket
import warnings

import gevent
import pytest

from llmload.stamps import Stamps
from llmload.wire import choose
from llmload.wire.choose import open_wire
from llmload.wire.exchange import WireError, chunks
from llmload.wire.fast import FastWire
from llmload.wire.plain import PlainWire

URL = "http://server.example:8000/v1/chat/completions"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    """No proxy but the test's own, and nothing said yet."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    choose._say.cache_clear()


def opened(url=URL):
    """Return the class of the wire for a URL."""
    wire = open_wire(url)
    wire.close()
    return type(wire)


@pytest.mark.parametrize("url", [URL, URL.replace("http:", "https:"), "http://[::1]:8000/v1"])
def test_a_server_that_is_reached_directly_gets_the_fast_wire(url, caplog):
    """Nothing to say then."""
    caplog.set_level(logging.INFO)
    assert opened(url) is FastWire
    assert caplog.messages == []


@pytest.mark.parametrize("proxy", ["http://proxy.example:3128", "socks5://proxy.example:1080"])
def test_a_proxy_needs_the_plain_wire_and_it_is_said_once(monkeypatch, caplog, proxy):
    """CFG-02: HTTP and SOCKS proxies of the environment, secrets left out; a bypass bypasses."""
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("HTTP_PROXY", proxy.replace("//", "//user:secret@"))
    monkeypatch.setenv("http_proxy", proxy.replace("//", "//user:secret@"))
    assert [opened() for _ in range(3)] == [PlainWire] * 3
    (said,) = caplog.messages
    assert said.startswith("Arrivals are stamped when a read returns, not in the kernel: requests go through the proxy")
    assert "secret" not in said
    monkeypatch.setenv("NO_PROXY", "server.example")
    monkeypatch.setenv("no_proxy", "server.example")
    assert opened() is FastWire


def test_a_platform_without_kernel_stamps_gets_the_plain_wire(monkeypatch, caplog):
    """The completion says `read`, the log says why."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(choose, "kernel_stamps", lambda: False)
    assert opened() is PlainWire
    assert caplog.messages == [
        "Arrivals are stamped when a read returns, not in the kernel: this platform does not stamp arrivals in the "
        "kernel"
    ]


def test_a_unix_socket_is_spoken_to_over_the_plain_wire(tmp_path, caplog):
    """A server behind a socket file is reached, whatever proxy is set, and the log says what arrivals are worth."""
    caplog.set_level(logging.INFO)
    path = str(tmp_path / "server")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        server = gevent.spawn(answer)
        wire = open_wire(URL, unix_socket=path)
        exchange = wire.open("POST", URL, headers={}, body=b"", stamps=Stamps(asked_ns=0))
        assert (exchange.status, [data for data, _ in chunks(exchange)]) == (200, [b"hi"])
        exchange.close()
        wire.close()
        server.join()
    assert isinstance(wire, PlainWire)
    assert caplog.messages[0].endswith(f"not in the kernel: requests go through the socket {path}")


def test_a_socket_that_is_not_there_is_a_failed_connection(tmp_path):
    """The kind is `connect`, as of a port where nobody listens."""
    wire = open_wire(URL, unix_socket=str(tmp_path / "nobody"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # httpcore leaves the socket that it could not connect
        with pytest.raises(WireError) as caught:
            wire.open("POST", URL, headers={}, body=b"", stamps=Stamps(asked_ns=0))
        assert caught.value.kind == "connect"
        wire.close()
        del wire, caught
        gc.collect()

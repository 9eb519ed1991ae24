"""Certificates on the command line: verified by default, a CA of one's own, or not at all and said so."""

import json

import pytest

from llmload.wire.choose import open_wire
from tests import certificates
from tests.clients import ASK, Heard, client_for
from tests.locusts import check_ledger, run_locust
from tests.scripted import ScriptedServer, body

ANSWER = json.dumps(
    {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}
)


@pytest.fixture
def secure():
    with ScriptedServer(ssl_context=certificates.server_context()) as server:
        server.plays(body(ANSWER))
        yield server


def run(tmp_path, server, *args):
    return run_locust(tmp_path, "--host", server.url, "--model", "m", "--no-stream", "-u", 1, "-t", "1s", *args)


def test_an_unknown_certificate_is_refused_with_a_way_out(tmp_path, secure):
    """Nobody signed it: code 2, one line that names both options, nothing sent."""
    locust = run(tmp_path, secure)
    assert locust.code == 2
    assert "certificate verify failed" in locust.text
    assert "See --ca-file, and --insecure" in locust.text
    assert secure.requests == []


def test_a_ca_file_makes_it_known(tmp_path, secure):
    """With its certificate named the server is trusted, and nothing is said."""
    locust = run(tmp_path, secure, "--ca-file", certificates.files()[0])
    assert locust.code == 0, locust.text
    assert check_ledger(locust)["ok"] > 0
    assert "not verified" not in locust.text


def test_insecure_is_said_in_every_output(tmp_path, secure):
    """Log, summary text, summary.json and run.json."""
    locust = run(tmp_path, secure, "--insecure")
    assert locust.code == 0, locust.text
    assert "Certificates are not verified (--insecure)" in locust.text
    assert "! The server's certificate was not verified (--insecure)." in locust.text
    assert locust.summary["run"]["load"]["insecure"] is True
    assert locust.about["settings"]["insecure"] is True


def test_a_ca_file_that_is_none(tmp_path, secure):
    """A missing file, and one without certificates, are named."""
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for path in ("/nowhere.pem", empty):
        locust = run(tmp_path, secure, "--ca-file", path)
        assert locust.code == 2
        assert f"--ca-file {path} cannot be used" in locust.text


@pytest.mark.parametrize(("http2", "version"), [(True, "HTTP/2"), (False, "HTTP/1.1")])
def test_http2_where_it_is_asked_for(http2_server, http2, version):
    """The same server answers in the HTTP that was offered; over HTTP/2 arrivals are stamped after the read."""
    wire = open_wire(http2_server, ssl_context=certificates.trusting_context(), http2=http2)
    client = client_for(http2_server, wire=wire)
    first, second = (client.complete(ASK, request_id=str(n), listener=Heard()) for n in range(2))
    assert (first.outcome, first.text, first.token_events) == ("ok", version, 2)
    assert (second.outcome, second.reused) == ("ok", True)
    assert not http2 or first.stamps == second.stamps == "read"
    assert first.ttft_s <= first.e2e_s <= first.closed_s

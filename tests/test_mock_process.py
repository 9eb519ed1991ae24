"""Mock server: start, stop, options and files, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from llmload.cli.main import main
from llmload.errors import SetupError
from llmload.mock.process import MockProcess
from tests import certificates
from tests.rawclient import ask, connect, read, send


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ttft-ms", "soon"], "--ttft-ms: 'soon' is no number"),
        (["--fault", "boom=1"], "--fault: no fault is called 'boom'"),
        (["--lockstep", "--itl-ms", "exp:20"], "--lockstep: the grid needs one step"),
        (["--slots", "-1"], "--slots: -1 is below 0"),
        (["--tokens", "1.5"], "--tokens: '1.5' is not a whole number"),
        (["--port", "0", "--truth", "/nowhere/truth.jsonl"], "--truth: cannot write /nowhere/truth.jsonl"),
        (["--certificate", "/nowhere"], "--certificate and --key belong together"),
        (
            ["--port", "0", "--certificate", "/nowhere", "--key", "/n"],
            "--certificate /nowhere cannot be used with --key",
        ),
        (["--port", "70000"], "cannot listen on 127.0.0.1 port 70000"),
    ],
)
def test_nonsense_is_one_line(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A value without meaning is one line that names the option, and exit code 2."""
    assert main(["mock", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"llmload mock: {message}")
    assert captured.err.count("\n") == 1


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A taken port is one clear line and exit code 2."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["mock", "--port", str(port)]) == 2
    expected = f"cannot listen on 127.0.0.1 port {port} (Address already in use): choose another --port"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_open_streams(number: signal.Signals, tmp_path: Path) -> None:
    """With streams that would never end, a signal ends the server with code 0 and the truth says cut."""
    truth = tmp_path / "truth.jsonl"
    with MockProcess("--ttft-ms", "0", "--itl-ms", "60000", "--truth", str(truth)) as mock, connect(mock.url) as sock:
        send(sock)
        answer = read(sock, until=b'"content":" ')
        os.kill(mock.pid, number)
        assert read(sock, begun=answer).end in ("eof", "reset")
        assert mock.stop() == 0
    (record,) = [json.loads(line) for line in truth.read_text().splitlines()]
    assert (record["outcome"], record["tokens"]) == ("cut", 1)


def test_the_file_has_what_the_endpoint_has(tmp_path: Path) -> None:
    """The truth file holds the records that the endpoint shows, line for line."""
    path = tmp_path / "truth.jsonl"
    with MockProcess("--ttft-ms", "0", "--itl-ms", "0", "--tokens", "3", "--truth", str(path)) as mock:
        for _ in range(3):
            ask(mock)
        shown = mock.truth()
    assert [json.loads(line) for line in path.read_text().splitlines()] == shown
    assert [record["tokens"] for record in shown] == [3, 3, 3]


def test_the_same_seed_repeats_times_and_faults() -> None:
    """Two servers with one seed answer the n-th request with the same length, text and faults."""
    seen = []
    for _ in range(2):
        with MockProcess(
            "--seed", "3", "--ttft-ms", "0", "--itl-ms", "0", "--tokens", "uniform:1:50", "--fault", "http_500=0.3"
        ) as mock:
            answers = [ask(mock) for _ in range(12)]
            seen.append([(a.status, "".join(a.texts) if a.status == 200 else "") for a in answers])
    assert seen[0] == seen[1]
    assert {status for status, _ in seen[0]} == {200, 500}


def test_a_bad_option_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """MockProcess raises what the server said when it does not start."""
    with pytest.raises(SetupError, match="no fault is called 'boom'"), MockProcess("--fault", "boom"):
        pass
    assert capsys.readouterr().err == ""


def test_the_key_is_never_printed() -> None:
    """The key is neither in the ready line nor in an error."""
    with MockProcess("--api-key", "sk-secret") as mock:
        output = Path(mock.output).read_bytes()
        assert b"mock: http://127.0.0.1:" in output
        assert b"sk-secret" not in output
        assert b"sk-secret" not in ask(mock).raw


def test_the_server_shares_no_code_with_the_client() -> None:
    """Serving imports neither Locust, gevent and httpx nor llmload's own protocols, streams and client."""
    code = (
        "import sys, llmload.cli.mock, llmload.mock.server, llmload.mock.process\n"
        "banned = ('locust', 'gevent', 'httpx', 'llmload.protocols', 'llmload.stream', 'llmload.swarm',"
        " 'llmload.client', 'llmload.wire')\n"
        "print([name for name in sys.modules if name.startswith(banned)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_certificate_makes_it_speak_tls() -> None:
    """With a certificate the URL says https, answers come over TLS, and the truth holds them."""
    certificate, key = certificates.files()
    options = ("--ttft-ms", "0", "--itl-ms", "0", "--tokens", "3", "--certificate", str(certificate), "--key", str(key))
    with MockProcess(*options) as mock:
        assert mock.url.startswith("https://127.0.0.1:")
        body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}], "stream": False}
        with httpx.Client(verify=certificates.trusting_context(), trust_env=False) as client:
            answer = client.post(f"{mock.url}/chat/completions", json=body).json()
        assert answer["usage"]["completion_tokens"] == 3
        assert [one["tokens"] for one in mock.truth()] == [3]

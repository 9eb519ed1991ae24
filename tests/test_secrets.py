"""Secrets of addresses, keys and proxies: the server gets them, and nothing that a run leaves has them."""

import json
from base64 import b64encode
from collections import Counter
from pathlib import Path

import pytest

from llmload.mock.process import MockProcess
from tests import certificates
from tests.locusts import run_locust
from tests.scripted import body

KEY, HEADER, USER, PASSWORD, QUERY = "sk-topsecret1", "tok-abc12345", "alice-of-9", "s3cretpw", "K3Y123456"
PROXY_USER, PROXY_PASSWORD = "proxy-user-5", "pr0xypw77"
SECRETS = (KEY, HEADER, USER, PASSWORD, QUERY, PROXY_USER, PROXY_PASSWORD)
FAULTS = ("http_401=0.15", "http_500=0.15", f"redirect=0.15:to=/login?token={QUERY}", "silent_close=0.15", "cut=0.15")


def secret(url):
    """Return a URL with user name, password and a key in it."""
    return url.replace("://", f"://{USER}:{PASSWORD}@") + f"?api-key={QUERY}"


def run_with_secrets(folder, url, *args, env=None):
    """Run where libraries say all that they can say, and check that no secret is in any line and any file."""
    folder.mkdir(exist_ok=True)
    locust = run_locust(
        folder, "--host", secret(url), "--model", "mock", "--header", f"X-Auth: {HEADER}", "-u", 4, "-r", 4, "-t", "2s",
        "--loglevel", "DEBUG", "--abort-after", 0, "--html", folder / "locust.html", "--csv", folder / "stats",
        "--archive", folder / "archive", "--archive-records", *args, env={"LLMLOAD_API_KEY": KEY, **(env or {})},
    )  # fmt: skip
    assert "/DEBUG/" in locust.text
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    told = {"the output": locust.text} | {str(path): path.read_text(errors="replace") for path in files}
    assert [(name, one) for name, text in told.items() for one in SECRETS if one in text] == []
    return locust


def kinds(locust):
    """Return the failure kinds of a run, with statuses."""
    return {(line["kind"], line.get("status")) for line in locust.completions if line["outcome"] == "failed"}


def proxied(address):
    return dict.fromkeys(("http_proxy", "HTTP_PROXY"), f"http://{PROXY_USER}:{PROXY_PASSWORD}@{address}")


FAILED = {("http_status", 401), ("http_status", 500), ("http_status", 307), ("truncated", 200)}


def test_libraries_show_no_url(tmp_path):
    """SEC-02: whatever fails below us, over our own wire or httpx's and a proxy: no line, no record, no report."""
    faults = [word for fault in FAULTS for word in ("--fault", fault)]
    with MockProcess("--ttft-ms", "5", "--itl-ms", "1", "--tokens", "4", "--seed", "3", *faults) as mock:
        direct = run_with_secrets(tmp_path / "direct", mock.url, "--no-probe")
        through = run_with_secrets(
            tmp_path / "through", "http://server.example", "--no-probe", env=proxied(mock.url.partition("://")[2])
        )
    assert kinds(direct) >= FAILED
    assert kinds(through) >= FAILED
    assert {line["stamps"] for line in through.completions} == {"read"}
    assert "server.example/v1/chat/completions?api-key=*** through the proxy http://127.0.0.1:" in through.text
    assert "redirected to /login?***" in (through.run / "report.html").read_text()


def test_a_proxy_that_is_not_there_is_named_without_its_user(tmp_path):
    """SEC-02: in the line of the probe, and in the messages of a run."""
    env = proxied("127.0.0.1:9")
    assert run_with_secrets(tmp_path / "probed", "http://server.example", env=env).code == 2
    run = run_with_secrets(tmp_path / "run", "http://server.example", "--no-probe", env=env)
    assert kinds(run) == {("connect", None)}


@pytest.mark.parametrize(
    ("scheme", "probe"), [("foo://", "--probe"), ("foo://", "--no-probe"), ("http://[", "--probe")]
)
def test_a_proxy_that_is_none_is_named_without_its_user(tmp_path, scheme, probe):
    """SEC-02: one line and code 2, and not a word of what httpx says."""
    env = {name: value.replace("http://", scheme) for name, value in proxied("127.0.0.1:9").items()}
    run = run_with_secrets(tmp_path, "http://server.example", probe, env=env)
    assert run.code == 2, run.text
    assert "llmload: a proxy of the environment (http_proxy, https_proxy, all_proxy) cannot be used" in run.text


def test_a_proxy_without_a_scheme_is_named_without_its_user(tmp_path):
    """SEC-02: httpx takes it for an http one."""
    env = {name: value.removeprefix("http://") for name, value in proxied("127.0.0.1:9").items()}
    run = run_with_secrets(tmp_path, "http://server.example", env=env)
    assert run.code == 2
    assert "llmload: the proxy http://127.0.0.1:9 does not answer" in run.text


def test_http2_shows_no_header(tmp_path, http2_server):
    """SEC-02: hpack logs the headers that it packs."""
    run = run_with_secrets(tmp_path, http2_server, "--http2", "--ca-file", certificates.files()[0])
    assert run.code == 0, run.text


@pytest.mark.parametrize("processes", [(), ("--processes", 2)])
def test_the_server_gets_the_secrets_of_its_address(tmp_path, scripted, processes):
    """User, password and key of the URL go with every request, the probe's included, also those of workers."""
    answer = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    scripted.plays(0.1, body(json.dumps({**answer, "usage": {"prompt_tokens": 1, "completion_tokens": 1}})))
    run = run_locust(
        tmp_path, "--host", secret(scripted.url), "--model", "m", "--no-stream", "-u", 2, "-r", 2, "-t", "2s",
        *processes,
    )  # fmt: skip
    assert run.code == 0, run.text
    heads = [head.decode().split("\r\n") for head, _ in scripted.requests]
    chat, models = (f"{what}?api-key={QUERY} HTTP/1.1" for what in ("POST /v1/chat/completions", "GET /v1/models"))
    asked = Counter(lines[0] for lines in heads)
    assert set(asked) == {chat, models}
    assert asked[chat] == 1 + run.summary["ledger"]["started"] > 1
    basic = f"Authorization: Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
    assert all(basic in lines for lines in heads)

"""Bad input: one line with what, where and what to do, exit code 2, and nothing sent."""

import pytest

from llmload.mock.process import MockProcess
from tests.locusts import run_locust

KEY = {"LLMLOAD_API_KEY": "right-key-1"}


@pytest.fixture(scope="module")
def mock():
    with MockProcess(
        "--model", "llama-3-8b", "--model", "mistral", "--api-key", "right-key-1", "--tokens", "3"
    ) as mock:
        yield mock


def refused(tmp_path, *args, **options):
    """Run Locust, which must refuse to start; return the one line that it says."""
    locust = run_locust(tmp_path, "-u", "2", "-t", "2s", *args, **options)
    said = [line for line in locust.text.splitlines() if line.startswith(("llmload:", "locust: error"))]
    assert locust.code == 2, locust.text
    assert len(said) == 1, locust.text
    assert "Traceback" not in locust.text
    assert not locust.runs.exists() or not list(locust.runs.iterdir())
    return said[0].removeprefix("llmload: ")


def test_missing_host_and_missing_model(tmp_path, mock):
    """What is missing is named, with an example."""
    assert refused(tmp_path, "--model", "m").startswith("--host is missing: give the server, e.g. --host http://")
    assert refused(tmp_path, "--host", mock.url).startswith("--model is missing: give the name")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("--max-tokens", "many"), "--max-tokens 'many' is not a whole number from 0 to 1000000000: write e.g. 128"),
        (("--timeout-idle", "soon"), "--timeout-idle 'soon' is not a duration: write e.g. 500ms, 30s, 2m, or 0 for "),
        (("--prompts", "/nowhere.txt"), "there is no prompt file /nowhere.txt: a relative path starts where the comma"),
        (("--run-dir", "/proc/x"), "cannot write the run directory /proc/x (No such file or directory): choose anoth"),
        (("--think-time", "5-1"), "think time '5-1' ends before it begins: give the shorter time first"),
        (("--processes", "2", "--seed", "x"), "--seed 'x' is not a whole number from 0 to 9223372036854775808: writ"),
    ],
)  # fmt: skip
def test_nonsense_values(tmp_path, mock, args, line):
    """An option that makes no sense stops the run before the server hears of it, also with several processes."""
    before = mock.stats()["started"]
    assert refused(tmp_path, "--host", mock.url, "--model", "mistral", *args, env=KEY).startswith(line)
    assert mock.stats()["started"] == before


def test_broken_prompts_file(tmp_path, mock):
    """The file, the line, and what a line may be."""
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": 3}\n')
    line = refused(tmp_path, "--host", mock.url, "--model", "mistral", "--prompts", path, env=KEY)
    assert line.startswith(f"{path}, line 2: no prompt in it: write one JSON value a line")


def test_model_that_the_server_does_not_know(tmp_path, mock):
    """What it offers is listed, the nearest name first."""
    line = refused(tmp_path, "--host", mock.url, "--model", "lama-3-8b", env=KEY)
    assert line == (
        "the server does not know the model 'lama-3-8b' (404: The model 'lama-3-8b' does not exist.): "
        "it offers llama-3-8b, mistral"
    )


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "wants a key (401: Incorrect API key provided.): export LLMLOAD_API_KEY with the key"),
        ({"OPENAI_API_KEY": "wrong-key-1"}, "refuses the key in OPENAI_API_KEY (401: Incorrect API key provided.)"),
        ({"LLMLOAD_API_KEY": "${KEY}"}, "LLMLOAD_API_KEY is the literal text '${KEY}'"),
    ],
)
def test_missing_wrong_and_literal_key(tmp_path, mock, env, words):
    """Which variable is wrong, and never its value."""
    line = refused(tmp_path, "--host", mock.url, "--model", "mistral", env=env)
    assert words in line
    assert "wrong-key" not in line


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("http://127.0.0.1:9", "no answer from 127.0.0.1:9: connect ([Errno 111] Connection refused)"),
        ("http://no-such-host.invalid", "no answer from no-such-host.invalid: dns"),
        ("127.0.0.1:8000", "write http://127.0.0.1:8000 or https://127.0.0.1:8000"),
    ],
)
def test_unreachable_hosts(tmp_path, host, words):
    """A server that is not there is told apart from a name that is wrong."""
    assert words in refused(tmp_path, "--host", host, "--model", "m")


def test_wrong_path_and_plain_server_behind_https(tmp_path, mock):
    """An address that answers, but not with a chat API."""
    wrong = mock.url.replace("/v1", "/api")
    assert "is there a chat API at this address?" in refused(tmp_path, "--host", wrong, "--model", "m", env=KEY)
    https = mock.url.replace("http:", "https:")
    assert "tls" in refused(tmp_path, "--host", https, "--model", "m", env=KEY)


def test_proxy_that_points_nowhere(tmp_path, mock):
    """CFG-02: the proxy of the environment is named, not the server behind it."""
    dead = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", **KEY}
    line = refused(tmp_path, "--host", mock.url, "--model", "mistral", env=dead)
    assert line.startswith("the proxy http://127.0.0.1:9 does not answer")
    assert "NO_PROXY" in line


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("reject_stream_options", "use --no-usage"),
        ("redirect", "give the address it points to as --host"),
        ("http_429", "the quota is used up already"),
        ("html", "unexpected content type text/html"),
    ],
)
def test_the_probe_meets_what_the_load_would(tmp_path, fault, words):
    """USE-08, CFG-04, HTTP-12: what every request would meet is met once, before the load."""
    with MockProcess("--fault", fault) as mock:
        assert words in refused(tmp_path, "--host", mock.url, "--model", "mock")
        assert mock.stats()["started"] == 1


def test_unknown_options_are_not_guessed(tmp_path, mock):
    """CFG-08: Locust's parser says which option was probably meant."""
    assert "unrecognized arguments: --modle" in refused(tmp_path, "--host", mock.url, "--modle", "x")

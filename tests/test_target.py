"""The one URL that is called, from whatever a person typed (CFG-01, SEC-01)."""

import pytest

from llmload.errors import SetupError
from llmload.target import Target

PATH = "/chat/completions"


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("http://h:8000", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1/", "http://h:8000/v1/chat/completions"),
        ("http://h:8000//v1//", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1/chat/completions", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1/chat/completions/", "http://h:8000/v1/chat/completions"),
        ("  https://api.example/openai/v1 ", "https://api.example/openai/v1/chat/completions"),
        ("http://[::1]:8000", "http://[::1]:8000/v1/chat/completions"),
        (
            "https://x.example/openai/deployments/D/chat/completions?api-version=2024-06-01",
            "https://x.example/openai/deployments/D/chat/completions?api-version=2024-06-01",
        ),
    ],
)
def test_every_form_of_a_host_is_one_url(typed, url):
    """CFG-01: with or without /v1, slash or path, the URL that is called is the same."""
    assert Target.parse(typed, path=PATH).url == url


def test_other_paths_keep_root_and_query():
    """The list of models lies beside the chat path, under the same root and query."""
    target = Target.parse("https://x.example/api/v1/?api-version=1", path=PATH)
    assert target.at("/models") == "https://x.example/api/v1/models?api-version=1"


def test_secrets_of_a_url_are_taken_out_of_what_is_shown():
    """SEC-01: user name, password and key of a URL are used, but never shown."""
    target = Target.parse("http://alice:s3cr%40t@127.0.0.1:8000/v1?api-key=K-123456&api-version=7", path=PATH)
    assert target.url == "http://127.0.0.1:8000/v1/chat/completions?api-key=K-123456&api-version=7"
    assert target.auth == ("alice", "s3cr@t")
    assert target.shown == "http://127.0.0.1:8000/v1/chat/completions?api-key=***&api-version=7"
    assert target.secrets == ["alice", "s3cr@t", "K-123456"]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (None, "--host is missing"),
        ("  ", "--host is missing"),
        ("localhost:8000", "write http://localhost:8000"),
        ("127.0.0.1:8000/v1", "write http://127.0.0.1:8000/v1"),
        ("ftp://h/", "write http://h/ or https://h/"),
        ("http://h:99999", "has a port or an address that is none"),
        ("http://", "is not an http or https URL"),
    ],
)
def test_what_is_no_host_is_said_in_one_line(typed, words):
    """A host that cannot be meant names what to write instead."""
    with pytest.raises(SetupError, match=r".") as error:
        Target.parse(typed, path=PATH)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_refused_host_does_not_show_its_password():
    """SEC-01: also the error message hides what stands before the @."""
    with pytest.raises(SetupError) as error:
        Target.parse("ftp://alice:s3cret@h/", path=PATH)
    assert "s3cret" not in str(error.value)

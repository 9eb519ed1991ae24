"""Secrets stay out of what is shown (SEC-01, SEC-02, SEC-03)."""

from llmload.redaction import Redactor, has_secrets, secret_values, shown_body, shown_headers, shown_url


def test_known_secrets_go_in_every_form():
    """A key is hidden as it is and as a URL would carry it, the longer of two first."""
    redactor = Redactor(["pass word/1", "pass word/12", "abc"])
    assert redactor.clean("a pass word/12 b pass%20word%2F1 c abc") == "a *** b *** c abc"


def test_what_looks_like_a_secret_goes_too():
    """SEC-02: exception texts carry URLs and headers that nobody registered."""
    said = "Bearer abcdefgh at https://u:p@h/v1?api-key=K123&x=1 with sk-abcdef123"
    assert Redactor().clean(said) == "*** at https://***h/v1?***&x=1 with ***"


def test_messages_are_one_short_line():
    """A body of megabytes becomes one line of at most the limit."""
    assert Redactor().clean("a\n  b\tc\r\nd") == "a b c d"
    assert Redactor().clean("x" * 5_000_000) == "x" * 299 + "…"


def test_header_values_are_hidden_unless_known_to_be_harmless():
    """SEC-03: hiding is the default, showing is the exception."""
    headers = {"X-Auth-Token": "t", "Cookie": "s=1", "x-goog-api-key": "g", "Accept": "text/event-stream"}
    assert shown_headers(headers) == {
        "X-Auth-Token": "***",
        "Cookie": "***",
        "x-goog-api-key": "***",
        "Accept": "text/event-stream",
    }


def test_url_without_secrets_stays_as_it_is():
    """What holds no secret is shown whole."""
    assert shown_url("http://h:1/v1?api-version=2") == "http://h:1/v1?api-version=2"


def test_a_secret_that_was_cut_off_is_hidden_too():
    """Whoever cut the text, what is left of the secret at its end goes."""
    redactor = Redactor(["q7Zr2mW9xT4kB8vN"])
    assert redactor.clean("the key q7Zr2mW9x") == "the key ***"
    assert "q7Z" not in redactor.clean("q7Zr2mW9xT4kB8vN " * 100)


def test_a_body_shows_no_value_under_a_secret_name():
    """Keys and tokens in --extra-body are hidden where they stand, and known to the redactor."""
    body = {"top_p": 0.9, "api_key": "hunter22", "nested": [{"token": "abcdef", "max_tokens": 5}]}
    assert shown_body(body) == {"top_p": 0.9, "api_key": "***", "nested": [{"token": "***", "max_tokens": 5}]}
    assert secret_values(body) == ["hunter22", "abcdef"]


def test_what_was_hidden_has_no_secrets():
    """A URL that was made fit to be shown is not taken for the one that it stands for."""
    url = "http://u:p@h:1/v1?api-key=K123&api-version=2"
    assert has_secrets(url)
    assert not has_secrets(shown_url(url))

"""Settings from text: one check for command line, variables and web form (CFG-07, CFG-08)."""

import pytest

from llmload.config import Deadlines, Settings, api_key, nearest, read_settings
from llmload.errors import SetupError
from llmload.target import Target


def test_defaults_need_only_a_model():
    """Everything but the model has a default."""
    assert read_settings({"model": "m", "max_tokens": "128", "seed": "1", "abort_after": "100"}, {}) == Settings(
        model="m", deadlines=Deadlines(None, None, None, None)
    )


def test_text_becomes_typed_values():
    """CFG-07: numbers, durations, switches and JSON are read from text, however they are written."""
    settings = read_settings(
        {
            "model": " m ",
            "max_tokens": "0",
            "temperature": "0.7",
            "extra_body": '{"top_p": 0.9}',
            "header": ["X-Team: a", "X-B:c:d"],
            "stream": "false",
            "timeout_connect": "500ms",
            "timeout_first_token": "2m",
            "timeout_idle": "0",
            "timeout_total": "90",
        },
        {},
    )
    assert settings.model == "m"
    assert settings.max_tokens is None
    assert settings.temperature == 0.7
    assert settings.extra_body == {"top_p": 0.9}
    assert settings.headers == {"X-Team": "a", "X-B": "c:d"}
    assert settings.stream is False
    assert settings.deadlines == Deadlines(0.5, 120.0, None, 90.0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("model", "", "--model is missing"),
        ("max_tokens", "many", "--max-tokens 'many' is not a whole number"),
        ("max_tokens", "-1", "--max-tokens '-1' is not a whole number from 0"),
        ("max_tokens", "1e3", "--max-tokens '1e3' is not a whole number"),
        ("temperature", "hot", "--temperature 'hot' is not a number from 0 to 10"),
        ("temperature", "nan", "--temperature 'nan' is not a number from 0 to 10"),
        ("extra_body", "{", "--extra-body is not JSON"),
        ("extra_body", "[1]", "--extra-body is JSON but not an object"),
        ("header", ["nonsense"], "--header 'nonsense' is not a header"),
        ("header", ["X-Key: ${KEY}"], "--header 'X-Key' holds an unexpanded variable"),
        ("stream", "maybe", "--stream 'maybe' is neither yes nor no"),
        ("max_tokens_field", "maxtokens", "use one of max_tokens, max_completion_tokens"),
        ("unique_prompts", "yes", "--unique-prompts 'yes' is unknown: use one of "),
        ("timeout_idle", "soon", "--timeout-idle 'soon' is not a duration"),
        ("timeout_idle", "-5s", "--timeout-idle '-5s' is not a duration"),
        ("seed", "x", "--seed 'x' is not a whole number"),
    ],
)
def test_nonsense_names_the_option_and_what_to_write(name, value, words):
    """Each bad value is one line with option, value and a way out."""
    with pytest.raises(SetupError) as error:
        read_settings({"model": "m", name: value}, {})
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_first_variable_that_is_set_gives_the_key():
    """LLMLOAD_API_KEY comes before OPENAI_API_KEY; empty ones are no key."""
    assert api_key({}) is None
    assert api_key({"OPENAI_API_KEY": "sk-b"}) == "sk-b"
    assert api_key({"LLMLOAD_API_KEY": " sk-a ", "OPENAI_API_KEY": "sk-b"}) == "sk-a"
    assert api_key({"LLMLOAD_API_KEY": "", "OPENAI_API_KEY": "sk-b"}) == "sk-b"


@pytest.mark.parametrize("key", ["${OPENAI_API_KEY}", "$KEY", "$(cat key)", "%KEY%", "<your key>"])
def test_literal_variable_is_no_key(key):
    """A key that was never expanded is refused by name."""
    with pytest.raises(SetupError, match="LLMLOAD_API_KEY is the literal text"):
        api_key({"LLMLOAD_API_KEY": key})


def test_broken_key_is_not_printed():
    """A key with white space in it is refused without being shown."""
    with pytest.raises(SetupError) as error:
        api_key({"LLMLOAD_API_KEY": "sk-secret part"})
    assert "secret" not in str(error.value)


def test_nothing_secret_is_in_what_is_shown_of_settings():
    """The key and header values never reach run.json, nor a repr."""
    settings = read_settings({"model": "m", "header": ["X-Auth: tok-123456"]}, {"LLMLOAD_API_KEY": "sk-zzz99999"})
    assert settings.shown()["api_key"] is True
    assert settings.shown()["headers"] == {"X-Auth": "***"}
    assert "sk-zzz99999" not in repr(settings) + str(settings.shown())


def test_redactor_of_a_run_knows_all_its_secrets():
    """Key, header values, user, password and query values are hidden in any message."""
    settings = read_settings({"model": "m", "header": ["X-Auth: Custom tok-123456"]}, {"LLMLOAD_API_KEY": "keykeykey"})
    target = Target.parse("http://al1ce:s3cret@h/v1?code=qqqq1", path="/chat/completions")
    said = "keykeykey tok-123456 al1ce s3cret qqqq1 fine"
    assert settings.redactor(target).clean(said) == "*** *** *** *** *** fine"


def test_nearest_name_comes_first():
    """The names that were probably meant stand first, none is left out."""
    assert nearest("lama-3-8b", ["mistral", "llama-3-70b", "llama-3-8b"]) == [
        "llama-3-8b",
        "llama-3-70b",
        "mistral",
    ]

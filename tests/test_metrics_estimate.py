"""Estimates of token counts follow the rule that is documented for each script."""

from __future__ import annotations

import pytest

from llmload.metrics.estimate import estimate_tokens


def test_two_hundred_chinese_characters_are_two_hundred_tokens() -> None:
    """UNI-05: text without spaces is not one word."""
    assert estimate_tokens("你好世界" * 50, 40) == 200


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("abcd efgh\n\tijkl", 3),
        ("Привет", 2),
        ("ひらがな", 4),
        ("カタカナ", 4),
        ("한국어", 3),
        ("你好，世界。", 6),
        ("𠀀𠀁", 2),
        ("GPT模型", 3),
        ("中\u3000文", 2),
        ("    ", 0),
    ],
)
def test_an_estimate_follows_the_script(text: str, tokens: int) -> None:
    """UNI-05: one token a CJK character, one for four others, none for white space, rounded up."""
    assert estimate_tokens(text, 0) == tokens


def test_an_event_holds_at_least_one_token() -> None:
    """TOK-11, USE-02: 100 events of one space are estimated as 100 tokens."""
    assert estimate_tokens(" " * 100, 100) == 100
    assert estimate_tokens("abcdefgh", 1) == 2

"""How many tokens a text has, when the server does not say. Pure maths, no tokenizer.

Every number that comes from here is marked as an estimate (`usage_source`), and is never mixed with a
server's.
"""

from __future__ import annotations

import math
import re

CHARACTERS_PER_TOKEN = 4
"""For text in letters: the rule of thumb that OpenAI gives for English ("1 token ~= 4 chars"). Other
alphabets and program text take more tokens than that."""

# Han with its extensions and compatibility forms, kana, bopomofo, hangul (syllables and letters), CJK and
# full-width punctuation. Common vocabularies lie on both sides of one token a character here; not measured
# for any one.
_ONE_TOKEN_EACH = re.compile(
    "[\u1100-\u11ff\u2e80-\u2fdf\u3001-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\ufe30-\ufe4f\uff01-\uffef\U00020000-\U0003ffff]"
)


def estimate_tokens(text: str, events: int) -> int:
    """Estimate the output tokens of one answer.

    Each Chinese, Japanese or Korean character counts as one token, every four of the other characters that
    are no white space as one more, rounded up. An event holds at least one token, so there are never fewer
    than `events`.

    >>> estimate_tokens("Red, green and blue.", 3)
    5
    >>> estimate_tokens("你好", 1)
    2

    Args:
        text: all generated text: reasoning, answer and tool calls.
        events: events that carried generated text.
    """
    solid = "".join(text.split())
    single = len(_ONE_TOKEN_EACH.findall(solid))
    return max(events, single + math.ceil((len(solid) - single) / CHARACTERS_PER_TOKEN))

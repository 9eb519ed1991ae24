"""Synthetic prompts: text of a wanted length in tokens, the same for the same key.

Pure: no I/O, no clock. How long a text is in tokens depends on the server's tokenizer, which is not asked: the words
are short and common, so that most tokenizers make one token of each, with its space. What it really was is in the
server's usage, beside the plan.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from random import Random

BLOCK_TOKENS = 512
"""What one hash id of a Mooncake trace stands for."""

NONCE_TOKENS = 6
"""What a nonce such as `k3f9m2x7` is in tokens, about."""

_TEXT = """
time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother
area money story fact month lot right study book eye job word business issue side kind head house service friend
father power hour game line end member law car city community name president team minute idea information back
parent face others level office door health person art history result change morning reason research moment air
teacher force education foot age policy music market sense nation plan college interest experience effect use
class control field development role effort rate heart show leader light voice mind price report decision son
view relationship town road difference value building action season society tax director position player record
paper space ground form event official matter center couple site project activity star table need oil situation
cost industry figure street image phone data picture practice piece land product doctor wall worker news test
movie north love support technology step baby computer type attention film tree source organization hair look
century evidence window culture chance brother energy period course summer plant opportunity term letter
condition choice rule south floor material population call economy hospital church future bank west sport board
subject officer rest behavior performance top goal second bed order author fill focus agency nature color store
sound movement page concern series language response animal factor decade article east artist scene stock career
approach size dog fund media sign thought list individual quality pressure answer resource meeting success cup
amount ability staff character growth degree region television box training trade deal feeling standard bill
message analysis benefit section glass skill sister professor operation stage authority design sort knowledge
station strategy truth song example environment dark various wide deep cold short long early late high low young
old good bad new small large
"""
WORDS = tuple(_TEXT.split())
"""Each one token for most tokenizers, and none that a content filter would stop at."""


def synthetic_text(tokens: int, *, key: str) -> str:
    """Return a text of about so many tokens that shares no beginning with the text of another key.

    It opens with a nonce, so that not even the first token is shared, then come words in an order drawn from the key.

    Args:
        tokens: at least 1.
        key: e.g. seed, level and number of the request.
    """
    if tokens <= NONCE_TOKENS:
        return " ".join(_words(tokens, key))
    digest = hashlib.blake2b(key.encode(), digest_size=5).digest()
    nonce = base64.b32encode(digest).decode("ascii").lower()
    return " ".join([nonce, *_words(tokens - NONCE_TOKENS, key)])


def text_of_blocks(tokens: int, *, blocks: tuple[int, ...], key: str, block_tokens: int = BLOCK_TOKENS) -> str:
    """Return a text of about so many tokens that is put together from blocks.

    Texts that begin with the same ids begin with the same words, as prompts do whose prefix a server may have cached.
    The last block is cut where the tokens are used up.

    Args:
        tokens: at least 1.
        blocks: ids, as many as are needed for `tokens`.
        key: e.g. the seed: the same id stands for other words under another key.
    """
    words: list[str] = []
    for block in blocks:
        words += _block(f"{key}/{block}", block_tokens)
    return " ".join(words[:tokens])


def _words(count: int, key: str) -> list[str]:
    return Random(key).choices(WORDS, k=count)


@lru_cache(maxsize=4096)
def _block(key: str, tokens: int) -> tuple[str, ...]:
    return tuple(_words(tokens, key))

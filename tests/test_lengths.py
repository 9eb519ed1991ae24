"""Prompts of a wanted length: unlike each other from the first token on, and never the same again."""

from llmload.workload.lengths import PromptLengths


def texts(source, count):
    return [source.next().messages[0]["content"] for _ in range(count)]


def test_no_two_prompts_begin_alike():
    """The first token is a nonce: over two workers and three lengths no first word comes twice."""
    first = []
    for worker in ("0", "1"):
        source = PromptLengths(64, key=f"1/run/{worker}")
        for tokens in (64, 512, 2048):
            source.tokens = tokens
            first += [text.split()[0] for text in texts(source, 50)]
    assert len(set(first)) == len(first) == 300


def test_the_length_is_the_planned_one_in_words():
    """About a token a word, less what the nonce takes."""
    source = PromptLengths(1024, key="k")
    assert {len(text.split()) for text in texts(source, 10)} == {1019}
    assert source.next().id == "synthetic:1024"


def test_the_same_key_gives_the_same_prompts():
    """Repeatable within a run's key; another run has others, so that no cache knows them."""
    assert texts(PromptLengths(32, key="a"), 5) == texts(PromptLengths(32, key="a"), 5)
    assert not set(texts(PromptLengths(32, key="a"), 5)) & set(texts(PromptLengths(32, key="b"), 5))

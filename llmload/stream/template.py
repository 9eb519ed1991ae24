"""Reads that differ in one text only, as those of a streamed answer nearly always do.

A server that says the same around each piece of text lets its reads be understood without decoding each: they begin
and end with the same bytes, and what is in between is the text. No provider knowledge, no network, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import orjson

PROBE = "\u2603 llmload \u2603"
"""Stands for the text where a template is tried; no server's own words hold it."""

MOST = 64
"""Reads looked at together: work must not grow with the square of a batch in which many must be decoded."""


class Template:
    """What stands before and behind the text.

    Args:
        head: bytes before the text, up to the quote that begins it.
        tail: bytes behind it, from the quote on that ends it.
    """

    __slots__ = ("_head", "_tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head = head
        self._tail = tail

    @classmethod
    def of(cls, data: bytes, text: str, understand: Callable[[bytes], str | None]) -> Template | None:
        """Return the template of a read, None where it has none.

        A JSON string ends at its own quote, whatever it holds. So if another text in the same place is understood as
        that text and nothing else, then every text is.

        Args:
            data: a read that was understood as `text`.
            text: not empty.
            understand: returns the text that a read is understood as, None if it is not one text and nothing else.
        """
        try:
            quoted = orjson.dumps(text)
        except TypeError:  # half a character
            return None
        at = data.find(quoted)
        while at >= 0:
            head, tail = data[: at + 1], data[at + len(quoted) - 1 :]
            if understand(head + PROBE.encode() + tail) == PROBE:
                return cls(head, tail)
            at = data.find(quoted, at + 1)
        return None

    def texts(self, pairs: Sequence[tuple[bytes, int]], first: int) -> tuple[Sequence[str], Sequence[int]]:
        """Return the texts and the arrivals of reads from number `first` on, at most up to one that must be decoded.

        Args:
            pairs: reads, each its bytes and its arrival.
        """
        head, tail = self._head, self._tail
        begin, end = len(head), -len(tail)
        datas, arrivals_ns = zip(*pairs[first : first + MOST], strict=True)
        quoted = [data[begin:end] for data in datas]
        # one look at all: what is put together again is no shorter than it was, so if all is the same, each is
        if head + (tail + head).join(quoted) + tail != b"".join(datas):
            fit = takewhile(lambda data: data[:begin] == head and data[end:] == tail, datas)
            quoted = [data[begin:end] for data in fit]
        plain = b'","'.join(quoted)
        if plain.count(b'"') != 2 * len(quoted) - 2 or not all(quoted):
            quoted = list(takewhile(lambda text: text and b'"' not in text, quoted))
            plain = b'","'.join(quoted)
        try:
            # one decoding for all; a backslash at the end of a text joins it with the next one and makes one less
            texts: list[str] = orjson.loads(b'["%s"]' % plain) if quoted else []
        except ValueError:
            return [], []
        return (texts, arrivals_ns[: len(texts)]) if len(texts) == len(quoted) else ([], [])

"""Reads that differ in one text only, as those of a streamed answer nearly always do.

A server that says the same around each piece of text lets its reads be understood without decoding each: they begin
and end with the same bytes, and what is in between is the text. No provider knowledge, no network, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, count, takewhile
from operator import ne

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
        datas, arrivals_ns = zip(*pairs[first : first + MOST], strict=True)
        quoted = [data.removeprefix(head).removesuffix(tail) for data in datas]
        around, texts_bytes = len(head) + len(tail), b"".join(quoted)
        if len(texts_bytes) + len(quoted) * around != len(b"".join(datas)):  # one of them is not of this template
            fits = map(around.__add__, map(len, quoted))
            quoted = quoted[: next(compress(count(), map(ne, fits, map(len, datas))))]
        if b'"' in texts_bytes or not all(quoted):
            quoted = list(takewhile(lambda text: text and b'"' not in text, quoted))
        try:
            # one decoding for all; a backslash at the end of a text joins it with the next one and makes one less
            texts: list[str] = orjson.loads(b'["%s"]' % b'","'.join(quoted)) if quoted else []
        except ValueError:
            return [], []
        return (texts, arrivals_ns[: len(texts)]) if len(texts) == len(quoted) else ([], [])

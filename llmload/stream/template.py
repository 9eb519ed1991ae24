"""Reads that differ in one text only, as those of a streamed answer nearly always do.

A server that says the same around each piece of text lets its reads be understood without decoding each: they begin
and end with the same bytes, and what is in between is the text. No provider knowledge, no network, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import repeat, takewhile
from operator import and_, contains, eq, itemgetter

import orjson

PROBE = "\u2603 llmload \u2603"
"""Stands for the text where a template is tried; no server's own words hold it."""


class Template:
    """What stands before and behind the text.

    Args:
        head: bytes before the text, up to the quote that begins it.
        tail: bytes behind it, from the quote on that ends it.
    """

    __slots__ = ("_begin", "_between", "_end", "_head", "_tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head, self._tail = head, tail
        # these run once for each token: no function of Python's own
        self._begin, self._end = itemgetter(slice(len(head))), itemgetter(slice(-len(tail), None))
        self._between = itemgetter(slice(len(head), -len(tail)))

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
        quoted = json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
        at = data.find(quoted)
        while at >= 0:
            head, tail = data[: at + 1], data[at + len(quoted) - 1 :]
            if understand(head + PROBE.encode() + tail) == PROBE:
                return cls(head, tail)
            at = data.find(quoted, at + 1)
        return None

    def texts(self, pairs: Sequence[tuple[bytes, int]], first: int) -> tuple[Sequence[str], Sequence[int]]:
        """Return the texts and the arrivals of the reads from number `first` on, up to one that must be decoded.

        Args:
            pairs: reads, each its bytes and its arrival.
        """
        datas, arrivals_ns = zip(*(pairs[first:] if first else pairs), strict=True)
        heads = map(eq, map(self._begin, datas), repeat(self._head))
        tails = map(eq, map(self._end, datas), repeat(self._tail))
        fits = list(map(and_, heads, tails))
        if not fits[0]:
            return [], []
        count = fits.index(False) if False in fits else len(fits)
        quoted = list(map(self._between, datas[:count]))
        if not all(quoted) or any(map(contains, quoted, repeat(b'"'))):
            quoted = list(takewhile(lambda text: text and b'"' not in text, quoted))
        try:
            # one decoding for all; a backslash at the end of a text joins it with the next one and makes one less
            texts: list[str] = orjson.loads(b'["%s"]' % b'","'.join(quoted)) if quoted else []
        except ValueError:
            return [], []
        return (texts, arrivals_ns[: len(texts)]) if len(texts) == len(quoted) else ([], [])

"""The timeline of one answer: what arrived when, which of it was the first token, how it ended.

No I/O, no clock, no provider knowledge: stamps and deltas are handed in. All times are monotonic nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter, sub
from typing import NamedTuple

BUFFERED_GAP_NS = 2_000_000
"""Token events closer than this to the one before count as a burst."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server reports them; None where it says nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Delta(NamedTuple):
    """What one event adds to an answer, to all of its choices together.

    `answer`, `reasoning` and `tool` are generated text; an event in which all three are empty carries no
    token. `finish_reasons` are pairs of a choice's index and its reason; `usage_choice` is the choice that
    `usage` is about, None where the event does not say. `error` is the provider's message when the event is
    an error; `done` is the protocol's end marker. A tuple, because one is made for every event.
    """

    answer: str = ""
    reasoning: str = ""
    tool: str = ""
    finish_reasons: tuple[tuple[int, str], ...] = ()
    usage: Usage | None = None
    usage_choice: int | None = None
    error: str | None = None
    done: bool = False
    malformed: bool = False
    """The event could not be understood. One such event is counted; a stream of nothing else is a failure."""

    @property
    def is_token(self) -> bool:
        return bool(self.answer or self.reasoning or self.tool)


@dataclass(slots=True)
class Timeline:
    """Collects the deltas of one answer in the order of their arrival.

    >>> t = Timeline()
    >>> t.add(Delta(answer="Hi"), 5)
    >>> t.add(Delta(finish_reasons=((0, "stop"),)), 9)
    >>> t.first_token_ns, t.last_token_ns, t.ending(complete=True)
    (5, 5, None)
    """

    arrivals_ns: list[int] = field(default_factory=list)
    """Arrivals of the reads that carried tokens, in order; the gaps between them are the ITL samples."""
    events_per_read: list[int] = field(default_factory=list)
    """How many token events each of these reads held. Only the last of them has a known arrival: the others came
    between the read before and this one."""
    first_answer_ns: int | None = None
    """Arrival of the first text of the answer itself; a tool call is one, reasoning is not."""
    finish_reasons: dict[int, str] = field(default_factory=dict)
    usages: dict[int | None, Usage] = field(default_factory=dict)
    """The last counts given for each choice; under None the last ones given at all."""
    error: str | None = None
    """The provider's first error message."""
    done: bool = False
    events: int = 0
    malformed_events: int = 0
    _answer: list[str] = field(default_factory=list)
    _other: list[str] = field(default_factory=list)
    _understood: bool = False
    _text_after_finish: bool = False
    _finished: set[int] = field(default_factory=set)
    _usage_choice: int | None = None

    def add(self, delta: Delta | str, arrival_ns: int, tail: bool = False) -> None:
        """Take one delta.

        Args:
            delta: what the event added; a text that is not empty stands for `Delta(text)`, at a fraction of its cost.
            arrival_ns: monotonic arrival of the read that completed the event, not before the last one; events with
                the same arrival shared a read.
            tail: the stream ended inside the event. If it cannot be understood, that is because it was cut:
                it is not counted as malformed, and the answer's ending shows what is missing.
        """
        if isinstance(delta, str):
            self.events += 1
            self._understood = True
            self._add_text(delta, arrival_ns)
            return
        if tail and delta.malformed:
            return
        self.events += 1
        if delta.malformed:
            self.malformed_events += 1
            return
        if delta.done:
            self.done = True
        else:
            self._understood = True
        if delta.error is not None and self.error is None:
            self.error = delta.error
        if delta.is_token:
            self._add_token(delta, arrival_ns)
        if delta.finish_reasons:
            self.finish_reasons.update(delta.finish_reasons)
            self._finished.update(choice for choice, _ in delta.finish_reasons)
            self._text_after_finish = False
        if delta.usage is not None:
            self._add_usage(delta.usage, delta.usage_choice)

    def add_texts(self, texts: Sequence[str], arrivals_ns: Sequence[int]) -> None:
        """Take events that are one text each, none of them empty; does what `add` would do for each of them."""
        arrivals = self.arrivals_ns
        if not arrivals or arrivals_ns[0] == arrivals[-1] or len(set(arrivals_ns)) < len(arrivals_ns):
            for text, arrival_ns in zip(texts, arrivals_ns, strict=True):
                self.add(text, arrival_ns)
            return
        self.events += len(texts)
        self._understood = self._text_after_finish = True
        arrivals += arrivals_ns
        self.events_per_read += [1] * len(texts)
        self._answer += texts
        if self.first_answer_ns is None:
            self.first_answer_ns = arrivals_ns[0]

    def _add_text(self, answer: str, arrival_ns: int) -> None:
        """Take a token event: this text of the answer, empty where the token is of another kind."""
        if self.arrivals_ns and arrival_ns == self.arrivals_ns[-1]:
            self.events_per_read[-1] += 1
        else:
            self.arrivals_ns.append(arrival_ns)
            self.events_per_read.append(1)
        if answer:
            self._answer.append(answer)
            if self.first_answer_ns is None:
                self.first_answer_ns = arrival_ns
        self._text_after_finish = True

    def _add_token(self, delta: Delta, arrival_ns: int) -> None:
        if delta.tool and self.first_answer_ns is None:
            self.first_answer_ns = arrival_ns
        if delta.reasoning or delta.tool:
            self._other.append(delta.reasoning + delta.tool)
        self._add_text(delta.answer, arrival_ns)

    def _add_usage(self, usage: Usage, choice: int | None) -> None:
        # A server that reports each choice by itself (llama.cpp) does so when the choice has finished, in a
        # chunk that names none. So counts that come when exactly one choice has finished since the last such
        # counts are taken for that choice's. Whether they add up is decided when all is known, in `usage`.
        if choice is None:
            if len(self._finished) == 1:
                (self._usage_choice,) = self._finished
            elif self._finished:
                self._usage_choice = None
            self._finished.clear()
        else:
            self._usage_choice = choice
        self.usages[None] = _merged(self.usages.get(None), usage)
        if self._usage_choice is not None:
            self.usages[self._usage_choice] = _merged(self.usages.get(self._usage_choice), usage)

    @property
    def first_token_ns(self) -> int | None:
        """Arrival of the first generated text of any kind."""
        return self.arrivals_ns[0] if self.arrivals_ns else None

    @property
    def last_token_ns(self) -> int | None:
        """Arrival of the last generated text of any kind."""
        return self.arrivals_ns[-1] if self.arrivals_ns else None

    @property
    def token_events(self) -> int:
        """Events that carried generated text."""
        return sum(self.events_per_read)

    @property
    def bursts(self) -> int:
        """Token events that shared a read with, or came less than `BUFFERED_GAP_NS` after, the one before."""
        gaps_ns = map(sub, self.arrivals_ns[1:], self.arrivals_ns)
        return sum(map(BUFFERED_GAP_NS.__gt__, gaps_ns)) + self.token_events - len(self.arrivals_ns)

    @property
    def text(self) -> str:
        """The answer's text, without reasoning and tool calls; of several choices, as they came."""
        return _joined(self._answer)

    @property
    def generated(self) -> str:
        """All generated text, of every kind, for estimates of its length in tokens."""
        return _joined([*self._answer, *self._other])

    @property
    def finish_reason(self) -> str | None:
        """The finish reason; of several choices the worst: `error` first, `stop` last."""
        return min(self.finish_reasons.values(), key=_badness, default=None)

    @property
    def usage(self) -> Usage | None:
        """The server's token counts: the last ones it gave, added up where it reported each choice by itself.

        The sum is taken when two or more choices finished and each of them has counts of its own, unless the
        server then gave counts for all together. A server that repeats a running total after each choice
        looks the same as one that reports each choice, and is added up wrongly; none is known that does.
        """
        several = len(self.finish_reasons) > 1 and self.finish_reasons.keys() <= self.usages.keys()
        if self._usage_choice is None or not several:
            return self.usages.get(None)
        each = [usage for choice, usage in self.usages.items() if choice is not None]
        return Usage(
            input_tokens=each[-1].input_tokens,
            output_tokens=_added([usage.output_tokens for usage in each]),
            cached_tokens=each[-1].cached_tokens,
            reasoning_tokens=_added([usage.reasoning_tokens for usage in each]),
        )

    def ending(self, *, complete: bool) -> str | None:
        """Say how the answer ended.

        Args:
            complete: whether the response's body ended as HTTP says it should.

        Returns:
            A failure kind, or None for a good answer. A finish reason or the protocol's end marker makes an
            answer whole, however the body ended, except when the body broke off while another choice went on.
        """
        if self.error is not None or "error" in self.finish_reasons.values():
            return "provider_error"
        if self.malformed_events and not self._understood:
            return "bad_stream"
        if self.finish_reason == "content_filter":
            return "content_filter"
        broken = self._text_after_finish and not complete
        if not self.done and (broken or not self.finish_reasons):
            return "truncated"
        return None if self.arrivals_ns else "empty"


_counts = attrgetter("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def _badness(reason: str) -> tuple[int, str]:
    ranks = {"error": 0, "content_filter": 1, "tool_calls": 3, "function_call": 3, "stop": 4}
    return ranks.get(reason, 2), reason


def _merged(old: Usage | None, new: Usage) -> Usage:
    """Return `new`, with the old counts where it says nothing: a usage may come in parts."""
    if old is None:
        return new
    pairs = zip(_counts(old), _counts(new), strict=True)
    return Usage(*[was if now is None else now for was, now in pairs])


def _added(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _joined(pieces: list[str]) -> str:
    r"""Return the text; the halves of a character (`"\ud83d"`, `"\ude00"`) may come in two events.

    Halves that stay alone become U+FFFD: they could not be encoded.
    """
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text

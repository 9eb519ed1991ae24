"""The two values that cross every edge: what is asked for and what came of it.

No I/O, no clock. Times are seconds as floats, counts are integers, None means "not defined for
this request" and is never written as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Outcome = Literal["ok", "failed", "cancelled"]
BUFFERED_SHARE = 0.8
"""Above this share of bursts a stream is called buffered, and its gaps say nothing about tokens."""

UsageSource = Literal["server", "tokenizer", "estimate"]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat completion to ask for.

    `messages` is a list in the OpenAI shape (`{"role": ..., "content": ...}`). `extra_body` is merged
    into the JSON body last, so that it can override everything. `intended_ns` is the monotonic time at
    which an open-loop schedule wanted the request to start; None in a closed loop.
    """

    messages: Sequence[Mapping[str, Any]]
    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    stream: bool = True
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    scenario: str = "chat"
    prompt: str | None = None
    """Identity of the prompt in its source, e.g. `builtin:17` or `prompts.jsonl:3`; not its text."""
    step: str | None = None
    intended_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The record of one finished request, whatever its outcome.

    `origin` below is the moment the first byte of the request was handed to the kernel, moved back by the
    DNS, connect and TLS time where this request opened the connection; every duration counts from it.
    Formulas stand in `llmload.metrics.definitions`.
    """

    # identity
    id: str
    scenario: str
    model: str
    worker: str
    step: str | None = None
    prompt: str | None = None
    started_unix_ns: int
    """Wall-clock time of the start: an anchor taken once per process plus monotonic time, so that a stepped
    clock moves nothing."""
    stream: bool = True

    # outcome
    outcome: Outcome
    kind: str | None = None
    """One of `errors.FAILURE_KINDS` when `outcome` is `failed`, else None."""
    status: int | None = None
    message: str | None = None
    """Scrubbed, on one line, at most 300 characters."""
    finish_reason: str | None = None
    good: bool | None = None
    """Whether it met every objective of --goodput; None where none was set."""

    # times, seconds
    ttft_s: float | None = None
    ttfa_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    closed_s: float | None = None
    cut_s: float | None = None
    """Of a cancelled request: how long it had been under way when we cut it off."""
    ttft_intended_s: float | None = None
    e2e_intended_s: float | None = None
    output_tps: float | None = None
    written_s: float | None = None
    headers_s: float | None = None
    first_byte_s: float | None = None
    dns_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    pool_wait_s: float | None = None
    send_delay_s: float | None = None
    client_lag_s: float | None = None
    read_delay_s: float | None = None
    ttft_is_bound: bool = False
    """True when the first token shared a read with later ones: its true arrival may be earlier."""

    # tokens
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_source: UsageSource | None = None
    usage_suspect: bool = False
    """True when the server's usage contradicts what was received (0 tokens beside text, tokens without text)."""

    # the token timeline
    token_events: int = 0
    coalesced_events: int = 0
    """Token events that shared a read with a later one: their own arrival is unknown."""
    burst_share: float | None = None
    gaps_us: Sequence[int] = ()
    """ITL samples: microseconds between successive reads that carried tokens, in order."""
    events_per_read: Sequence[int] | None = None
    """Token events of each such read, `len(gaps_us) + 1` numbers; None when every one is 1."""

    # the wire
    reused: bool | None = None
    reconnects: int = 0
    """How often the request was sent anew because a kept connection turned out to be closed."""
    malformed_events: int = 0
    invalid_bytes: int = 0
    compressed: bool = False
    received_bytes: int = 0
    stamps: str = "read"
    """Where arrival times come from: `read` (user space, after the read) or `kernel`."""

    # not recorded
    text: str | None = field(default=None, repr=False, compare=False)
    """The answer, for a locustfile that goes on with it; never written to a record."""

    @property
    def buffered(self) -> bool:
        """Whether something collected the stream before it came: gaps between its tokens say nothing."""
        return self.burst_share is not None and self.burst_share > BUFFERED_SHARE

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict without `text` and without undefined values."""
        # not `asdict`: it copies every gap by itself, which costs more than measuring the answer did
        data = {name: getattr(self, name) for name in _RECORDED}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in data.items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Completion:
        """Return the completion that `to_dict` was called on; unknown keys are ignored.

        Raises:
            TypeError: a required key is missing.
        """
        known = {key: value for key, value in data.items() if key in _RECORDED}
        for key in ("gaps_us", "events_per_read"):
            if known.get(key) is not None:
                known[key] = tuple(known[key])
        return cls(**known)


_RECORDED = {one.name: None for one in fields(Completion) if one.name != "text"}

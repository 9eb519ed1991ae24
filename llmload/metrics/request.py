"""The metrics of one request, from its stamps and its timeline.

No I/O, no clock. Nanoseconds in, seconds out (ITL gaps: whole microseconds). What is not defined is None.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import sub
from typing import Any

from llmload.records import BUFFERED_SHARE
from llmload.stamps import Stamps
from llmload.timeline import Timeline, Usage

Estimate = Callable[[str, int], int]
"""(generated text, token events) -> tokens."""


def measure(
    stamps: Stamps, timeline: Timeline, *, stream: bool, open_loop: bool, estimate: Estimate | None = None
) -> dict[str, Any]:
    """Return the measured fields of a `Completion`, by name: all its times except `client_lag_s`, its token
    counts, and its token timeline.

    Example: origin at 0 s, tokens at 5.00, 5.02 and 5.04 s, usage of 3 tokens: `ttft_s` 5.0, `gaps_us`
    (20000, 20000), `tpot_s` 0.02, `e2e_s` 5.04.

    Args:
        stamps: when the client did what.
        timeline: what arrived when; of an answer that was not streamed, one delta at the arrival of its last
            byte.
        stream: whether the answer was asked for as a stream; if not, TTFT, ITL and TPOT do not exist.
        open_loop: whether `stamps.asked_ns` is an intended start.
        estimate: counts tokens where the server does not; None takes `metrics.estimate.estimate_tokens`.
    """
    tokens = _tokens(timeline, stream, estimate or _default_estimate)
    timed = _stream(timeline) if stream else {}
    # tokens that something collected on their way came faster than they were made
    buffered = (timed.get("burst_share") or 0) > BUFFERED_SHARE
    tpot_s = _tpot_s(timeline, tokens["output_tokens"]) if stream and not buffered else None
    times = _times(stamps, timeline, stream)
    delay_s = times["send_delay_s"] if open_loop else None
    return {
        **times,
        "tpot_s": tpot_s,
        "output_tps": 1 / tpot_s if tpot_s else None,
        "ttft_intended_s": _added(delay_s, times["ttft_s"]),
        "e2e_intended_s": _added(delay_s, times["e2e_s"]),
        **tokens,
        **timed,
    }


def _times(stamps: Stamps, timeline: Timeline, stream: bool) -> dict[str, float | None]:
    origin = stamps.origin_ns
    return {
        "ttft_s": _seconds(timeline.first_token_ns, origin) if stream else None,
        "ttfa_s": _seconds(timeline.first_answer_ns, origin) if stream else None,
        "e2e_s": _seconds(timeline.last_token_ns, origin),
        "closed_s": _seconds(stamps.closed_ns, origin),
        "written_s": _seconds(stamps.written_ns, origin),
        "headers_s": _seconds(stamps.headers_ns, origin),
        "first_byte_s": _seconds(stamps.first_byte_ns, origin),
        "dns_s": _seconds(stamps.dns_ns, 0),
        "connect_s": _seconds(stamps.connect_ns, 0),
        "tls_s": _seconds(stamps.tls_ns, 0),
        "pool_wait_s": _seconds(stamps.pool_wait_ns, 0),
        "read_delay_s": _seconds(stamps.read_delay_ns, 0),
        # sent - asked - set-up; the origin already is sent - set-up.
        "send_delay_s": _seconds(origin, stamps.asked_ns),
    }


def _tpot_s(timeline: Timeline, output_tokens: int | None) -> float | None:
    """(last - first) / (n - 1); None for n < 2, and where all tokens came in one read and no time passed."""
    if output_tokens is None or output_tokens < 2 or len(timeline.arrivals_ns) < 2:
        return None
    return (timeline.arrivals_ns[-1] - timeline.arrivals_ns[0]) / (output_tokens - 1) / 1e9


def _stream(timeline: Timeline) -> dict[str, Any]:
    """The token timeline: gaps between reads, what shared a read, and the share of bursts.

    The denominator of `burst_share` is token events - 1: the first has none before it to be close to, so a
    stream that came in one piece has exactly 1.0.
    """
    arrivals_ns, events_per_read, events = timeline.arrivals_ns, timeline.events_per_read, timeline.token_events
    # Rounded from the first arrival on, not gap by gap, so that the gaps add up to last - first.
    zero_ns = arrivals_ns[0] - 500 if arrivals_ns else 0
    offsets_us = [(at_ns - zero_ns) // 1000 for at_ns in arrivals_ns]
    return {
        "ttft_is_bound": bool(arrivals_ns) and events_per_read[0] > 1,
        "token_events": events,
        "coalesced_events": events - len(arrivals_ns),
        "burst_share": timeline.bursts / (events - 1) if events > 1 else None,
        "gaps_us": tuple(map(sub, offsets_us[1:], offsets_us)),
        "events_per_read": tuple(events_per_read) if events > len(arrivals_ns) else None,
    }


def _tokens(timeline: Timeline, stream: bool, estimate: Estimate) -> dict[str, Any]:
    """Token counts from usage, else estimated; `usage_source` says where `output_tokens` comes from.

    Usage that contradicts what arrived is suspect (USE-10). 0 tokens beside text: the text is estimated.
    Tokens without text: nothing arrived that could be counted or timed, so `output_tokens` is None.
    """
    usage = timeline.usage or Usage()
    received, counted = bool(timeline.arrivals_ns), usage.output_tokens
    # an end of text at once counts as one token, and reasoning may be counted but never streamed
    unseen = (counted or 0) - (usage.reasoning_tokens or 0)
    suspect = counted == 0 if received else unseen > 1
    source: str | None = "server"
    if received and not counted:
        counted, source = estimate(timeline.generated, timeline.token_events if stream else 0), "estimate"
    if not received or not counted:
        counted, source = None, None
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": counted,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "usage_source": source,
        "usage_suspect": suspect,
    }


def _default_estimate(text: str, events: int) -> int:
    from llmload.metrics.estimate import estimate_tokens

    return estimate_tokens(text, events)


def _seconds(at_ns: int | None, since_ns: int | None) -> float | None:
    return None if at_ns is None or since_ns is None else (at_ns - since_ns) / 1e9


def _added(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second

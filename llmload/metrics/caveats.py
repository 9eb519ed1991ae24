"""What a reader must know before trusting a summary, as plain sentences.

No I/O, no clock. The summary's own numbers in, sentences out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmload.metrics.arrivals import arrival_caveats

TOKENS_PER_EVENT = 1.2
"""From here on an event is no token, and gaps between events are not what a token takes."""

REPEATED_SHARE = 0.1
"""Above this share of repeated prompts a server's prefix cache is what is measured (DAT-01)."""


def caveats(summary: Mapping[str, Any]) -> list[str]:
    """Return one sentence per doubt, the gravest first; an empty list for a clean run."""
    return [
        *_about_requests(summary),
        *arrival_caveats(summary),
        *_about_tokens(summary),
        *_about_streams(summary),
        *_about_range(summary),
    ]


def _about_requests(summary: Mapping[str, Any]) -> Iterator[str]:
    ledger = summary["ledger"]
    if summary["run"]["load"]["insecure"]:
        yield "The server's certificate was not verified (--insecure)."
    if raised := summary["run"]["load"]["exceptions"]:
        yield f"The locustfile raised {raised} exceptions: users that met them sent less, or nothing."
    if ledger["failed"] and ledger["ok"]:
        yield f"{_of(ledger['failed'], ledger['started'])} requests failed: latencies are those of the others."
    if ledger["cancelled"]:
        cut = _of(ledger["cancelled"], ledger["started"])
        yield f"{cut} requests were cut off by us: how long they would have taken is in no latency."
    if ledger["ok"] == 0:
        yield "No request ended ok, so there are no latencies."
    if ledger["in_flight"]:
        yield f"{_of(ledger['in_flight'], ledger['started'])} started requests have no recorded end."
    internal = sum(row["count"] for row in summary["failures"] if row["kind"] == "internal")
    if internal:
        yield f"{internal} requests failed by a fault of llmload itself (internal)."
    served, repeated = summary["prompts"]["served"], summary["prompts"]["repeated"]
    if served and repeated and repeated / served > REPEATED_SHARE:
        yield f"{_of(repeated, served)} prompts were repeats, which a server can answer from its prefix cache."
    if stale := summary["connections"]["stale"]:
        yield f"{stale} requests were sent again, because the server had ended the kept connection without a word."


def _about_tokens(summary: Mapping[str, Any]) -> Iterator[str]:
    ok, sources = summary["ledger"]["ok"], summary["usage_sources"]
    if estimated := sources.get("estimate", 0):
        yield (
            f"Output tokens of {_of(estimated, ok)} ok completions are estimated, because the server sent no "
            "usable usage; TPOT and tok/s of those are estimates too."
        )
    if suspect := summary["stream"]["usage_suspect"]:
        yield f"The usage of {suspect} completions contradicts what was received."


def _about_streams(summary: Mapping[str, Any]) -> Iterator[str]:
    stream, metrics, ok = summary["stream"], summary["metrics"], summary["ledger"]["ok"]
    if buffered := stream["buffered"]:
        rest = " and are left out of ITL and TPOT" if metrics["itl_s"]["n"] else ", so ITL and TPOT are not presented"
        yield f"{_of(buffered, ok)} ok streams were buffered on their way (over 80 % bursts){rest}."
    if ok and not stream["streamed"]:
        yield "No ok answer was streamed, so TTFT, ITL and TPOT do not exist."
    if bound := stream["ttft_is_bound"]:
        yield (
            f"TTFT of {bound} completions is an upper bound, and TPOT a lower one: "
            "the first token shared a read with later ones."
        )
    per_event = stream["tokens_per_event"]
    if per_event is not None and per_event > TOKENS_PER_EVENT:
        yield f"An event carried {per_event:.1f} tokens: ITL is per event, and TPOT a lower bound."
    if malformed := stream["malformed_events"]:
        yield f"{malformed} events could not be understood and were skipped."
    if invalid := stream["invalid_bytes"]:
        yield f"{invalid} bytes were not valid UTF-8 and were replaced."
    if compressed := stream["compressed"]:
        yield f"{compressed} answers came compressed, which delays tokens."


def _about_range(summary: Mapping[str, Any]) -> Iterator[str]:
    for name, row in summary["metrics"].items():
        if row["clamped"]:
            yield f"{row['clamped']} values of {name} were out of range and count at its edge."


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({part / whole:.1%})" if whole else "")

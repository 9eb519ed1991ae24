"""What two sides of a comparison do not have in common, as plain sentences: each may be the real cause.

Pure, no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmload.metrics.comparison import Facts

LENGTH_SHARE = 0.02
"""Mean lengths that differ by more than this share are said: they move every latency."""
REASON_SHARE = 0.05
"""The same for shares of finish reasons, usage sources and repeated prompts, of all answers."""

_PRIVATE = ("api_key", "headers", "run_dir", "slo", "strict")
"""Settings that change no number."""


def differences(base: Sequence[Facts], new: Sequence[Facts]) -> list[str]:
    """Return one sentence per doubt, the gravest first."""
    both = (*base, *new)
    return [
        *_unsound(both),
        *_settings(base, new),
        *_lengths(base, new),
        *_shares(base, new),
        *_windows(both),
    ]


def _unsound(runs: Sequence[Facts]) -> Iterator[str]:
    for one in runs:
        run, client = one.summary["run"], one.summary["client"]
        if run["valid"] is False:
            yield f"{one.name} is not valid: {'; '.join(run['reasons']) or 'it does not say why'}."
        if client["verdict"] in ("client", "mixed"):
            part = "the" if client["verdict"] == "client" else "part of the"
            yield f"{one.name}: {part} latency is the client's own ({client['why']})."


def _settings(base: Sequence[Facts], new: Sequence[Facts]) -> Iterator[str]:
    """Say each value that differs, on whatever side: rounds of one side must be alike, too."""
    both = [_flat(one.about) for one in (*base, *new)]
    for name in dict.fromkeys(key for one in both for key in one):
        was, now = (_values(name, side) for side in (both[: len(base)], both[len(base) :]))
        if set(was) != set(now) or len(was) > 1:
            yield f"{name} differs: {' / '.join(was)} against {' / '.join(now)}."


def _values(name: str, side: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(_shown(one.get(name)) for one in side))


def _shown(value: Any) -> str:
    text = "nothing" if value in (None, {}, [], "") else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _flat(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of run.json makes two runs the same test, by the words of a sentence."""
    settings, locust = about.get("settings") or {}, about.get("locust") or {}
    targets, versions = about.get("targets") or {}, about.get("versions") or {}
    return {
        "model": settings.get("model"),
        "the target": ", ".join(sorted(set(targets.values()))) or None,
        "the user classes": ", ".join(sorted(targets)) or None,
        "the number of users": locust.get("num_users"),
        "the run time": locust.get("run_time"),
        "the spawn rate": locust.get("spawn_rate"),
        "the prompts (their content)": about.get("prompts"),
        "the number of workers": len(about.get("workers") or {}) or None,
        "llmload's version": versions.get("llmload"),
        "the host": about.get("host"),
        **{
            f"the setting {name}": value
            for name, value in settings.items()
            if name not in _PRIVATE and name != "model" and not isinstance(value, dict)
        },
        **{
            f"the setting {name}.{key}": inner
            for name, value in settings.items()
            if name not in _PRIVATE and isinstance(value, dict)
            for key, inner in value.items()
        },
    }


def _lengths(base: Sequence[Facts], new: Sequence[Facts]) -> Iterator[str]:
    for name, label in (("input_tokens", "prompt"), ("output_tokens", "answer"), ("cached_tokens", "cached part")):
        was, now = _mean(base, name), _mean(new, name)
        if was is None or now is None:
            if was != now:
                side = "base" if was is None else "new"
                yield f"The length of the {label}s is not known of {side}."
        elif abs(now - was) > LENGTH_SHARE * max(was, now):
            yield f"The mean {label} differs: {was:,.1f} against {now:,.1f} tokens."


def _mean(side: Sequence[Facts], name: str) -> float | None:
    rows = [one.summary["metrics"][name] for one in side]
    known = [row["mean"] for row in rows if row["n"]]
    return sum(known) / len(known) if known else None


def _shares(base: Sequence[Facts], new: Sequence[Facts]) -> Iterator[str]:
    tables = {"usage source": "usage_sources", "finish reason": "finish_reasons", "arrival stamp": "stamps"}
    for what, section in tables.items():
        was, now = (_share_of([one.summary[section] for one in side]) for side in (base, new))
        for name in dict.fromkeys([*was, *now]):
            before, after = was.get(name, 0.0), now.get(name, 0.0)
            if was and now and abs(after - before) > REASON_SHARE:
                yield f"The {what} {name!r} differs: {before:.0%} against {after:.0%}."
    repeated = [[one.summary["prompts"] for one in side] for side in (base, new)]
    before, after = (
        sum(one["repeated"] or 0 for one in side) / (sum(one["served"] or 0 for one in side) or 1) for side in repeated
    )
    if abs(after - before) > REASON_SHARE:
        yield f"The share of repeated prompts differs: {before:.0%} against {after:.0%}."


def _share_of(tables: Sequence[Mapping[str, int]]) -> dict[str, float]:
    total = sum(sum(table.values()) for table in tables)
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: sum(table.get(name, 0) for table in tables) / total for name in names} if total else {}


def _windows(runs: Sequence[Facts]) -> Iterator[str]:
    for one in runs:
        steps = [step for step in (one.summary.get("sweep") or {}).get("steps", ()) if step["ledger"]["ok"]]
        if len(steps) > 1:
            yield f"{one.name} is a sweep over {len(steps)} levels, taken together: compare one of them with --step."
    without = [one.name for one in runs if one.summary["throughput"]["steady"] is None]
    if without and len(without) < len(runs):
        yield f"Rates of {', '.join(without)} are over the whole run, of the others over their steady part."

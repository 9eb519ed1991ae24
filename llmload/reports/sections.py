"""What several formats say of a run in the same words: verdicts, load, optional sections, settings. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmload.metrics.steps import WARMUP
from llmload.reports.numbers import MISSING, milliseconds, number, percent

CLIENT = {
    "server": ("good", "Client: fast enough", "the latency shown is the server's"),
    "mixed": ("doubt", "Client: in doubt", "part of the latency shown is the client's"),
    "client": ("bad", "THE CLIENT WAS THE LIMIT", "do not read its latency as the server's"),
    "unknown": ("doubt", "Client: unknown", "cannot say whether the client was the bottleneck"),
}
_VALID = {True: ("good", "✔ Valid run"), False: ("bad", "✘ Run not valid"), None: ("doubt", "? Not judged")}
_TABLES = ("settings", "locust", "versions", "targets", "prompts", "client")
_EXTRAS = {
    "arrivals": "Open loop",
    "goodput": "Goodput",
    "capacity": "Capacity",
    "excluded": "Left out of the numbers",
    "sinks": "Sinks",
}


def verdicts(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the verdicts on a run, each with a `tone` (good, doubt, bad), a `title` and a `text`."""
    return [_valid(summary), *_objectives(summary), _client(summary), _requests(summary)]


def _valid(summary: Mapping[str, Any]) -> dict[str, str]:
    tone, title = _VALID[summary["run"]["valid"]]
    return {"tone": tone, "title": title, "text": "; ".join(summary["run"]["reasons"]) or "nothing speaks against it"}


def _objectives(summary: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    objectives = summary.get("objectives") or []
    if not objectives:
        return
    missed = [one for one in objectives if not one["met"]]
    met = len(objectives) - len(missed)
    yield {
        "tone": "bad" if missed else "good",
        "title": f"{'✘' if missed else '✔'} {met} of {len(objectives)} objectives met",
        "text": "; ".join(f"{one['text']}: {one['why']}" for one in missed[:5]) or "none missed",
    }


def _client(summary: Mapping[str, Any]) -> dict[str, str]:
    tone, title, text = CLIENT[summary["client"]["verdict"]]
    return {"tone": tone, "title": title, "text": f"{text} ({summary['client']['why']})"}


def _requests(summary: Mapping[str, Any]) -> dict[str, str]:
    ledger = summary["ledger"]
    failed, started = ledger["failed"], ledger["started"]
    output = summary["throughput"]["output_throughput"]
    metrics = summary["metrics"]
    opened = bool(metrics["ttft_intended_s"]["n"])  # in an open loop latency counts from the intended start
    p95 = milliseconds(metrics["ttft_intended_s" if opened else "ttft_s"]["p95"])
    return {
        "tone": "bad" if failed and not ledger["ok"] else "doubt" if failed or not started else "good",
        "title": f"{ledger['ok']:,} ok, {failed:,} failed of {started:,}",
        "text": f"{number(output)} output tok/s, TTFT p95 {p95} ms",
    }


def failed_where(row: Mapping[str, Any], scenarios: Mapping[str, Any]) -> str:
    """Return where the failures of one kind happened: scenarios where there are several, steps where there are some.

    >>> failed_where({"count": 9, "where": [{"scenario": "Chat", "step": "50", "count": 7}]}, {"Chat": {}})
    'step 50: 7; elsewhere: 2'
    """
    rest = row["count"] - sum(place["count"] for place in row["where"])
    named = [f"{_place(place, several=len(scenarios) > 1)}: {place['count']:,}" for place in row["where"]]
    return "; ".join([*named, f"elsewhere: {rest:,}"] if named and rest else named)


def _place(place: Mapping[str, Any], *, several: bool) -> str:
    step = "no step" if place["step"] is None else place["step"] if place["step"] == WARMUP else f"step {place['step']}"
    return step if not several else place["scenario"] if place["step"] is None else f"{place['scenario']}, {step}"


def load_text(load: Mapping[str, Any]) -> str:
    """Return what was asked of whom in one line."""
    parts = [
        None if load["users"] is None else f"{load['users']:,} users",
        load["model"] and f"model {load['model']}",
        None if load["max_tokens"] is None else f"at most {load['max_tokens']:,} tokens",
        {True: "streamed", False: "not streamed", None: None}[load["stream"]],
    ]
    return ", ".join(part for part in parts if part) + "".join(f" → {target}" for target in load["targets"]) or MISSING


def extras(summary: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the optional sections of a summary as (title, rows), in plain form."""
    there = {**summary, "sinks": _worth_a_word(summary.get("sinks") or {})}
    return [(title, list(_rows(there[name]))) for name, title in _EXTRAS.items() if there.get(name)]


def _worth_a_word(sinks: Mapping[str, Any]) -> dict[str, Any]:
    """The record is always there; it is only told of when something is missing in it."""
    return {name: one for name, one in sinks.items() if name != "record" or one["dropped"] or one["error"]}


def settings_tables(info: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return what run.json says of a run as (title, rows); None and empty values are left out."""
    head = [(name, str(info[name])) for name in ("command", "host", "mode") if info.get(name)]
    tables = [(name, list(_rows(info[name]))) for name in _TABLES if info.get(name)]
    workers = [(name, ", ".join(f"{key} {value}" for key, value in _rows(one))) for name, one in _workers(info)]
    return [("run", head), *tables, *([("workers", workers)] if workers else [])]


def _workers(info: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from (info.get("workers") or {}).items()


def _rows(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Flatten a JSON value into (path, text)."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _rows(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list):
        if value:
            yield prefix, ", ".join(str(one) for one in value)
    elif value is not None:
        yield prefix.replace("_", " "), _text(prefix, value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return percent(value) if name.endswith("share") else f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)

"""Which runs of an archive a new one is compared with: `--against last`, `best`, `median:5`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llmload.errors import RecordError, SetupError
from llmload.metrics.definitions import BY_NAME
from llmload.metrics.evidence import GOODPUTS, Key
from llmload.metrics.goodput import Goodput
from llmload.metrics.regression import parse_key
from llmload.sinks.archive import entries
from llmload.sinks.facts import read_summary
from llmload.sinks.record import find_run

AGAINST_HELP = (
    "compare one side with runs of the archive: last; best (lowest E2E p50), 'best:ttft p95' or best:goodput; "
    "median:5, the last five as five rounds"
)
_BEST: Key = ("e2e_s", "p50")


def choose(which: str, archive: Path, side: Sequence[str], goodput: Goodput | None = None) -> list[str]:
    """Return the runs that are meant, among those of the same scenarios and model that are valid.

    Args:
        which: `last`, `best`, `best:METRIC STATISTIC` or `median:N`.
        archive: the folder.
        side: the new runs, which are never their own baseline.
        goodput: the limits that are asked for instead of those of the new runs: the best by goodput is looked for
            among runs with the same.

    Raises:
        SetupError: there is no such choice.
        RecordError: there are no such runs.
    """
    kind, _, detail = which.partition(":")
    if kind not in ("last", "best", "median") or (kind == "last" and detail):
        raise SetupError(f"--against {which!r} is unknown", "use last, best, 'best:ttft p95' or median:5")
    key = parse_key(detail, "--against best") if kind == "best" and detail else _BEST
    count = _count(detail) if kind == "median" else 1
    fit = _fitting(archive, side)
    if kind == "best":
        if key[0] in GOODPUTS:
            limits = _wanted_limits(side, goodput)
            fit = [one for one in fit if limits_of(one[1]) == limits]
        known = [one for one in fit if value_of(one[1], key) is not None]
        return [str(sorted(known, key=lambda one: _rank(one[1], key))[0][0])] if known else _none(archive, 0, 1, key)
    if len(fit) < count:
        return _none(archive, len(fit), count)
    return [str(path) for path, _ in fit[-count:]]


def _wanted_limits(side: Sequence[str], goodput: Goodput | None) -> Mapping[str, float]:
    new = find_run(side[0])
    limits = goodput.limits if goodput else limits_of(read_summary(new) or {})
    if limits is None:
        raise SetupError(f"{new} has no limits of goodput", "give --goodput 'ttft:500 e2e:5000'")
    return limits


def _count(detail: str) -> int:
    if not detail.isascii() or not detail.isdigit() or not 2 <= int(detail) <= 100:
        raise SetupError(f"--against median:{detail} needs a number of runs from 2 to 100", "write e.g. median:5")
    return int(detail)


def _none(archive: Path, found: int, wanted: int, key: Key = _BEST) -> list[str]:
    what = " with these limits of goodput" if key[0] in GOODPUTS else ""
    raise RecordError(
        f"{archive} has {found} valid runs of these scenarios and this model{what}, {wanted} are needed",
        "archive more runs with --archive, or name a run",
    )


def _fitting(archive: Path, side: Sequence[str]) -> list[tuple[Path, dict[str, Any]]]:
    new = [find_run(name) for name in side]
    known = [summary for summary in map(read_summary, new) if summary is not None]
    if not known:
        raise RecordError(f"{new[0]} has no summary.json of this version", "write it again with llmload report")
    names, found = {path.name for path in new}, []
    for path in entries(archive):
        summary = read_summary(path)
        if (
            summary is not None
            and path.name not in names
            and summary["run"]["valid"]
            and _test(summary) == _test(known[0])
        ):
            found.append((path, summary))
    return found


def _test(summary: Mapping[str, Any]) -> tuple[Any, ...]:
    return sorted(summary["scenarios"]), summary["run"]["load"]["model"]


def value_of(summary: Mapping[str, Any], key: Key) -> float | None:
    """Return the value of a metric and statistic in a summary, None where there is none."""
    name, statistic = key
    if statistic:
        row = summary["metrics"].get(name) or {}
        return row.get(statistic) if row.get("n") else None
    if name in ("error_rate", "success_rate"):
        ok, failed = summary["ledger"]["ok"], summary["ledger"]["failed"]
        return (failed if name == "error_rate" else ok) / (ok + failed) if ok + failed else None
    part = summary["goodput"] or {} if name in GOODPUTS else summary["throughput"]
    value: float | None = part.get({"goodput": "share", "goodput_rate": "rate"}.get(name, name))
    return value


def limits_of(summary: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the limits of goodput that a run was judged by, seconds by metric; None for none."""
    limits: dict[str, float] | None = (summary.get("goodput") or {}).get("objectives")
    return limits


def _rank(summary: Mapping[str, Any], key: Key) -> float:
    value = value_of(summary, key) or 0.0
    return -value if BY_NAME[key[0]].higher_is_better else value

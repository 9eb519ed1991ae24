"""`llmload calibrate`: how much one worker holds on this machine, and how many workers a plan needs."""

from __future__ import annotations

import argparse
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import llmload
from llmload.errors import SetupError
from llmload.metrics.calibration import (
    HEADROOM_PERCENT,
    PERCENTILES,
    Bound,
    Measured,
    Search,
    Sizes,
    limit,
    median_run,
    workers_needed,
)
from llmload.mock.process import MockProcess
from llmload.sinks import calibration
from llmload.swarm.level import Level

WHOLE = {"users": 1, "tokens": 2, "repeats": 1, "streams": 1, "min_streams": 1, "max_streams": 1}
"""Options that are whole numbers, and the smallest that makes sense."""
NOTHING_HELD = 1
"""Exit code when not even the smallest level held the bound."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `llmload calibrate`."""
    add = parser.add_argument
    add("--users", type=int, metavar="N", help="users of your plan: say how many workers it needs")
    add("--tokens-per-second", type=float, default=50, metavar="T", help="of one stream (default: 50)")
    add("--tokens", type=int, default=64, metavar="N", help="tokens of an answer (default: 64)")
    add("--bound-ms", type=float, default=1, metavar="MS", help="largest error of TTFT and ITL (default: 1)")
    add("--percentile", type=int, default=99, choices=PERCENTILES, help="percentile of the bound (default: 99)")
    add("--seconds", type=float, default=3, metavar="S", help="window of a level, after its ramp (default: 3)")
    add("--budget", type=float, default=90, metavar="S", help="begin no level that would end later (default: 90)")
    add("--repeats", type=int, default=3, metavar="N", help="a level counts by the median of so many (default: 3)")
    add("--streams", type=int, default=40, metavar="N", help="level to begin with (default: 40)")
    add("--min-streams", type=int, default=5, metavar="N", help="smallest level (default: 5)")
    add("--max-streams", type=int, default=4000, metavar="N", help="largest level (default: 4000)")
    add("--save", type=Path, metavar="FILE", help="where the result goes (default: ~/.cache/llmload/calibration.json)")


def run(args: argparse.Namespace) -> int:
    """Calibrate, print and save the result; return the exit code.

    Raises:
        SetupError: an option with a value that has no meaning, a file that cannot be written, or a level without a
            result.
    """
    _check(args)
    level = Level(tokens_per_second=args.tokens_per_second, tokens=args.tokens, window_s=args.seconds)
    if level.run_s > args.budget:
        raise SetupError(f"--budget: {args.budget:g} s are too few for one level", f"give more than {level.run_s:.0f}")
    path = args.save or calibration.default_path()
    calibration.check(path)
    bound = Bound(args.bound_ms, args.percentile)
    search = Search(first=args.streams, smallest=args.min_streams, largest=args.max_streams, repeats=args.repeats)
    print(
        f"one Locust process against the bundled mock server, both on this machine of {_cores()}\n"
        f"{level.tokens_per_second:g} tokens/s a stream, {level.tokens} tokens an answer; bound: {bound} for the "
        f"errors of TTFT and ITL, in the median of {args.repeats} runs\n\n{_head(bound)}",
        flush=True,
    )
    with _ended_by_sigterm(), MockProcess(*level.mock_options) as mock:
        runs, out_of_time = _levels(search, level, mock, bound, args.budget)
    result = _result(search, runs, bound, out_of_time)
    plan = _plan(args, result)
    print("", *_told(result, plan, runs, bound), sep="\n")
    about = {"bound": {"ms": bound.ms, "percentile": bound.percent}, "tokens_per_second": args.tokens_per_second}
    about |= {"tokens": args.tokens, "seconds": args.seconds, "repeats": args.repeats}
    calibration.write(path, {**_about(runs), **about, "result": result, "plan": plan, "runs": _rows(runs, bound)})
    print(f"saved: {path}")
    return NOTHING_HELD if result is None else 0


def _check(args: argparse.Namespace) -> None:
    for name, least in WHOLE.items():
        value = getattr(args, name)
        if value is not None and value < least:
            raise SetupError(f"{_flag(name)}: {value} is too small", f"give {least} or more")
    for name in ("tokens_per_second", "bound_ms", "seconds", "budget"):
        value = getattr(args, name)
        if not 0 < value < 1e6:
            raise SetupError(f"{_flag(name)}: {value:g} makes no sense", "give a number above 0")
    if not args.min_streams <= args.streams <= args.max_streams:
        raise SetupError("--streams lies outside --min-streams and --max-streams", "give a level between them")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _levels(
    search: Search, level: Level, mock: MockProcess, bound: Bound, budget_s: float
) -> tuple[list[Measured], bool]:
    """Run levels until the search is done or the time is; return the runs, and whether it was the time."""
    runs: list[Measured] = []
    ends_s, run_s = time.monotonic() + budget_s, level.run_s
    while (streams := search.next((ends_s - time.monotonic()) // run_s)) is not None:
        began_s = time.monotonic()
        if began_s + run_s > ends_s:
            return runs, True
        one = level.run(mock, streams)
        runs.append(one)
        faults = one.faults(bound)
        search.add(streams, not faults)
        print(_line(one, faults, bound), flush=True)
        run_s = max(run_s, time.monotonic() - began_s)
    return runs, False


def _head(bound: Bound) -> str:
    pair = f"p50/p{_beside(bound)} ms"
    return f"streams  events/s  CPU %  {'TTFT err ' + pair:>20}  {'ITL err ' + pair:>19}  verdict"


def _line(one: Measured, faults: Sequence[str], bound: Bound) -> str:
    verdict = f"misses: {', '.join(faults)}" if faults else "holds"
    load = f"{one.streams:7,} {one.events_per_second:9,.0f} {one.cpu_percent:6.0f}"
    return f"{load}  {_pair(one.ttft_ms, bound):>20}  {_pair(one.itl_ms, bound):>19}  {verdict}"


def _pair(sizes: Sizes, bound: Bound) -> str:
    high_ms = sizes.at(_beside(bound))
    return "none" if sizes.p50 is None or high_ms is None else f"{sizes.p50:.2f} / {high_ms:.2f}"


def _beside(bound: Bound) -> int:
    """The percentile that is shown beside the median."""
    return 99 if bound.percent == 50 else bound.percent


def _result(search: Search, runs: Sequence[Measured], bound: Bound, out_of_time: bool) -> dict[str, Any] | None:
    """What one worker holds, None when no level did."""
    if search.low is None:
        return None
    level = [one for one in runs if one.streams == search.low]
    if search.high is not None:
        missing = median_run([one for one in runs if one.streams == search.high], bound)
        kind, why = limit(missing, bound)
    elif out_of_time:
        kind, why = "budget", "the time: --budget ended before a level missed"
    else:
        kind, why = "range", "nothing: the largest level, --max-streams, still holds"
    return {
        "streams": search.low,
        "events_per_second": round(median(one.events_per_second for one in level), 1),
        "runs_held": search.held[search.low],
        "runs": len(level),
        "confirmed": search.confirmed,
        "limited_by": kind,
        "why": why,
    }


def _plan(args: argparse.Namespace, result: dict[str, Any] | None) -> dict[str, Any] | None:
    if args.users is None:
        return None
    plan: dict[str, Any] = {"users": args.users, "headroom_percent": HEADROOM_PERCENT, "workers": None}
    if result is not None:
        plan["workers"] = workers_needed(
            users=args.users,
            tokens_per_second=args.tokens_per_second,
            streams=result["streams"],
            events_per_second=result["events_per_second"],
        )
    return plan | {"events_per_second": args.users * args.tokens_per_second}


def _told(
    result: dict[str, Any] | None, plan: dict[str, Any] | None, runs: Sequence[Measured], bound: Bound
) -> Iterator[str]:
    if result is None:
        yield from _nothing(runs, bound)
    else:
        least = "" if result["limited_by"] in ("cpu", "lag", "unknown") else "at least "
        rate = f"{result['streams']:,} streams, {result['events_per_second']:,.0f} events/s"
        often = f"{result['runs_held']} of {result['runs']} runs"
        more = "" if result["confirmed"] else ", and there was no time for more"
        yield f"one worker holds {least}{rate}: {bound} in {often}{more}"
        yield f"limited by {result['why']}"
    stamps = _stamps(runs)
    yield "arrival stamps: " + ", ".join(f"{name} ({count:,} answers)" for name, count in stamps.items())
    if plan is not None:
        asked = f"{plan['users']:,} users, {plan['events_per_second']:,.0f} events/s"
        if plan["workers"] is None:
            yield f"plan: {asked}: cannot say how many workers, no level held the bound"
        else:
            yield f"plan: {asked}: {plan['workers']:,} workers, with {plan['headroom_percent']} % head-room"


def _nothing(runs: Sequence[Measured], bound: Bound) -> Iterator[str]:
    """What does hold where the bound does not, at the smallest level that was run."""
    smallest = min(one.streams for one in runs)
    level = [one for one in runs if one.streams == smallest]
    middle = median_run(level, bound)
    yield f"no level held {bound}; at {smallest} streams, the smallest that was run, the median of {len(level)} runs is"
    for name in ("ttft_ms", "itl_ms"):
        cells = []
        for percent in PERCENTILES:
            known = [value for one in level if (value := getattr(one, name).at(percent)) is not None]
            cells.append(f"p{percent} {median(known):.2f} ms" if known else f"p{percent} none")
        yield f"  {name.removesuffix('_ms').upper()} error: {', '.join(cells)}"
    if middle.faults(bound):
        yield f"limited by {limit(middle, bound)[1]}"
    yield "a larger --bound-ms or a lower --percentile says what this machine can do"


def _stamps(runs: Sequence[Measured]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in runs:
        total.update(one.stamps)
    return dict(total)


def _rows(runs: Sequence[Measured], bound: Bound) -> list[dict[str, Any]]:
    return [{**one.to_dict(), "faults": one.faults(bound)} for one in runs]


def _about(runs: Sequence[Measured]) -> dict[str, Any]:
    libraries = ("locust", "gevent", "httpx")
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": calibration.machine(),
        "versions": {
            "llmload": llmload.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in libraries},
        },
        "stamps": _stamps(runs),
    }


def _cores() -> str:
    cores = calibration.machine()["cores"]
    return f"{cores} core{'' if cores == 1 else 's'}"


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that no child is left."""

    def end(number: int, _: Any) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""`python -m bench.coverage`: how often intervals hold the truth, false alarms, and power, as the tables of
docs/compare.md.

--quick     few repetitions
--write     also put the tables into docs/compare.md
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np

from bench.alike import KINDS, failures, latencies, truth
from llmload.metrics.bootstrap import Estimate, TooFew, bounds, estimate, share
from llmload.metrics.comparison import change_between, shared
from llmload.metrics.series import Series

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
LEAST = 0.05
"""Cells in which fewer series than this share got an interval are left out."""
PAGE = Path(__file__).parents[1] / "docs" / "compare.md"


def _try(values, statistic) -> Estimate | None:
    try:
        return estimate(Series(values), statistic)
    except TooFew:
        return None


def _independent(values, statistic):
    """The interval that takes every sample for independent: the usual bootstrap of a sorted list."""
    rng = np.random.default_rng(1)
    n = len(values)
    if statistic == "mean":
        draws = values.mean() + values.std() / n**0.5 * rng.standard_normal(1000)
    else:
        level = float(statistic[1:]) / 100
        at = np.clip(rng.binomial(n, level, 1000), 0, n - 1)
        draws = np.sort(values)[at]
    return bounds(draws, 0.9)


def coverage(times, rng):
    """Yield the rows of the table of coverage."""
    yield "| n | ρ | " + " | ".join(STATISTICS) + " | as if independent: p50 |"
    yield "|---:|---:|" + "---:|" * (len(STATISTICS) + 1)
    for n in (100, 300, 1000, 3000, 10_000):
        for rho in (0.0, 0.3, 0.6, 0.9):
            columns = latencies(rng, n, rho, times)
            cells = [_covered(columns, statistic, truth(statistic)) for statistic in STATISTICS]
            naive = [_holds(_independent(one, "p50"), truth("p50")) for one in columns.T[: times // 2]]
            yield f"| {n:,} | {rho:g} | {' | '.join(cells)} | {np.mean(naive):.0%} |"


def _holds(ends, value):
    return ends[0] <= value <= ends[1]


def _covered(columns, statistic, value):
    found = [_try(column, statistic) for column in columns.T]
    held = [_holds(one.interval(0.9), value) for one in found if one is not None]
    given = len(held) / len(found)
    if given < LEAST:
        return "–"
    return f"{np.mean(held):.1%}" + (f" ({given:.0%})" if given < 0.995 else "")


def kinds(times, rng):
    """Yield the rows of the table of other kinds of likeness."""
    yield "| kind | n | " + " | ".join(STATISTICS) + " |"
    yield "|---|---:|" + "---:|" * len(STATISTICS)
    for name, make in KINDS.items():
        for n in (300, 1000, 3000):
            columns, value = make(rng, n, times)
            cells = [_covered(columns, statistic, value(statistic)) for statistic in STATISTICS]
            yield f"| {name} | {n:,} | {' | '.join(cells)} |"


def shares(times, rng):
    """Yield the rows of the table of error rates."""
    yield "| n | rate | failures come | never failed | coverage, of those that failed | too high | false alarms |"
    yield "|---:|---:|---|---:|---:|---:|---:|"
    for n in (300, 1000, 3000):
        for rate in (0.002, 0.01, 0.05):
            for bursts in (False, True):
                yield (
                    f"| {n:,} | {rate:.1%} | {'ten in a row' if bursts else 'one by one'} | "
                    + " | ".join(f"{cell:.1%}" for cell in _shares(n, rate, bursts, times, rng))
                    + " |"
                )


def _shares(n, rate, bursts, times, rng):
    found = [share(Series(one)) for one in failures(rng, n, rate, 2 * times, bursts=bursts).T]
    failed = [one.interval(0.9) for one in found if one.value]
    lows = []
    for pair in zip(found[:times], found[times:], strict=True):
        was, now = (shared([one], pair) for one in pair)
        lows.append(change_between(was, now, 0.95, as_ratio=False).low)
    held, high = np.mean([(_holds(ends, rate), ends[0] > rate) for ends in failed], axis=0)
    return 1 - len(failed) / len(found), held, high, np.mean(np.array(lows) > 0)


def alarms(times, rng):
    """Yield the rows of the table of false alarms and power: `worse` at 95 %, identical runs and 10 % slower ones."""
    yield (
        "| n | ρ | "
        + " | ".join(f"{name} {one}" for one in ("mean", "p50", "p95") for name in ("false alarms", "by 5 %", "found"))
        + " |"
    )
    yield "|---:|---:|" + "---:|" * 9
    for n in (200, 600, 3000):
        for rho in (0.0, 0.5, 0.8):
            cells = [cell for one in ("mean", "p50", "p95") for cell in _alarms(n, rho, one, times, rng)]
            yield f"| {n:,} | {rho:g} | {' | '.join(cells)} |"


def _alarms(n, rho, statistic, times, rng):
    base, same, slow = (latencies(rng, n, rho, times) for _ in range(3))
    found = []
    for was, now, later in zip(base.T, same.T, slow.T, strict=True):
        three = [_try(one, statistic) for one in (was, now, later * 1.1)]
        if None not in three:
            ends = [change_between([three[0]], [one], 0.95).relative[1] for one in three[1:]]
            found.append((ends[0] > 0, ends[0] > 0.05, ends[1] > 0))
    if len(found) < times * LEAST:
        return ["–"] * 3
    few = f" ({len(found) / times:.0%})" if len(found) < times * 0.995 else ""
    return [f"{part:.1%}{few}" for part in np.mean(found, axis=0)]


def rounds(times, rng):
    """Yield the rows of the table of rounds: runs of 300 requests that differ by σ between each other."""
    yield "| runs a side | σ between runs | rounds | all samples thrown together | bootstrap over runs |"
    yield "|---:|---:|---:|---:|---:|"
    for count in (2, 3, 5):
        for sigma in (0.0, 0.05, 0.2):
            held = [_rounds(count, sigma, rng) for _ in range(times)]
            yield f"| {count} | {sigma:.0%} | " + " | ".join(f"{share:.1%}" for share in np.mean(held, axis=0)) + " |"


def _rounds(count, sigma, rng):
    """Whether each method's 90 % interval of the change between two sides of the same load holds 0."""
    sides = [latencies(rng, 300, 0.0, count) * np.exp(sigma * rng.standard_normal(count)) for _ in range(2)]
    runs = [[estimate(Series(column), "p50") for column in side.T] for side in sides]
    ours = change_between(runs[0], runs[1], 0.9).relative
    pooled = [estimate(Series(rng.permutation(side.ravel())), "p50") for side in sides]
    together = change_between(pooled[:1], pooled[1:], 0.9).relative
    logs = [np.log([one.value for one in side]) for side in runs]
    means = [side[rng.integers(0, count, (1000, count))].mean(axis=1) for side in logs]
    drawn = bounds(means[1] - means[0], 0.9)
    return _holds(ours[1:], 0), _holds(together[1:], 0), _holds(drawn, 0)


def main(arguments):
    """Print the tables and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.coverage", description="What the intervals are worth.")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--write", action="store_true", help="also put the tables into docs/compare.md")
    options = parser.parse_args(arguments)
    times, rng = 40 if options.quick else 500, np.random.default_rng(20261201)
    parts = [
        f"**Coverage** of 90 % intervals, {2 * times:,} series each; in brackets the share that got an interval, where "
        f"not all did; – where under {LEAST:.0%} did:",
        "\n".join(coverage(2 * times, rng)),
        f"**Other kinds of likeness**, the same, {times:,} series each:",
        "\n".join(kinds(times, rng)),
        f"**Error rate**: coverage of 90 % intervals, {2 * times:,} runs each, and how often `error_rate worse` fails "
        f"on identical runs at 95 %, {times:,} pairs each:",
        "\n".join(shares(times, rng)),
        f"**False alarms and power** of `worse`, 95 %, {times:,} pairs each: how often it fails on identical runs, "
        "how often `worse by 5%` does, and how often `worse` finds a slowdown of 10 %; in brackets the share that "
        "was judged, where not all were:",
        "\n".join(alarms(times, rng)),
        "**Rounds**, p50, 90 %: how often the interval of the change between two sides of the same load holds 0, "
        f"{times:,} each:",
        "\n".join(rounds(times, rng)),
    ]
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        begin, end = "<!-- coverage:begin -->", "<!-- coverage:end -->"
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(
            re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL), encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A comparison as text for a terminal and as Markdown.

No I/O. Runs and doubts first, then a row for each metric: what it was, what it is, the change with its interval, and
the verdict.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmload.reports.text import WIDTH

HEAD = ("", "base", "new", "change", "interval", "verdict")
MAIN = ("ttft_s", "ttft_intended_s", "itl_s", "tpot_s", "e2e_s", "e2e_intended_s")
_SHORT_STATISTICS = ("mean", "p50", "p95", "p99")
_LENGTHS = ("input_tokens", "output_tokens")
ONE_RUN = (
    "One run a side: what differs from run to run (caches, neighbours, placement) is not in these intervals. "
    "Rounds show it: --base A B C --new D E F."
)


def shown_rows(comparison: Mapping[str, Any], *, everything: bool = False) -> list[Mapping[str, Any]]:
    """Return the rows that a person reads first, or all."""
    return [row for row in comparison["rows"] if everything or _is_main(row)]


def _is_main(row: Mapping[str, Any]) -> bool:
    name, statistic = row["metric"], row["statistic"]
    if statistic is None:
        return str(name) != "success_rate"
    if name in MAIN:
        return statistic in _SHORT_STATISTICS
    return bool((name in _LENGTHS and statistic == "mean") or (name == "output_tps" and statistic == "p50"))


def cells(row: Mapping[str, Any]) -> tuple[str, str, str, str, str, str]:
    """Return a row's cells, in the order of `HEAD`."""
    unit = row["unit"]
    sides = [("-" if row[side] is None else value_text(row[side]["value"], unit)) for side in ("base", "new")]
    change, interval = change_texts(row)
    verdict = row["verdict"] if row["why"] is None else f"{row['verdict']}: {row['why']}"
    return name_of(row), sides[0], sides[1], change, interval, verdict


def name_of(row: Mapping[str, Any]) -> str:
    """Return e.g. `TTFT p95`."""
    return str(row["label"]) + (f" {row['statistic']}" if row["statistic"] else "")


def change_texts(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the change and its interval: relative to base where that makes sense, shares in points."""
    if row["delta"] is None:
        return "-", "-"
    values, unit, scale = row["delta"], *{"share": (" pt", 100.0), "s": (" ms", 1e3)}.get(row["unit"], ("", 1.0))
    if row["relative"] is not None:
        values, unit, scale = row["relative"], " %", 100.0
    value, low, high = (_signed(values[name] * scale) for name in ("value", "low", "high"))
    return f"{value}{unit}", f"{low} to {high}{unit}"


def _signed(value: float) -> str:
    digits = 2 if abs(value) < 1 else 1 if abs(value) < 1000 else 0
    return f"{round(value, digits) + 0.0:+,.{digits}f}"


def value_text(value: float, unit: str) -> str:
    """Return a value as a person reads it."""
    if unit == "s":
        ms = value * 1e3
        return f"{ms:,.{2 if ms < 100 else 1 if ms < 10_000 else 0}f} ms"
    if unit == "share":
        return f"{value:.2%}"
    return f"{value:,.{2 if value < 100 else 1 if value < 10_000 else 0}f}" + ("" if unit == "tokens" else f" {unit}")


def notes(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Yield what has to be said of the method, in whole sentences."""
    judged = [row for row in comparison["rows"] if row["verdict"] != "not comparable"]
    yield f"n, base / new: {samples_text(shown_rows(comparison))}."
    if len(comparison["base"]) == len(comparison["new"]) == 1:
        yield ONE_RUN
    else:
        yield (
            "Several runs a side: each run is one sample, values are the middle of the runs' own, and intervals hold "
            "what differs from run to run."
        )
    chance = len(judged) * (1 - comparison["confidence"])
    yield (
        f"{comparison['confidence']:.0%} intervals: of {len(judged)} numbers compared here about {chance:.1f} would "
        "show a difference by chance alone."
    )


def samples_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how many samples stand behind the rows of each metric, of base and of new."""
    counts = {
        row["label"]: " / ".join("-" if row[side] is None else f"{row[side]['n']:,}" for side in ("base", "new"))
        for row in reversed(rows)
    }
    return ", ".join(f"{label} {counts[label]}" for label in reversed(counts))


def side_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the runs of a side in a few words."""
    return ", ".join(f"{one['name']} ({one['ok']:,} ok, {one['failed']:,} failed)" for one in runs)


def render(comparison: Mapping[str, Any], *, everything: bool = False) -> str:
    """Return the comparison as text, lines joined by line ends."""
    lines = [*_wrap("base: ", side_text(comparison["base"])), *_wrap("new:  ", side_text(comparison["new"]))]
    lines += [line for text in comparison["warnings"] for line in _wrap("! ", text)]
    lines += ["", text_line(HEAD)]
    rows = shown_rows(comparison, everything=everything)
    lines += text_rows(rows)
    lines += ["", *(line for text in notes(comparison) for line in _wrap("", text))]
    rules = comparison.get("rules") or []
    if rules:
        lines += ["", *(line for rule in rules for line in _wrap(f"{rule['verdict']}: ", rule_text(rule)))]
    return "\n".join(lines)


def rule_text(rule: Mapping[str, Any]) -> str:
    return f"{rule['text']} ({rule['why']})"


def text_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line a row, then why some have no verdict."""
    yield from (text_line((*cells(row)[:-1], row["verdict"])) for row in rows)
    for text in reasons(rows):
        yield from _wrap("not comparable: ", text)


def reasons(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why rows have no verdict, a sentence for each reason that names them."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["why"] is not None:
            found.setdefault(row["why"], []).append(name_of(row))
    yield from (f"{', '.join(names)}: {why}" for why, names in found.items())


def text_line(texts: Sequence[str]) -> str:
    """Return the cells of a row in columns."""
    name, base, new, change, interval, verdict = ("".join(c if c.isprintable() else " " for c in t) for t in texts)
    return f"{name[:18]:<18} {base[:13]:>13} {new[:13]:>13} {change:>9} {interval:>19}  {verdict}".rstrip()


def _wrap(head: str, text: str) -> list[str]:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return textwrap.wrap(plain, WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [head]


def render_markdown(comparison: Mapping[str, Any], *, everything: bool = False) -> str:
    """Return the comparison as Markdown, for a comment on a pull request."""
    rules = comparison.get("rules") or []
    lines = [
        f"### {headline(comparison)}",
        "",
        *(f"- {'❌' if one['verdict'] == 'failed' else '⚠️' if one['verdict'] == 'not judged' else '✅'} "
          f"{escape_markdown(rule_text(one))}" for one in rules),
        *([""] if rules else []),
        f"- base: {escape_markdown(side_text(comparison['base']))}",
        f"- new: {escape_markdown(side_text(comparison['new']))}",
        *(f"- ⚠️ {escape_markdown(text)}" for text in comparison["warnings"]),
        "",
        "| metric | base | new | change | interval | verdict |",
        "|---|---:|---:|---:|---:|---|",
        *(f"| {' | '.join(escape_markdown(cell) for cell in cells(row))} |"
          for row in shown_rows(comparison, everything=everything)),
        "",
        *notes(comparison),
    ]  # fmt: skip
    return "\n".join(lines)


def headline(comparison: Mapping[str, Any]) -> str:
    """Return the outcome in one line."""
    shown = [row for row in shown_rows(comparison) if row["verdict"] in ("better", "worse")]
    failed = [one for one in comparison.get("rules") or [] if one["verdict"] == "failed"]
    if failed:
        return f"{len(failed)} of {len(comparison['rules'])} rules failed"
    parts = [
        f"{word}: {', '.join(name_of(row) for row in shown if row['verdict'] == word)}"
        for word in ("worse", "better")
        if any(row["verdict"] == word for row in shown)
    ]
    return "; ".join(parts) or "no difference shown"


def escape_markdown(text: str) -> str:
    """Return a text without line ends that no Markdown reader takes for markup."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return "".join(f"\\{char}" if char in "\\`*_|<>[]#!~" else char for char in plain)

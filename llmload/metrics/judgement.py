"""Objectives of a run judged on its tallies: any percentile, and any scenario, model or step.

No I/O, no clock. A summary holds four percentiles of the whole run and of its scenarios; what an objective asks for
beyond that is worked out here, from the same tallies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llmload.metrics.cutoff import statistic_of, with_cut_off
from llmload.metrics.goodput import good_rate, goodput_of
from llmload.metrics.objective import Objective, Scope
from llmload.metrics.objectives import parse_objectives
from llmload.metrics.steps import is_measured
from llmload.metrics.tally import Tallies, Tally
from llmload.metrics.throughput import throughput

_FROM_OUTPUT_TOKENS = (
    "tpot_s", "output_tps", "output_tokens", "output_throughput", "total_throughput", "served_throughput",
    "peak_output_throughput",
)  # fmt: skip


def judge_run(tallies: Tallies, run: Mapping[str, Any], summary: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the part `objectives` of a summary; None where the run had none.

    Args:
        tallies: of all finished completions.
        run: the content of `run.json`; the objectives are `settings.slo`, and the rule that ended the run early is
            `aborted`, a verdict that is not met.
        summary: everything else of the summary.

    Raises:
        SetupError: the objectives do not parse: the record was changed by hand.
    """
    texts, aborted = (run.get("settings") or {}).get("slo"), run.get("aborted")
    verdicts = [dict(aborted)] if aborted else []
    if not texts:
        return verdicts or None
    for one in parse_objectives(texts):
        if one.scope:
            verdicts.append(judge_in(tallies, run, one))
        else:
            tally = tally_of(tallies, one.scope)
            verdicts.append(_with_doubts(one, one.judge(_whole(summary, tally, one)), tally))
    return verdicts


def judge_in(tallies: Tallies, run: Mapping[str, Any], objective: Objective) -> dict[str, Any]:
    """Return the verdict on an objective by what of these tallies is in its scope; see `Objective.judge`."""
    part = section(tallies, run, objective.scope, [objective])
    return _with_doubts(objective, objective.judge(part), tally_of(tallies, objective.scope))


def _with_doubts(objective: Objective, verdict: dict[str, Any], tally: Tally) -> dict[str, Any]:
    """Return the verdict with what was cut off, and with a word on counts that no server gave."""
    verdict = with_cut_off(objective, verdict, tally)
    estimated = tally.usage_sources["estimate"]
    if not estimated or verdict["value"] is None or objective.metric not in _FROM_OUTPUT_TOKENS:
        return verdict
    return {**verdict, "why": f"{verdict['why']}; output tokens of {estimated:,} answers are estimates"}


def _whole(summary: Mapping[str, Any], tally: Tally, objective: Objective) -> dict[str, Any]:
    return {
        **summary,
        "metrics": with_statistics(summary["metrics"], tally, [objective]),
        "ledger": _measured(summary["ledger"], summary.get("excluded")),
    }


def tally_of(tallies: Tallies, scope: Scope) -> Tally:
    """Return a new tally of what is in a scope: without a step in it, of what is measured."""
    tally = Tally()
    for key, one in tallies.by_key.items():
        if _is_in(scope, *key):
            tally.merge(one)
    return tally


def _measured(ledger: Mapping[str, int], excluded: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the ledger without what started in the warm-up or while a step settled."""
    left_out = excluded["ledger"] if excluded else {}
    return {name: count - left_out.get(name, 0) for name, count in ledger.items()}


def section(
    tallies: Tallies, run: Mapping[str, Any], scope: Scope, objectives: Iterable[Objective]
) -> dict[str, Any] | None:
    """Return what a scope's completions look like, built like a summary; None where there are none."""
    if not any(_is_in(scope, *key) for key in tallies.by_key):
        return None
    tally = tally_of(tallies, scope)
    rates = throughput(tally, run)
    return {
        "ledger": {outcome: tally.counts[outcome] for outcome in ("ok", "failed", "cancelled")},
        "metrics": with_statistics({}, tally, objectives),
        "throughput": rates,
        "goodput": goodput_of(tally, run, rate=good_rate(tally, tally, rates)),
    }


def with_statistics(
    metrics: Mapping[str, Mapping[str, Any]], tally: Tally, objectives: Iterable[Objective]
) -> dict[str, Mapping[str, Any]]:
    """Return the metrics of a section with every statistic that objectives ask for."""
    found = dict(metrics)
    for one in objectives:
        if one.statistic is None or one.statistic in found.get(one.metric, ()):
            continue
        histogram = tally.histograms.get(one.metric)
        row = found.get(one.metric) or {"n": histogram.n if histogram else 0}
        found[one.metric] = row if one.statistic == "n" else {**row, one.statistic: statistic_of(one, histogram)}
    return found


def _is_in(scope: Scope, scenario: str, model: str, step: str | None) -> bool:
    """Without a step in the scope only what is measured counts."""
    return (
        scope.scenario in (None, scenario)
        and scope.model in (None, model)
        and (is_measured(step) if scope.step is None else _is_step(scope.step, step))
    )


def _is_step(wanted: str, step: str | None) -> bool:
    """A level without a round stands for all its rounds, without the time in which they settle."""
    return step == wanted or (is_measured(step) and step is not None and step.partition("#")[0] == wanted)

"""Failures by kind, and where they happened."""

import html
import re

from llmload.metrics.details import Details
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion
from llmload.reports import html as page
from llmload.reports import markdown, text
from llmload.reports.sections import failed_where


def failed(number, scenario, step, kind="timeout_idle", status=None):
    """Return a failed completion."""
    return Completion(
        id=f"f-w-{number}", scenario=scenario, model="m", worker="w", outcome="failed", step=step, kind=kind,
        status=status, message="it broke", started_unix_ns=1_800_000_000 * 10**9 + number, closed_s=1.0,
    )  # fmt: skip


def made(*places):
    """Return (summary, details) of failures at (scenario, step) pairs."""
    rows = [failed(number, *place) for number, place in enumerate(places)]
    return summarise(Tallies(rows), {}), Details(rows)


def test_the_places_with_the_most_failures_are_named():
    """Rounds and settling belong to their step; a place without failures of a kind is not named."""
    places = [("Chat", "50"), ("Chat", "50#2"), ("Chat", "50#2~settle"), ("Long", "100"), ("Chat", "100")]
    summary, _ = made(*places, ("Long", "warmup", "http_status", 503))
    assert [row["where"] for row in summary["failures"]] == [
        [
            {"scenario": "Chat", "step": "50", "count": 3},
            {"scenario": "Chat", "step": "100", "count": 1},
            {"scenario": "Long", "step": "100", "count": 1},
        ],
        [{"scenario": "Long", "step": "warmup", "count": 1}],
    ]
    chat = summary["scenarios"]["Chat"]["failures"][0]
    assert (chat["count"], chat["where"][0]) == (4, {"scenario": "Chat", "step": "50", "count": 3})


def test_one_place_says_nothing():
    """A run of one scenario without steps, and one of a single step, have no places, and no column for them."""
    for step in (None, "50"):
        summary, details = made(("Chat", step), ("Chat", step))
        assert [row["where"] for row in summary["failures"]] == [[]]
        assert "| kind | count | example |" in markdown.render(summary, ())
        assert '<th class="text">where</th>' not in page.render(summary, {}, details)


def test_many_places_stay_few():
    """Five are named at most; how many failed elsewhere is said."""
    summary, _ = made(*[("Chat", str(level)) for level in range(1, 9) for _ in range(level)])
    (row,) = summary["failures"]
    assert [(one["step"], one["count"]) for one in row["where"]] == [("8", 8), ("7", 7), ("6", 6), ("5", 5), ("4", 4)]
    assert failed_where(row, summary["scenarios"]) == (
        "step 8: 8; step 7: 7; step 6: 6; step 5: 5; step 4: 4; elsewhere: 6"
    )


def test_every_report_says_where():
    """Scenarios are named where there are several, steps where there are some."""
    cases = {
        "Chat: 2; Long: 1": [("Chat", None), ("Chat", None), ("Long", None)],
        "no step: 1; step 100: 1": [("Chat", None), ("Chat", "100")],
        "Chat, step 8: 1; Long, warmup: 1": [("Chat", "8"), ("Long", "warmup")],
    }
    for said, places in cases.items():
        summary, details = made(*places)
        assert f"in {said}" in text.render(summary)
        assert f"| `{said}` | `it broke` |" in markdown.render(summary, ())
        cells = re.findall(r'<td class="name">(.*?)</td>', page.render(summary, {}, details))
        assert said in map(html.unescape, cells)

"""The run directory: written, broken, and read back."""

from __future__ import annotations

import json
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from llmload.cli.main import main
from llmload.errors import RecordError, SetupError
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion
from llmload.reports.text import render
from llmload.sinks.record import RunRecord, find_run, new_run_id, read_run
from llmload.sinks.scan import scan

T0_S = 1_800_000_000
RUN: dict[str, Any] = {
    "id": "r1",
    "started_at": T0_S,
    "ended_at": T0_S + 60.25,
    "ended_by": "time",
    "steady_from": T0_S + 10.5,
    "stopped_at": T0_S + 50.5,
    "valid": True,
    "reasons": [],
    "started": 305,
    "client": {"lag_p99_s": 0.0021, "cpu_percent_max": 41.5},
}


def completion(**fields: Any) -> Completion:
    defaults = {
        "id": "1", "scenario": "chat", "model": "m", "worker": "w", "started_unix_ns": T0_S * 10**9, "outcome": "ok",
    }  # fmt: skip
    return Completion(**{**defaults, **fields})


def random_completions(rng: random.Random, count: int) -> list[Completion]:
    rows = []
    for number in range(count):
        gaps = tuple(rng.randrange(1_000, 60_000) for _ in range(rng.randrange(40)))
        ttft_s = rng.lognormvariate(-1, 0.5)
        outcome = rng.choices(["ok", "failed", "cancelled"], [8, 1, 1])[0]
        rows.append(
            completion(
                id=str(number),
                scenario=rng.choice(["chat", "rag"]),
                started_unix_ns=T0_S * 10**9 + rng.randrange(60 * 10**9),
                outcome=outcome,
                kind=rng.choice(["truncated", "http_status"]) if outcome == "failed" else None,
                status=rng.choice([200, 429, 503]),
                message=rng.choice(["caf\xe9", "half a pair \ud800", None]),
                ttft_s=rng.choice([ttft_s, None]),
                e2e_s=ttft_s + sum(gaps) / 1e6,
                closed_s=ttft_s + sum(gaps) / 1e6 + 0.01,
                tpot_s=rng.choice([0.0123456789, None]),
                output_tokens=rng.choice([len(gaps) + 1, None]),
                input_tokens=rng.choice([None, 100]),
                gaps_us=gaps,
                events_per_read=rng.choice([None, tuple(rng.randrange(1, 4) for _ in range(len(gaps) + 1))]),
                burst_share=rng.choice([None, 0.1, 0.9]),
                client_lag_s=rng.random() / 100,
                usage_source=rng.choice(["server", "estimate"]),
            )
        )
    return rows


def write_run(path: Path, rows: list[Completion], run: dict[str, Any]) -> RunRecord:
    record = RunRecord.create(path, run["id"])
    record.write_run(run)
    record.write([row.to_dict() for row in rows])
    record.close()
    return record


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Let every write beyond `limit` bytes of a file fail, as on a full disk: short first, then with an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_run_ids_sort_by_time() -> None:
    """UTC time and four hex digits."""
    assert new_run_id(1796073930.9, random.Random(1)) == "20261130T212530Z-2265"
    assert new_run_id(1796073931, random.Random(1)) > new_run_id(1796073930, random.Random(2))


@pytest.mark.parametrize("seed", range(3))
def test_the_live_summary_equals_the_recomputed_one(tmp_path: Path, seed: int) -> None:
    """Three workers merged over the wire, against run.json and completions.jsonl alone (STAT-03, rule 10)."""
    rows = random_completions(random.Random(seed), 300)
    live = Tallies()
    for worker in range(3):
        live.merge(Tallies.from_wire(Tallies(rows[worker::3]).to_wire()))
    summary = summarise(live, RUN)
    record = write_run(tmp_path, rows, RUN)
    record.write_summary(summary)
    info, completions, problems = read_run(record.path)
    recomputed = summarise(Tallies(completions), info)
    assert recomputed == summary == json.loads((record.path / "summary.json").read_text())
    assert render(recomputed) == render(summary)
    assert (record.written, record.lost, record.error, problems) == (300, 0, None, [])
    assert summary["ledger"]["in_flight"] == 5


def test_completions_come_back_as_they_were(tmp_path: Path) -> None:
    """Text of any alphabet, lone surrogates and token timelines survive (UNI-04)."""
    rows = [
        completion(message="\u4f60\u597d \ud800 \u2028", gaps_us=(1, 2), events_per_read=(1, 1, 3)),
        completion(),
    ]
    record = write_run(tmp_path, rows, RUN)
    assert list(read_run(record.path)[1]) == rows
    assert (record.path / "completions.jsonl").read_bytes().isascii()


def test_half_a_character_costs_no_line_of_a_comparison(tmp_path: Path) -> None:
    """What is read column by column is as whole as what is read one by one, lone surrogates and all."""
    record = write_run(tmp_path, [completion(message="half a pair \ud800", e2e_s=1.0), completion(e2e_s=2.0)], RUN)
    problems: list[str] = []
    assert sum(len(columns) for columns in scan(record.path, problems)) == 2
    assert problems == []


def test_a_line_that_was_cut_off_is_a_problem_and_no_more(tmp_path: Path) -> None:
    """A killed process leaves half a line: the rest is read, and the report says which line (CI-05)."""
    record = write_run(tmp_path, [completion(), completion(), completion()], RUN)
    file = record.path / "completions.jsonl"
    file.write_bytes(file.read_bytes()[:-30])
    _, completions, problems = read_run(record.path)
    assert len(list(completions)) == 2
    assert problems == ["completions.jsonl line 3: was cut off, skipped"]


def test_broken_lines_are_skipped_and_named(tmp_path: Path) -> None:
    """Bytes that are no JSON in the middle of the file cost only their own line."""
    record = write_run(tmp_path, [completion()], RUN)
    file = record.path / "completions.jsonl"
    file.write_bytes(b'{"id": "\xff\n\n' + file.read_bytes())
    _, completions, problems = read_run(record.path)
    assert len(list(completions)) == 1
    assert problems == ["completions.jsonl line 1: is not JSON, skipped"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"url": "http://x"}', "id, scenario, model, worker, started_unix_ns, outcome missing"),
        ("[1]", "not a completion but list"),
        (
            json.dumps(completion().to_dict() | {"outcome": "good"}),
            "outcome or started_unix_ns makes no sense",
        ),
    ],
)
def test_a_file_that_is_not_ours_is_refused(tmp_path: Path, line: str, what: str) -> None:
    """JSON that is no completion is another tool's: file, line and what is wrong are named."""
    record = write_run(tmp_path, [completion()], RUN)
    with (record.path / "completions.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RecordError, match=rf"completions.jsonl line 2: .*{what}"):
        list(read_run(record.path)[1])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot read .*run.json"),
        ("{", "is not JSON"),
        ("[]", "has schema None"),
        ('{"schema": "llmload.run/2"}', "has schema 'llmload.run/2', expected 'llmload.run/1'"),
    ],
)
def test_a_run_file_that_is_not_ours_is_refused(tmp_path: Path, content: str | None, what: str) -> None:
    """A missing, broken, foreign or newer run.json is named."""
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(RecordError, match=what):
        read_run(tmp_path)


def test_a_directory_that_cannot_be_written_is_found_before_the_run(tmp_path: Path) -> None:
    """A file in the way is a set-up error with a hint."""
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(SetupError, match=r"cannot write the run directory .*: choose another"):
        RunRecord.create(tmp_path / "runs", "r1")
    with pytest.raises(SetupError, match="cannot write the run directory"):
        RunRecord.check(tmp_path / "runs")


def test_checking_a_directory_leaves_nothing_in_it(tmp_path: Path) -> None:
    """The run directory is made when it is missing, and stays empty."""
    RunRecord.check(tmp_path / "a" / "runs")
    assert list((tmp_path / "a" / "runs").iterdir()) == []


def test_a_full_disk_loses_lines_and_counts_them(tmp_path: Path) -> None:
    """Written and lost add up, the first reason is kept, and the lines after it start afresh."""
    record = RunRecord.create(tmp_path, "r1")
    record.write_run(RUN)
    row = completion().to_dict()
    size = len(json.dumps(row, separators=(",", ":"))) + 1
    with file_size_limit(size * 5 // 2):
        record.write([row] * 4)
        record.flush()
        assert (record.written, record.lost) == (2, 2)
        assert record.error is not None
        assert record.error.startswith("OSError: [Errno 27]")
    record.write([row] * 3)
    record.close()
    assert (record.written, record.lost) == (5, 2)
    _, completions, problems = read_run(record.path)
    assert len(list(completions)) == 5
    assert problems == ["completions.jsonl line 3: is not JSON, skipped"]


def test_a_full_disk_keeps_the_old_run_file(tmp_path: Path) -> None:
    """run.json is replaced as a whole or not at all."""
    record = RunRecord.create(tmp_path, "r1")
    assert record.write_run({"id": "old"})
    with file_size_limit(10):
        assert not record.write_run({"id": "new"})
    assert read_run(record.path)[0]["id"] == "old"
    record.close()


def test_what_cannot_be_written_as_json_is_lost_and_counted(tmp_path: Path) -> None:
    """NaN is refused, since no other reader would accept the line; a closed record accepts nothing."""
    record = RunRecord.create(tmp_path, "r1")
    record.write([{"ttft_s": float("nan")}])
    record.close()
    record.write([completion().to_dict()])
    record.close()
    assert (record.written, record.lost) == (0, 2)
    assert record.error is not None
    assert record.error.startswith("ValueError: Out of range float values are not JSON compliant")


def test_the_newest_run_is_found(tmp_path: Path) -> None:
    """A directory of runs stands for its newest one; one without runs is refused."""
    with pytest.raises(RecordError, match="is no run directory and holds none"):
        find_run(tmp_path)
    for name in ("20260101T000000Z-ffff", "20270101T000000Z-0000", "20261231T235959Z-eeee"):
        write_run(tmp_path, [], {**RUN, "id": name})
    assert find_run(tmp_path).name == "20270101T000000Z-0000"
    assert find_run(tmp_path / "20260101T000000Z-ffff").name == "20260101T000000Z-ffff"


def test_report_prints_the_summary_of_a_run_that_broke_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No end, no summary.json, half a line: the report is there, and what is missing is said (CI-05)."""
    run = {"id": "r1", "started_at": T0_S, "started": 4}
    record = write_run(tmp_path, [completion(e2e_s=1.0), completion(e2e_s=2.0), completion()], run)
    file = record.path / "completions.jsonl"
    file.write_bytes(file.read_bytes()[:-10])
    assert main(["report", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "NOT VALID; the end of the run is not recorded" in out
    assert "4 started, 2 ok, 0 failed, 0 cancelled, 2 in flight" in out
    assert err.splitlines() == [
        f"llmload report: {record.path} (the newest)",
        "llmload report: completions.jsonl line 3: was cut off, skipped",
    ]


def test_report_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the summary itself and nothing else."""
    record = write_run(tmp_path, [completion(e2e_s=1.0)], RUN)
    assert main(["report", str(record.path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == summarise(Tallies([completion(e2e_s=1.0)]), RUN)
    assert err == ""


def test_report_of_nothing_is_a_set_up_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Code 2 and one line that says what to name."""
    assert main(["report", str(tmp_path)]) == 2
    assert "is no run directory and holds none: name one that has a run.json" in capsys.readouterr().err

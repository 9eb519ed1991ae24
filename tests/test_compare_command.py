"""`llmload compare`, `llmload history` and the archive, on made-up records."""

import json
import shutil
from dataclasses import replace

import pytest

from bench.madeup import START_NS, completions, write
from llmload.cli.main import main
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.sinks.archive import archive_run

COMPLETIONS = "completions.jsonl"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Seven runs of the same load and one slower by 15 %."""
    folder = tmp_path_factory.mktemp("runs")
    made = {f"r{seed}": write(folder, f"r{seed}", completions(seed)) for seed in range(1, 8)}
    return {**made, "slow": write(folder, "slow", completions(9, slower=0.15))}


def told(capsys, *arguments):
    """Return exit code, standard output and standard error of a command."""
    code = main([str(one) for one in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_exit_codes(runs, capsys):
    """0 when no rule fails, 3 when one does, 4 when one cannot be judged and none fails."""
    rule = ("--fail-on", "itl p50 worse by 10%")
    assert told(capsys, "compare", runs["r1"], runs["r2"], *rule)[0] == 0
    code, out, _ = told(capsys, "compare", runs["r1"], runs["slow"], *rule, "--fail-on", "ttfa p50 worse")
    assert code == 3
    assert "failed: itl p50 worse by 10%" in out
    assert "not judged: ttfa p50 worse (neither side has it)" in out
    assert told(capsys, "compare", runs["r1"], runs["r2"], "--fail-on", "ttfa p50 worse")[0] == 4


def test_json_markdown_and_html(runs, capsys, tmp_path):
    """Every form of one comparison; the JSON is one object with a list of comparisons."""
    _, out, _ = told(capsys, "compare", runs["r1"], runs["slow"], runs["r2"], "--json", "--html", tmp_path / "c.html")
    data = json.loads(out)
    assert [one["new"][0]["name"] for one in data["comparisons"]] == ["slow", "r2"]
    assert {one["schema"] for one in data["comparisons"]} == {"llmload.comparison/1"}
    page = (tmp_path / "c.html").read_text()
    assert (page.count('<table class="changes">'), page.count("<li>new: slow"), page.count("<li>new: r2")) == (4, 1, 1)
    _, out, _ = told(capsys, "compare", runs["r1"], runs["slow"], "--md")
    assert out.startswith("### worse: ")
    assert "| TTFT p50 |" in out


def test_rounds_are_given_with_commas_or_options(runs, capsys):
    """Both ways mean the same: three runs against three."""
    base, new = [str(runs[f"r{n}"]) for n in (1, 2, 3)], [str(runs[f"r{n}"]) for n in (4, 5)] + [str(runs["slow"])]
    one = told(capsys, "compare", ",".join(base), ",".join(new), "--json")
    other = told(capsys, "compare", "--base", *base, "--new", *new, "--json")
    assert one == other
    assert len(json.loads(one[1])["comparisons"][0]["base"]) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["r1"], "two sides are needed"),
        (["r1", "r1"], "r1 is given twice"),
        (["r1", "empty"], "has no completion that ended ok"),
        (["r1", "other"], "base has the scenarios Chat, new Sql: nothing in common"),
        (["r1", "nowhere"], "is no run directory"),
        (["r1", "broken"], "broken/completions.jsonl line 1: not a completion, started_unix_ns missing"),
        (["r1", "r2", "--confidence", "5"], "--confidence '5' is not from 50 to 99.9"),
        (["r1", "r2", "--scenario", "Nobody"], "no completion of what was asked for"),
        (["r1", "--against", "newest"], "--against 'newest' is unknown"),
        (["r1", "--against", "median:x"], "needs a number of runs"),
        (["r1", "--arms", "r2"], "--arms stands alone"),
        (["--arms", "r2"], "has no two arms (Chat)"),
    ],
)
def test_bad_input_is_one_line(runs, capsys, tmp_path, arguments, says):
    """Exit code 2 and one line, whatever is wrong."""
    if "empty" in arguments:
        write(tmp_path, "empty", [])
    if "other" in arguments:
        write(tmp_path, "other", completions(1, n=60, scenario="Sql"))
    if "broken" in arguments:
        (write(tmp_path, "broken", completions(1, n=60)) / COMPLETIONS).write_text('{"outcome": "ok"}\n')
    paths = {"empty", "other", "broken", "nowhere"}
    given = [runs[one] if one in runs else tmp_path / one if one in paths else one for one in arguments]
    code, out, err = told(capsys, "compare", *given)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1


def test_torn_lines_are_said_and_skipped(runs, capsys, tmp_path):
    """A record that broke off is compared without its last, torn line, and that is said."""
    torn = shutil.copytree(runs["r2"], tmp_path / "torn")
    with (torn / COMPLETIONS).open("a") as file:
        file.write('{"id": "x", "outc')
    code, _, err = told(capsys, "compare", runs["r1"], torn)
    assert code == 0
    assert "completions.jsonl line 601: was cut off, skipped" in err


def test_an_archive_gives_the_same_comparison(runs, capsys, tmp_path):
    """Without completions the archive's evidence stands for them, in less than 150 kB a run."""
    kept = [archive_run(runs[name], tmp_path / "archive") for name in ("r1", "slow")]
    assert not any((entry / COMPLETIONS).exists() for entry in kept)
    assert all(sum(file.stat().st_size for file in entry.iterdir()) < 150_000 for entry in kept)
    assert told(capsys, "compare", *kept)[1] == told(capsys, "compare", runs["r1"], runs["slow"])[1]
    again = archive_run(runs["r1"], tmp_path / "archive", records=True)
    assert (again / COMPLETIONS).exists()
    code, _, err = told(capsys, "compare", *kept, "--scenario", "Chat")
    assert code == 2
    assert "has no completions to choose from: archive it with --archive-records" in err


def test_against_the_archive(runs, capsys, tmp_path):
    """The newest, the best by a metric, and several as rounds; never a run itself, nor one that is not valid."""
    archive = tmp_path / "archive"
    for name in ("r1", "r2", "r3", "r4", "slow"):
        archive_run(runs[name], archive)
    bad = archive_run(runs["r5"], archive)
    summary = json.loads((bad / "summary.json").read_text())
    summary["run"]["valid"] = False
    (bad / "summary.json").write_text(json.dumps(summary))
    new = runs["r6"]

    def base(which):
        out = told(capsys, "compare", new, "--against", which, "--archive", archive, "--json")[1]
        return [one["name"] for one in json.loads(out)["comparisons"][0]["base"]]

    assert base("last") == ["slow"]
    assert base("median:3") == ["r3", "r4", "slow"]
    assert base("best:itl mean") != ["slow"]
    assert len(base("best")) == 1
    code, _, err = told(capsys, "compare", new, "--against", "median:6", "--archive", archive)
    assert code == 2
    assert "has 5 valid runs of these scenarios and this model, 6 are needed" in err


@pytest.mark.parametrize(
    ("which", "says", "mark"),
    [
        ("best:ttfx p95", "--against best: there is no metric 'ttfx': use one of ttft, ", 0),
        ("best:ttft", "--against best: ttft needs a statistic: write e.g. ttft p95", 4),
        ("best:goodput p95", "--against best: goodput is one number of a run, it has no p95: write goodput alone", 8),
        ("best:ttft p95 worse", "--against best: 'w' is too much: write e.g. 'ttft p95'", 9),
    ],
)
def test_a_wrong_choice_of_base_points_at_the_character(runs, capsys, which, says, mark):
    """The message names the option that was given, and marks the place in its own text."""
    code, out, err = told(capsys, "compare", runs["r1"], "--against", which, "--archive", runs["r1"].parent)
    assert (code, out) == (2, "")
    assert says in err
    assert err.endswith(f"    {which.removeprefix('best:')}\n    {' ' * mark}^\n")


def stepped(folder, name, rounds):
    """Write a sweep over 2 and 6 users in some rounds of 20 s, of which the first 4 s of each step settle."""
    made, phases, start_s = [], [], START_NS / 1e9
    for round_ in range(1, rounds + 1):
        for level in (2, 6):
            label, at_s = f"{level}#{round_}", start_s
            for step, seconds in ((f"{label}~settle", 4), (label, 16)):
                course = {"course": "sweep", "axis": "users", "level": level, "round": round_, "users": level}
                phases.append({**course, "step": step, "from": at_s, "to": at_s + seconds, "started": 0})
                at_s += seconds
            for one in completions(len(phases), n=400, users=level):
                begun_s = start_s + (one.started_unix_ns - START_NS) / 1e9
                if begun_s < start_s + 20:
                    step = phases[-2 if begun_s < start_s + 4 else -1]["step"]
                    started_ns = one.started_unix_ns + round((start_s - START_NS / 1e9) * 1e9)
                    made.append(replace(one, id=f"{label}-{one.id}", step=step, started_unix_ns=started_ns))
            start_s += 20
    run = write(folder, name, made)
    about = json.loads((run / "run.json").read_text())
    about |= {"phases": phases, "steady_from": None, "steady_missing": "the load went in steps"}
    (run / "run.json").write_text(json.dumps(about))
    (run / "summary.json").write_text(json.dumps(summarise(Tallies(made), about)))
    return run, made, phases


def test_the_rates_of_a_step_are_of_its_own_time(capsys, tmp_path):
    """In all its rounds together: what ended in its seconds, over these seconds, also what had begun before."""
    was, made, phases = stepped(tmp_path, "was", 3)
    now = stepped(tmp_path, "now", 3)[0]
    spans = [(one["from"], one["to"]) for one in phases if one["level"] == 6 and "~" not in one["step"]]
    ends = [one.started_unix_ns / 1e9 + one.closed_s for one in made]
    ended = sum(any(from_s <= end < to_s for from_s, to_s in spans) for end in ends)
    code, out, _ = told(capsys, "compare", was, now, "--step", "6", "--json")
    rows = {(row["metric"], row["statistic"]): row for row in json.loads(out)["comparisons"][0]["rows"]}
    rate = rows["request_throughput", None]
    assert code == 0
    assert rate["base"]["value"] == ended / 48
    assert rate["base"]["n"] == ended
    assert rate["verdict"] == "no difference shown"
    assert rows["e2e_s", "p50"]["base"]["n"] == sum(one.step in ("6#1", "6#2", "6#3") for one in made)
    steps = json.loads((was / "summary.json").read_text())["sweep"]["steps"]
    assert steps[1]["level"] == 6
    assert steps[1]["throughput"]["request_throughput"] == pytest.approx(ended / 48, rel=0.1)  # the middle of rounds


def test_history_shows_runs_and_trends(runs, capsys, tmp_path):
    """A row a run, a line a metric; seven runs that do not change show no trend, seven that grow show one."""
    folder = runs["r1"].parent
    code, out, _ = told(capsys, "history", folder, "--html", tmp_path / "h.html", "--scenario", "Chat")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:9]] == [*(f"r{n}" for n in range(1, 8)), "slow"]
    assert "ITL p50" in out
    assert (tmp_path / "h.html").read_text().count("<figure>") == 11
    for n in range(6):
        write(tmp_path / "growing", f"g{n}", completions(n, n=150, slower=n / 10))
    out = told(capsys, "history", tmp_path / "growing")[1]
    line = next(line for line in out.splitlines() if line.startswith("ITL p50"))
    assert "rising, worse" in line
    assert line.endswith("▁▂▄▅▇█")
    code, _, err = told(capsys, "history", tmp_path / "nothing")
    assert (code, "holds no runs" in err) == (2, True)

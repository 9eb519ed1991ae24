"""Goodput as a row of `llmload compare`, a rule of --fail-on, a line of the history and a choice of --against."""

import json
from dataclasses import replace

import pytest

from bench.madeup import completions, write
from llmload.cli.main import main
from llmload.metrics.goodput import marked, parse_goodput
from llmload.sinks.archive import archive_run

LIMITS = "e2e:650"
OTHERS = "ttft:150 e2e:650"


def judged(folder, name, made, limits=LIMITS, **settings):
    """Write a run that was judged by limits as it went on."""
    return write(folder, name, marked(made, parse_goodput(limits)), goodput=limits, **settings)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs of the same load, one of them by other limits and one by none, and one slower by 15 %."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "was": judged(folder, "was", completions(1)),
        "now": judged(folder, "now", completions(2)),
        "other": judged(folder, "other", completions(3), OTHERS),
        "none": write(folder, "none", completions(4)),
        "slow": judged(folder, "slow", completions(5, slower=0.15)),
    }


def told(capsys, *arguments):
    """Return exit code, standard output and standard error of a command."""
    code = main([str(one) for one in arguments])
    return code, *capsys.readouterr()


def compared(capsys, *arguments):
    """Return the rows of a comparison by metric, of those that are numbers of a run."""
    code, out, err = told(capsys, "compare", *arguments, "--json")
    assert code == 0, err
    (one,) = json.loads(out)["comparisons"]
    return {row["metric"]: row for row in one["rows"] if row["statistic"] is None}, one["warnings"]


def test_both_goodputs_are_rows(runs, capsys):
    """Share of everything started and rate of the window are those of the summaries, each with its interval."""
    rows, warnings = compared(capsys, runs["was"], runs["slow"])
    assert warnings == []
    for side, run in (("base", "was"), ("new", "slow")):
        goodput = json.loads((runs[run] / "summary.json").read_text())["goodput"]
        made = completions({"was": 1, "slow": 5}[run], slower=0.15 if run == "slow" else 0)
        assert goodput["good"] == sum(one.e2e_s <= 0.65 for one in made)
        assert rows["goodput"][side]["value"] == pytest.approx(goodput["good"] / 600, rel=1e-12)
        assert rows["goodput_rate"][side]["value"] == goodput["rate"]
        assert rows["goodput"][side]["n"] == 600
        for name in ("goodput", "goodput_rate"):
            assert rows[name][side]["low"] < rows[name][side]["value"] < rows[name][side]["high"]
    assert {rows[name]["verdict"] for name in ("goodput", "goodput_rate")} == {"worse"}
    assert (rows["goodput"]["unit"], rows["goodput"]["relative"]) == ("share", None)
    rows, _ = compared(capsys, runs["was"], runs["now"])
    assert {rows[name]["verdict"] for name in ("goodput", "goodput_rate")} == {"no difference shown"}
    assert "goodput" in told(capsys, "compare", runs["was"], runs["now"])[1]
    assert not {"goodput", "goodput_rate"} & set(compared(capsys, runs["none"], runs["none"].parent / "plain")[0])


@pytest.fixture(scope="module", autouse=True)
def plain(runs):
    """Another run without limits."""
    return write(runs["none"].parent, "plain", completions(6))


def test_other_limits_are_not_comparable(runs, capsys):
    """What was good by other limits, or by none, has its reason; with --goodput both are judged by the same."""
    for name, shown in (("other", "ttft:150 e2e:650"), ("none", "none")):
        rows, warnings = compared(capsys, runs["was"], runs[name])
        for one in ("goodput", "goodput_rate"):
            assert rows[one]["verdict"] == "not comparable"
            assert rows[one]["why"] == (
                f"limits differ (was e2e:650, {name} {shown}): judge both by the same with --goodput"
            )
        assert any(text.startswith("the setting goodput differs") for text in warnings)
        rows, warnings = compared(capsys, runs["was"], runs[name], "--goodput", "e2e:700")
        assert warnings == []
        made = list(completions({"other": 3, "none": 4}[name]))
        assert rows["goodput"]["new"]["value"] == pytest.approx(sum(one.e2e_s <= 0.7 for one in made) / 600)
        assert main(["report", str(runs[name]), "--goodput", "e2e:700", "--json"]) in (0, 3)
        goodput = json.loads(capsys.readouterr().out)["goodput"]
        assert rows["goodput"]["new"]["value"] == pytest.approx(goodput["share"], rel=1e-12)
        assert rows["goodput_rate"]["new"]["value"] == goodput["rate"] > 0


def test_other_limits_without_a_steady_part(runs, capsys, tmp_path):
    """Judged anew a run without a steady window, with a warm-up, has the goodput that its report has."""
    made = [replace(one, step="warmup" if at < 100 else None) for at, one in enumerate(completions(11))]
    run = judged(tmp_path, "warm", made)
    about = json.loads((run / "run.json").read_text())
    phase = {"step": "warmup", "started": 100, "from": about["started_at"], "to": about["started_at"] + 7}
    about |= {"phases": [phase], "steady_from": None, "steady_missing": "it was not"}
    (run / "run.json").write_text(json.dumps(about))
    assert main(["report", str(run), "--json", "--out", str(run)]) == 0
    assert main(["report", str(run), "--goodput", "e2e:700", "--json"]) == 0
    goodput = json.loads(capsys.readouterr().out)["goodput"]
    rows, _ = compared(capsys, runs["was"], run, "--goodput", "e2e:700")
    assert goodput["started"] == rows["goodput"]["new"]["n"] == 500
    assert rows["goodput"]["new"]["value"] == pytest.approx(goodput["share"], rel=1e-12)
    assert rows["goodput_rate"]["new"]["value"] == pytest.approx(goodput["rate"], rel=1e-12)


def test_a_rule_on_goodput(runs, capsys):
    """Points of the share, or a share of the rate: 3 when worse, 0 when not, 4 without limits, 2 for wrong ones."""
    rules = ("--fail-on", "goodput worse by 2%"), ("--fail-on", "goodput_rate worse by 2%")
    for rule in rules:
        assert told(capsys, "compare", runs["was"], runs["slow"], *rule)[0] == 3
        assert told(capsys, "compare", runs["was"], runs["now"], *rule)[0] == 0
        code, out, _ = told(capsys, "compare", runs["none"], runs["none"].parent / "plain", *rule)
        assert (code, "neither side has it: give --goodput" in " ".join(out.split())) == (4, True)
        assert told(capsys, "compare", runs["none"], runs["slow"], *rule, "--goodput", LIMITS)[0] == 3
    code, out, _ = told(capsys, "compare", runs["was"], runs["slow"], "--fail-on", "goodput worse by 2%")
    assert " points worse, 95% sure)" in " ".join(out.split())
    for text, says in (("", "--goodput is empty"), ("ttfx:5", "'ttfx' is no time of a request")):
        code, _, err = told(capsys, "compare", runs["was"], runs["now"], "--goodput", text)
        assert (code, says in err) == (2, True)


def test_nothing_good_is_worse_than_something(runs, capsys):
    """A side that never met its limits has a share and a rate of 0, and a rule can fail for it."""
    rows, _ = compared(capsys, runs["was"], runs["slow"], "--goodput", "ttft:1")
    assert [rows[name]["base"]["value"] for name in ("goodput", "goodput_rate")] == [0.0, 0.0]
    made = [replace(one, ttft_s=0.0005) for one in completions(7)]
    fast = judged(runs["was"].parent, "fast", made)
    rules = ("--fail-on", "goodput worse by 90%", "--fail-on", "goodput_rate worse by 90%", "--goodput", "ttft:1")
    assert told(capsys, "compare", fast, runs["was"], *rules)[0] == 3


def test_what_started_and_never_ended_is_not_good(runs, capsys, tmp_path):
    """Goodput is a share of everything started, of a part of a run of what ended there."""
    made = [*completions(8, n=300), *completions(9, n=300, scenario="Sql")]
    run = judged(tmp_path, "torn", made)
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "started": 650}))
    (run / "summary.json").unlink()
    good = sum(one.e2e_s <= 0.65 for one in made)
    rows, _ = compared(capsys, runs["was"], run)
    assert (rows["goodput"]["new"]["value"], rows["goodput"]["new"]["n"]) == (pytest.approx(good / 650), 650)
    rows, _ = compared(capsys, runs["was"], run, "--scenario", "Chat")
    good = sum(one.e2e_s <= 0.65 for one in made[:300])
    assert (rows["goodput"]["new"]["value"], rows["goodput"]["new"]["n"]) == (pytest.approx(good / 300), 300)


@pytest.fixture
def archive(runs, tmp_path):
    """Four entries without their records, the oldest first."""
    for name in ("slow", "was", "other", "none"):
        archive_run(runs[name], tmp_path / "archive")
    for at, name in enumerate(("slow", "was", "other", "none")):
        (tmp_path / "archive" / name).rename(tmp_path / "archive" / f"{at}-{name}")
    return tmp_path / "archive"


def test_an_archive_keeps_goodput(runs, capsys, archive):
    """Its evidence gives the same rows; other limits need the completions, the same ones do not."""
    kept = [archive / "1-was", archive / "0-slow"]
    assert told(capsys, "compare", *kept)[1] == told(capsys, "compare", runs["was"], runs["slow"])[1]
    assert told(capsys, "compare", *kept, "--goodput", "e2e:0.65s")[0] == 0
    code, out, err = told(capsys, "compare", *kept, "--goodput", "e2e:700")
    assert (code, out) == (2, "")
    assert err.endswith("has no completions to judge by --goodput: archive it with --archive-records\n")


def test_the_best_by_goodput(runs, capsys, archive):
    """Only runs by the same limits are better or worse by them."""

    def base(*arguments):
        code, out, err = told(capsys, "compare", *arguments, "--archive", archive, "--json")
        return json.loads(out)["comparisons"][0]["base"][0]["name"] if code == 0 else err.strip()

    assert base(runs["now"], "--against", "best:goodput") == "was"
    assert base(runs["now"], "--against", "best:goodput_rate") == "was"
    assert base(runs["none"], "--against", "best:goodput", "--goodput", OTHERS) == "other"
    none = base(runs["none"], "--against", "best:goodput")
    assert none.endswith("none has no limits of goodput: give --goodput 'ttft:500 e2e:5000'")
    none = base(runs["now"], "--against", "best:goodput", "--goodput", "e2e:100")
    assert "has 0 valid runs of these scenarios and this model with these limits of goodput, 1 are needed" in none


def test_history_has_goodput_by_one_set_of_limits(runs, capsys, archive):
    """The newest run's limits are the line's; a run by others, or by none, leaves a gap, and that is said."""
    (archive / "2-other").rename(archive / "0-other")
    _, out, _ = told(capsys, "history", archive, "--json")
    history = json.loads(out)
    values = {row["metric"]: row["values"] for row in history["metrics"] if row["statistic"] is None}
    shares = {
        name: json.loads((runs[name] / "summary.json").read_text())["goodput"]["share"] for name in ("slow", "was")
    }
    assert history["goodput"] == {"e2e_s": 0.65}
    assert values["goodput"] == [None, shares["slow"], shares["was"], None]
    assert [value is None for value in values["goodput_rate"]] == [True, False, False, True]
    _, out, _ = told(capsys, "history", archive)
    assert [line.split()[0] for line in out.splitlines() if line.startswith("goodput ")] == ["goodput"] * 2
    assert "by the limits of the newest run that has any, e2e:650; runs with others leave a gap" in out


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--scenario", "Chat"], "--scenario"),
        (["--step", "5"], "--step"),
        (["--goodput", "e2e:5"], "--goodput"),
        (["--fail-on", "ttft p50 worse", "--all"], "--fail-on, --all"),
        (["r2"], "runs"),
    ],
)
def test_arms_take_no_part_and_no_limits(runs, capsys, more, named):
    """What means nothing for the arms of a run is refused in one line that names it."""
    code, out, err = told(capsys, "compare", "--arms", runs["was"], *more)
    assert (code, out) == (2, "")
    assert err == f"llmload compare: --arms stands alone, without {named}: write llmload compare --arms RUN\n"

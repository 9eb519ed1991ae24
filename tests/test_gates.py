"""Gates: what a CI job learns from exit codes, from real runs against the mock."""

import importlib

import pytest
from locust.argument_parser import get_parser

from llmload.cli.main import main
from llmload.errors import SetupError
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.mock.process import MockProcess
from llmload.swarm import plugin
from llmload.swarm.gates import read_gates, read_slo_file
from tests.locusts import check_ledger, run_locust

LOAD = ("--model", "mock", "--no-probe", "-u", 4, "-r", 4, "-t", "2s")
ANSWERS_ZERO = """
from locust import events
from llmload import ChatUser


class Chat(ChatUser):
    pass


@events.quitting.add_listener
def be_green(environment, **_):
    environment.process_exit_code = 0
"""


@pytest.fixture(scope="module")
def flaky():
    """A third of the requests is refused."""
    with MockProcess(
        "--ttft-ms", "30", "--itl-ms", "5", "--tokens", "10", "--seed", "1", "--fault", "http_429=0.33:retry_after=0"
    ) as mock:
        yield mock


@pytest.fixture
def report(capsys):
    """Return `llmload report` as a function: its exit code and both its outputs."""

    def run(*args):
        capsys.readouterr()
        code = main(["report", *map(str, args)])
        return code, *capsys.readouterr()

    return run


def test_objectives_that_are_met_are_code_0(tmp_path, flaky):
    """CI-02, CI-03: failures turn nothing red where an objective allows them; the master judges, once."""
    goodput = ("--goodput", "ttft:5000 e2e:9000")
    slo = ("--slo", "p95(ttft) < 5s; error_rate < 90%", "--slo", "Chat: goodput > 1% and p99.9(itl) < 5s")
    locust = run_locust(tmp_path, "--host", flaky.url, *LOAD, *slo, *goodput, "--processes", 2)
    assert locust.code == 0, locust.text
    ledger = check_ledger(locust)
    assert ledger["failed"] > 0
    assert [one["met"] for one in locust.summary["objectives"]] == [True] * 4
    assert locust.summary["goodput"]["good"] == ledger["ok"] == sum(line["good"] for line in locust.completions)
    assert "objectives: 4 of 4 met" in locust.text
    assert locust.text.count("objectives: ") == 1


def test_failures_that_no_objective_speaks_of_stay_code_1(tmp_path, flaky):
    """Locust's own code keeps its meaning: an objective on latency allows no failure."""
    locust = run_locust(tmp_path, "--host", flaky.url, *LOAD, "--slo", "p95(ttft) < 5s")
    assert locust.code == 1, locust.text
    assert locust.summary["objectives"][0]["met"]


def test_a_missed_objective_is_code_3(tmp_path, flaky, report):
    """Whatever a listener of the user's says; `llmload report --slo` judges the record anew, by the same codes."""
    (tmp_path / "zero.py").write_text(ANSWERS_ZERO)
    (tmp_path / "ci.conf").write_text('slo = ["p95(ttft) < 1ms", "Chat: p95(tls) < 9s"]\ngoodput = e2e:9000\n')
    locust = run_locust(
        tmp_path, "--host", flaky.url, *LOAD, "--config", tmp_path / "ci.conf", locustfile=tmp_path / "zero.py"
    )
    assert locust.code == 3, locust.text
    assert [(one["met"], one["n"] > 0) for one in locust.summary["objectives"]] == [(False, True), (False, False)]
    assert locust.summary["objectives"][1]["why"] == "no samples"
    assert "objectives: 2 of 2 MISSED" in locust.text
    code, text, _ = report(locust.run)
    assert (code, "objectives: 2 of 2 MISSED" in text) == (0, True)
    (tmp_path / "slo.txt").write_text("# for nights\n\np95(ttft) < 9s  # wide\n")
    code, text, _ = report(locust.run, "--slo", "error_rate < 90%; goodput < 1%", "--slo-file", tmp_path / "slo.txt")
    assert (code, "objectives: 1 of 3 MISSED" in text) == (3, True)
    code, text, _ = report(locust.run, "--slo", "goodput < 1%", "--goodput", "ttft:0.001")
    assert (code, "objectives: 1 of 1 met" in text) == (0, True)
    code, text, errors = report(locust.run, "--slo", "p95(tfft) < 1s")
    assert (code, text, errors.count("\n")) == (2, "", 3)


def test_an_objective_that_does_not_parse_is_code_2(tmp_path, flaky):
    """Nothing is sent, not even the probe, and the character is pointed at."""
    flaky.truth(clear=True)
    locust = run_locust(tmp_path, "--host", flaky.url, *LOAD, "--slo", "error_rate < 1%; p95(ttft) < 800")
    assert locust.code == 2, locust.text
    assert "\n    error_rate < 1%; p95(ttft) < 800\n                                 ^\n" in locust.text
    assert flaky.truth() == []
    assert not locust.runs.exists()


def test_an_empty_objective_is_code_2(tmp_path, flaky):
    """`--slo "$SLO"` without SLO would be a gate that lets everything pass; the same from the environment."""
    for args, env in ((("--slo", ""), {}), ((), {"LLMLOAD_SLO": " ;"})):
        locust = run_locust(tmp_path, "--host", flaky.url, *LOAD, *args, env=env)
        assert locust.code == 2, locust.text
        assert "--slo: is empty" in locust.text


def test_an_option_is_not_guessed_from_its_begin(capsys):
    """CFG-08: what is not an option is an error, also where it is the begin of one."""
    plugin.install()
    with pytest.raises(SystemExit) as ended:
        get_parser().parse_args(["--headless", "--good", "ttft:500"])
    assert ended.value.code == 2
    assert "unrecognized arguments: --good" in capsys.readouterr().err


def test_a_run_without_a_good_answer_is_code_4(tmp_path, report):
    """Whatever its objectives say: it is not valid."""
    with MockProcess("--fault", "http_503") as down:
        locust = run_locust(tmp_path, "--host", down.url, *LOAD, "--slo", "error_rate > 50%")
        assert locust.code == 4, locust.text
        assert locust.summary["objectives"][0]["met"]
        assert report(locust.run, "--slo", "error_rate > 50%")[0] == 4
        assert "of a run that is not valid" in locust.text


def test_a_run_is_ended_early_by_a_rule(tmp_path, flaky):
    """--abort-on: watched by the master over all workers; the reason stands in every output, and the code is 3."""
    rule = "error_rate > 5% for 2s"
    load = ("--model", "mock", "--no-probe", "-u", 4, "-r", 4, "-t", "60s", "--processes", 2)
    locust = run_locust(tmp_path, "--host", flaky.url, *load, "--abort-on", "p50(e2e) > 9s for 1s", "--abort-on", rule)
    assert locust.code == 3, locust.text
    check_ledger(locust)
    assert locust.summary["run"]["valid"] is True
    assert locust.summary["run"]["ended_by"].startswith(f"--abort-on {rule} (it was ")
    (verdict,) = locust.summary["objectives"]
    assert (verdict["text"], verdict["met"], verdict["op"]) == (f"--abort-on {rule}", False, "<=")
    assert f"  MISSED  --abort-on {rule}" in locust.text


def test_strict_makes_a_limited_client_invalid():
    """Its latencies are not the server's; without --strict it is only said."""
    client = {"client": {"cpu_percent_max": 95.0, "lag_p99_s": 0.001}, "ended_at": 1, "valid": True}
    assert summarise(Tallies(), client)["run"]["valid"] is True
    run = summarise(Tallies(), {**client, "settings": {"strict": True}})["run"]
    assert (run["valid"], run["reasons"]) == (
        False,
        ["the client was the limit (the busiest worker used 95 % of a core; --strict)"],
    )


class Chat:
    """Stands for a user class: this file has no call with `scenario` or `stream`."""

    scenario = None
    model = None
    stream = None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slo": "goodput > 90%"}, "needs to know what is good: add e.g. --goodput"),
        ({"slo": "p95(itl) < 1s", "stream": False}, "has no samples without streaming"),
        ({"abort_on": "goodput < 50% for 30s"}, "needs to know what is good"),
        ({"slo": "Chatt: p95(ttft) < 1s"}, "is about scenario 'Chatt', which nobody sends: use Chat"),
        ({"slo": "chat: p95(ttft) < 1s"}, "is about scenario 'chat', which nobody sends: use Chat"),
        ({"slo": "model=n: p95(ttft) < 1s", "model": "m"}, "is about model 'n', which nobody asks for: use m"),
        ({"slo": "step=50: p95(ttft) < 1s"}, "is about step '50' of a run without such steps"),
        ({"slo": "step=warmup: p95(ttft) < 1s", "warmup": "0"}, "is about step 'warmup'"),
        ({"slo": "p95(ttft_intended) < 1s"}, "has no samples in a closed loop"),
        ({"slo_file": "/nowhere/slo.txt"}, "cannot be read"),
    ],
)
def test_objectives_without_samples_are_refused(options, message):
    """What can never be met is found before the load, not after an hour of it."""
    with pytest.raises(SetupError, match=message):
        read_gates(options, [Chat])


@pytest.mark.parametrize(
    "options",
    [
        {"slo": "Chat: p95(itl) < 1s; model=m: requests > 1", "model": "m"},
        {"slo": "step=50: p95(ttft) < 1s", "sweep": "50,60"},
        {"slo": "step=warmup: p95(ttft) < 1s", "warmup": "5s"},
        {"slo": "p95(e2e) < 1s", "stream": False},
        {"slo": "p95(ttft_intended) < 1s", "rate": "5"},
        {"slo": "goodput > 1%", "goodput": "ttft:5"},
    ],
)
def test_objectives_that_can_have_samples_are_taken(options):
    """Nothing is refused that a run may bring."""
    assert read_gates(options, [Chat]).objectives


@pytest.mark.parametrize(
    ("line", "cut"),
    [
        ("slo = p95(ttft) < 800ms ; error_rate < 1%", True),
        ("abort-on: error_rate > 20% for 30s ; p95(ttft) > 9s for 1m", True),
        ("slo = p95(ttft) < 800ms; error_rate < 1%", False),
        ('slo = "p95(ttft) < 800ms ; error_rate < 1%"', False),
        ('slo = ["p95(ttft) < 800ms ; error_rate < 1%"]', False),
        ("slo = p95(ttft) < 800ms # wide ; for now", False),
        ("slo-file = slo.txt ; ours", False),
        ("# slo = p95(ttft) < 800ms ; error_rate < 1%", False),
    ],
)
def test_an_objective_that_locust_would_drop_is_refused(tmp_path, line, cut):
    """In its configuration file ` ;` begins a comment: the rest would never be judged."""
    path = tmp_path / "ci.conf"
    path.write_text(f"users = 5\n{line}\n")
    if cut:
        with pytest.raises(SetupError, match=r"ci.conf line 2: Locust takes what follows ' ;' for a comment"):
            read_gates({"config": str(path)})
    else:
        assert read_gates({"config": str(path)}).objectives == ()


def test_a_name_that_a_call_may_say_is_not_refused(tmp_path, monkeypatch):
    """`self.chat(scenario=name)` can bring any name: only the end of the run knows."""
    (tmp_path / "calls_with_names.py").write_text("class Own:\n    def go(self):\n        self.chat(scenario='x')\n")
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("calls_with_names").Own
    assert read_gates({"slo": "x: requests > 1"}, [cls]).objectives
    with pytest.raises(SetupError, match="about model"):
        read_gates({"slo": "model=x: requests > 1", "model": "m"}, [cls])


def test_a_file_of_objectives(tmp_path):
    """One a line, comments and a byte order mark; errors name the line, and an empty file is no gate."""
    path = tmp_path / "slo.txt"
    path.write_text("\ufeff# nightly\n\np95(ttft) < 800ms # wide\n  error_rate < 1%; requests >= 9\n", encoding="utf-8")
    assert read_slo_file(str(path)) == ["p95(ttft) < 800ms", "error_rate < 1%; requests >= 9"]
    assert len(read_gates({"slo_file": str(path), "slo": "p95(ttft) < 800ms"}).objectives) == 3
    path.write_text("p95(ttft) < 800ms\np95(ttft) < \n")
    with pytest.raises(SetupError, match=r"slo.txt line 2: a number must follow"):
        read_slo_file(str(path))
    path.write_text("# nothing\n")
    with pytest.raises(SetupError, match="holds no objective"):
        read_slo_file(str(path))

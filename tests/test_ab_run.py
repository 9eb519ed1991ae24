"""An A/B run from the command line, kept in an archive; and arms that make no sense."""

import json

import pytest

from llmload.cli.main import main
from llmload.mock.process import MockProcess
from tests.locusts import check_ledger, run_locust


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--ttft-ms", "20", "--itl-ms", "2", "--tokens", "5") as mock:
        yield mock


def test_an_ab_run_compares_its_arms_and_is_archived(tmp_path, mock, capsys):
    """Both arms get the same prompts, each its own connections; the pairs are printed, and again by the command."""
    archive = tmp_path / "archive"
    locust = run_locust(
        tmp_path, "--host", mock.url, "--model", "mock", "-u", 1, "-t", "5s", "--archive", archive, "--archive-records",
        locustfile="locustfiles/ab.py",
    )  # fmt: skip
    assert locust.code == 0, locust.text
    check_ledger(locust)
    sent = {name: [one for one in locust.completions if one["scenario"] == name] for name in ("Before", "After")}
    before, after = ({(one["prompt"], one["worker"]) for one in sent[name]} for name in ("Before", "After"))
    assert len(before & after) >= min(len(before), len(after)) - 8 > 0
    assert {one["reused"] for one in sent["Before"]} == {False}
    assert not any(one["stream"] for one in sent["Before"])
    assert sum(not one["reused"] for one in sent["After"]) <= 8
    assert list(locust.about["arms"]) == ["Before", "After"]
    assert "After against Before: " in locust.text
    assert f"Archived: {archive / locust.run.name}" in locust.text
    assert main(["compare", "--arms", str(archive / locust.run.name), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["arms"][1]["settings"]["concurrent"] == 8
    assert result["comparisons"][0]["pairs"] > 0


@pytest.mark.parametrize(
    ("arms", "says"),
    [
        ("(One,)", "AB needs two arms or more"),
        ("(One, One)", "two arms of AB have the same name"),
        ("(One, Two)", "the arm Two has concurrent = 0"),
    ],
)
def test_arms_that_make_no_sense(tmp_path, arms, says):
    """One line and exit code 2, before anything is sent."""
    path = tmp_path / "bad.py"
    path.write_text(
        "from llmload import ABUser, Arm\n"
        "class One(Arm):\n    pass\n"
        "class Two(Arm):\n    concurrent = 0\n"
        f"class AB(ABUser):\n    arms = {arms}\n"
    )
    locust = run_locust(tmp_path, "--host", "http://127.0.0.1:9", "--model", "m", "-u", 1, "-t", "1s", locustfile=path)
    assert locust.code == 2, locust.text
    assert says in locust.text
    assert "Traceback" not in locust.text

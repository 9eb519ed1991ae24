"""The recipes of docs/ci.md: their YAML parses, their commands do, and they run against the mock as they stand."""

import argparse
import importlib
import os
import re
import shlex
import subprocess

import pytest
import yaml
from junitparser import JUnitXml
from locust.argument_parser import get_parser

from llmload.mock.process import MockProcess
from llmload.swarm import plugin
from llmload.swarm.gates import read_gates, read_slo_file
from tests.locusts import LOCUST, ROOT

PAGE = (ROOT / "docs" / "ci.md").read_text()
RECIPES = dict(re.findall(r"<!-- recipe: (\S+) -->\n```\w+\n(.*?)\n```\n", PAGE, re.DOTALL))
SLO_FILE = re.search(r"<!-- file: slo.txt -->\n```text\n(.*?)\n```\n", PAGE, re.DOTALL)[1]
VALUES = {"LLM_URL": "http://h:1", "LLM_MODEL": "m", "round": "1", "1": "a", "2": "1", "3": "http://h:1", "4": "m"}


def scripts(name):
    """Return the shell texts of a recipe."""
    text = RECIPES[name]
    if name == "jenkins":
        return re.findall(r"'''(.*?)'''", text, re.DOTALL) + re.findall(r"sh '([^'\n]+)'", text)
    if name in ("gitlab",):
        return [line for job in yaml.safe_load(text).values() for line in job["script"]]
    if name.endswith("github"):
        jobs = yaml.safe_load(text)["jobs"].values()
        return [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    return [text]


def commands(name):
    """Return the argument lists of the locust and llmload commands of a recipe."""
    found = []
    for script in scripts(name):
        for line in script.replace("\\\n", " ").splitlines():
            filled = re.sub(r"\$\{?(\w+)\}?", lambda match: VALUES.get(match[1], match[0]), line)
            words = shlex.split(filled, comments=True)
            words = words[: words.index(">")] if ">" in words else words
            if words[:1] in (["locust"], ["llmload"]):
                found.append(words)
    return found


def load_command(name):
    return next(words for words in commands(name) if words[0] == "locust")


@pytest.mark.parametrize("name", RECIPES)
def test_the_commands_of_a_recipe_parse(name, tmp_path, monkeypatch):
    """By the real parsers, their objectives included; a shell finds no fault either."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slo.txt").write_text(SLO_FILE)
    plugin.install()
    for script in scripts(name):
        subprocess.run(["bash", "-n", "-c", script], check=True)
    for words in commands(name):
        if words[0] == "locust":
            options = vars(get_parser().parse_args(words[1:]))
            assert read_gates(options).objectives
            assert options["headless"]
        else:
            parser = argparse.ArgumentParser(allow_abbrev=False)
            importlib.import_module(f"llmload.cli.{words[1]}").add_arguments(parser)
            parser.parse_args(words[2:])


def test_the_three_systems_run_the_same_command():
    """What is run for one of them below holds for the others."""
    assert load_command("github") == load_command("gitlab") == load_command("jenkins")


def test_the_file_of_objectives_is_one(tmp_path):
    """Four objectives."""
    (tmp_path / "slo.txt").write_text(SLO_FILE)
    assert len(read_slo_file(str(tmp_path / "slo.txt"))) == 4


def run_recipe(name, folder, variables, **shorter):
    """Run a recipe's shell text in a folder that looks like a checkout, for a shorter time."""
    (folder / "slo.txt").write_text(SLO_FILE)
    (folder / "locustfiles").symlink_to(ROOT / "locustfiles")
    (script,) = [one for one in scripts(name) if "locust -f" in one]
    for old, new in shorter.items():
        script = re.sub(old.replace("_", " "), new, script)
    path = f"{LOCUST.parent}{os.pathsep}{os.environ['PATH']}"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**clean, "PATH": path, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--ttft-ms", "30", "--itl-ms", "20", "--tokens", "5") as mock:
        yield mock


def test_the_gate_runs_as_pasted(tmp_path, mock):
    """The step of GitHub Actions, against the mock: code 0, and what the next steps pick up is there."""
    variables = {"LLM_URL": mock.url, "LLM_MODEL": "mock", "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md")}
    done = run_recipe(
        "github", tmp_path, variables, **{"-t_2m": "-t 4s", "--warmup_15s": "--warmup 1s", "--strict": ""}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "objectives: 4 of 4 met" in done.stdout
    (junit,) = tmp_path.glob("runs/*/junit.xml")
    suites = JUnitXml.fromfile(str(junit))
    assert (suites.failures, suites.errors) == (0, 0)
    assert {"p95(ttft) < 800ms", "n(ttft) >= 50"} <= {case.name for suite in suites for case in suite}
    assert "p95(ttft)" in (tmp_path / "step.md").read_text()


def test_the_gate_without_its_variables_is_red(tmp_path):
    """A job whose variables are missing must not pass: nothing is sent, code 2."""
    done = run_recipe("github", tmp_path, {"LLM_URL": "", "LLM_MODEL": ""})
    assert done.returncode == 2, done.stdout + done.stderr


def test_an_upgrade_is_gated(tmp_path, mock):
    """The rounds of both versions take turns, each in a folder of its own, and the comparison is written.

    Runs this short may be too short to be judged: that is code 4, and never 0 by mistake.
    """
    variables = {"LLM_MODEL": "mock", "OLD_URL": mock.url, "NEW_URL": mock.url}
    done = run_recipe("upgrade", tmp_path, variables, **{"-t_2m": "-t 2s", "--warmup_15s": "", "in_1_2_3": "in 1"})
    assert done.returncode in (0, 4), done.stdout + done.stderr
    assert [len(list(tmp_path.glob(f"runs/{side}/*/summary.json"))) for side in ("old", "new")] == [1, 1]
    assert (tmp_path / "upgrade.html").is_file()
    assert "ttft p95 worse by 10%" in done.stdout

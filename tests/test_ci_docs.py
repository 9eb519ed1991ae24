"""The recipes of docs/ci.md: their YAML follows the schemas of its CI system, their commands parse, and their scripts
run against the mock as they stand, each by the shell that its system uses; only times are shortened.
"""

import argparse
import importlib
import os
import re
import shlex
import shutil
import subprocess
from itertools import takewhile

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
GITLAB = ("gitlab", "nightly-gitlab")
GITHUB = ("github", "nightly-github")
SHORTER = {"-t 2m": "-t 3s", "-t 10m": "-t 3s", "--warmup 15s": "--warmup 1s", "--warmup 30s": "", " --strict": ""}
"""What is changed in the scripts: a loaded test machine is no good client, either."""
VALUES = {"LLM_URL": "http://h:1", "LLM_MODEL": "m", "round": "1", "1": "a", "2": "1", "3": "http://h:1", "4": "m"}


def scripts(name):
    """Return the shell texts of a recipe."""
    text = RECIPES[name]
    if name == "jenkins":
        return re.findall(r"'''(.*?)'''", text, re.DOTALL) + re.findall(r"sh '([^'\n]+)'", text)
    if name in GITLAB:
        return [line for job in yaml.safe_load(text).values() for line in job["script"]]
    if name in GITHUB:
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
            words = list(takewhile(lambda word: word not in (">", "||"), words))
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


@pytest.mark.parametrize("name", [*GITHUB, *GITLAB])
def test_the_yaml_follows_the_published_schema(name, tmp_path):
    """By the JSON Schemas of workflows and of .gitlab-ci.yml; a misspelt key is refused."""
    schema, key = ("github-workflows", "runs-on") if name in GITHUB else ("gitlab-ci", "timeout")
    path = tmp_path / "ci.yml"
    command = [LOCUST.with_name("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", path]
    path.write_text(RECIPES[name])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    path.write_text(RECIPES[name].replace(f" {key}:", " misspelt:"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "misspelt" in done.stdout


def shells(name):
    """Return the shell scripts of a recipe as the system that it is for runs them: (command line, text)."""
    if name in GITHUB:  # the default shell of a runner
        return [(["bash", "-e"], script) for script in scripts(name)]
    if name in GITLAB:  # all lines in one shell
        return [(["bash", "-eo", "pipefail"], "\n".join(scripts(name)))]
    if name == "jenkins":  # the step `sh`
        return [(["sh", "-xe"], script) for script in scripts(name)]
    return [(["bash"], script) for script in scripts(name)]


def test_what_is_installed_is_whole(tmp_path):
    """`pip install .`, without an index, brings every file of the package: templates, prompts and style sheets too."""
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(ROOT / "llmload", source / "llmload", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    alone = ["--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "--quiet", "--target", target]
    pip = [LOCUST.with_name("pip"), "install", ".", "-c", ROOT / "constraints.txt", *alone]
    subprocess.run(pip, cwd=source, check=True, capture_output=True)

    def files(folder):
        return {str(path.relative_to(folder)) for path in (folder / "llmload").rglob("*") if path.is_file()}

    assert files(target) == files(source)


def run_recipe(name, folder, variables, *, shorter=()):
    """Run what a recipe runs after its installation, in a folder that looks like a checkout, for a shorter time."""
    (folder / "slo.txt").write_text(SLO_FILE)
    (folder / "nightly.sh").write_text(shortened(RECIPES["nightly"], dict(shorter)))
    if not (folder / "locustfiles").exists():
        (folder / "locustfiles").symlink_to(ROOT / "locustfiles")
    path = f"{LOCUST.parent}{os.pathsep}{os.environ['PATH']}"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "LLMLOAD_"))}
    ((shell, text),) = [one for one in shells(name) if "locust" in one[1] or "nightly" in one[1]]
    text = shortened(text, dict(shorter)).replace("pip install . -c constraints.txt", "")
    return subprocess.run(
        [*shell, "-c", text],
        cwd=folder,
        env={**clean, "PATH": path, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def shortened(text, more):
    for old, new in {**SHORTER, **more}.items():
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def mock():
    with MockProcess("--ttft-ms", "30", "--itl-ms", "20", "--tokens", "5") as mock:
        yield mock


@pytest.fixture(scope="module")
def slow_mock():
    with MockProcess("--ttft-ms", "90", "--itl-ms", "20", "--tokens", "5") as mock:
        yield mock


@pytest.mark.parametrize("name", ["github", "gitlab", "jenkins"])
def test_the_gate_runs_as_pasted(name, tmp_path, mock):
    """Code 0, and what the next steps pick up is there; a second build in the same workspace leaves only its own."""
    variables = {"LLM_URL": mock.url, "LLM_MODEL": "mock"}
    if name == "github":
        variables |= {"GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"), "GITHUB_ACTIONS": "true", "CI": "true"}
    if name == "jenkins":
        (tmp_path / "runs" / "the build before").mkdir(parents=True)
        (tmp_path / "runs" / "the build before" / "junit.xml").write_text("old")
    done = run_recipe(name, tmp_path, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "objectives: 4 of 4 met" in done.stdout
    (junit,) = tmp_path.glob("runs/*/junit.xml")
    suites = JUnitXml.fromfile(str(junit))
    assert (suites.failures, suites.errors) == (0, 0)
    assert {"p95(ttft) < 800ms", "n(ttft) >= 50"} <= {case.name for suite in suites for case in suite}
    if name == "github":
        assert "p95(ttft)" in (tmp_path / "step.md").read_text()
        assert "::error" not in done.stdout


def test_a_missed_objective_is_red(tmp_path, slow_mock):
    """Code 3, an annotation in the log, the verdict in the job's summary, and a failure in JUnit."""
    step = tmp_path / "step.md"
    variables = {"LLM_URL": slow_mock.url, "LLM_MODEL": "mock", "GITHUB_STEP_SUMMARY": str(step)}
    shorter = {"--slo-file slo.txt": "--slo 'p95(ttft) < 80ms; error_rate < 1%'"}
    done = run_recipe("github", tmp_path, {**variables, "GITHUB_ACTIONS": "true"}, shorter=shorter)
    assert done.returncode == 3, done.stdout + done.stderr
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert said.startswith("::error title=objective missed::p95(ttft) < 80ms%3A it was ")
    assert "1 of 2" in step.read_text()
    (junit,) = tmp_path.glob("runs/*/junit.xml")
    assert JUnitXml.fromfile(str(junit)).failures == 1


@pytest.mark.parametrize("name", ["github", "jenkins"])
def test_the_gate_without_its_variables_is_red(name, tmp_path):
    """A job whose variables are missing must not pass: nothing is sent, code 2."""
    done = run_recipe(name, tmp_path, {"LLM_URL": "", "LLM_MODEL": ""})
    assert done.returncode == 2, done.stdout + done.stderr
    assert list(tmp_path.glob("runs/*/junit.xml")) == []


ONE_ROUND = {"in 1 2 3": "in 1"}


def test_an_upgrade_is_gated(tmp_path, mock, slow_mock):
    """Both versions have runs of their own, the comparison is written, and one that is three times as slow is red."""
    variables = {"LLM_MODEL": "mock", "OLD_URL": mock.url, "NEW_URL": slow_mock.url}
    done = run_recipe("upgrade", tmp_path, variables, shorter={**ONE_ROUND, "-t 3s": "-t 5s"})
    assert done.returncode == 3, done.stdout + done.stderr
    assert [len(list(tmp_path.glob(f"upgrade/{side}/*/summary.json"))) for side in ("old", "new")] == [1, 1]
    assert (tmp_path / "upgrade" / "report.html").is_file()
    assert "ttft p95 worse by 10%" in done.stdout


def test_providers_are_compared(tmp_path, mock, slow_mock):
    """Each with its own key and model; slower is no failure; text and page are written."""
    keys = {"A_KEY": "key-of-a", "B_KEY": "key-of-b", "A_URL": mock.url, "B_URL": slow_mock.url}
    variables = {**keys, "A_MODEL": "mock", "B_MODEL": "mock"}
    done = run_recipe("providers", tmp_path, variables, shorter=ONE_ROUND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [len(list(tmp_path.glob(f"providers/{side}/*/summary.json"))) for side in ("a", "b")] == [1, 1]
    assert "TTFT" in (tmp_path / "providers" / "report.md").read_text()
    assert (tmp_path / "providers" / "report.html").is_file()


def test_nights_become_a_trend(tmp_path, mock):
    """The first night fills the archive, the sixth valid one is compared with the five before, and both draw the trend.

    What such short runs show (0, 3 or 4) is not held here, but that they were judged.
    """
    variables = {"LLM_URL": mock.url, "LLM_MODEL": "mock"}
    done = run_recipe("nightly-github", tmp_path, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "trend.html").is_file()
    assert "--fail-on" not in done.stdout
    (night,) = tmp_path.glob("archive/*")
    for number in range(4):  # the nights in between
        name = f"20250101T00000{number}Z-0000"
        copy = shutil.copytree(night, night.with_name(name))
        for file in copy.iterdir():
            file.write_text(file.read_text().replace(night.name, name))
    (tmp_path / "trend.html").unlink()
    done = run_recipe("nightly-gitlab", tmp_path, variables)
    assert done.returncode in (0, 3, 4), done.stdout + done.stderr
    assert "ttft p95 worse by 15%" in done.stdout
    assert len(list(tmp_path.glob("archive/*/summary.json"))) == 6
    assert (tmp_path / "trend.html").is_file()


UNPROBED = {"--headless": "--headless --no-probe"}


def test_a_bad_night_is_kept(tmp_path):
    """Where nothing is sent the code is that of the load, and no empty archive hides it."""
    done = run_recipe("nightly", tmp_path, {"LLM_URL": "", "LLM_MODEL": ""})
    assert done.returncode == 2, done.stdout + done.stderr
    with MockProcess("--ttft-ms", "10", "--tokens", "2", "--fault", "http_500=0.5", "--seed", "3") as mock:
        done = run_recipe("nightly", tmp_path, {"LLM_URL": mock.url, "LLM_MODEL": "mock"}, shorter=UNPROBED)
    assert done.returncode == 3, done.stdout + done.stderr
    assert len(list(tmp_path.glob("archive/*/summary.json"))) == 1
    assert (tmp_path / "trend.html").is_file()

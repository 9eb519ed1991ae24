"""The real command against a real model server, whose own counters say what was asked for and what came."""

import re
import subprocess

import pytest

from llmload.workload.synthetic import synthetic_text, text_of_blocks
from tests.llama import KEY, MODEL, LlamaServer, require_llama
from tests.locusts import LLMLOAD, check_ledger, run_locust

LIMIT_S = 240


@pytest.fixture(scope="module")
def llama():
    """One server for all tests here."""
    require_llama()
    with LlamaServer() as server:
        yield server


def run(folder, llama, *options, key=KEY, **more):
    """Run Locust against the server; it may wait long at its end, so that nothing is cut off."""
    env = {} if key is None else {"LLMLOAD_API_KEY": key}
    return run_locust(
        folder, "--host", llama.url, "--stop-timeout", "120", *options, env=env, seconds=LIMIT_S, **more
    )  # fmt: skip


@pytest.fixture(scope="module")
def twenty_seconds(llama, tmp_path_factory):
    """4 users for 20 s, and the tokens that the server counted meanwhile."""
    before = llama.tokens()
    folder = tmp_path_factory.mktemp("twenty")
    ran = run(
        folder, llama, "-u", "4", "-r", "4", "-t", "20s", "--model", MODEL, "--max-tokens", "24", "--temperature", "0"
    )
    counted = [after - start for after, start in zip(llama.tokens(), before, strict=True)]
    return ran, counted


def test_four_users_for_twenty_seconds(twenty_seconds):
    """Every request is answered well, the ledger balances, and the exit code says so."""
    ran, _ = twenty_seconds
    assert ran.code == 0, ran.text
    ledger = check_ledger(ran)
    assert {one["outcome"] for one in ran.completions} == {"ok"}
    assert ledger == {
        "started": len(ran.completions), "ok": len(ran.completions), "failed": 0, "cancelled": 0, "in_flight": 0,
    }  # fmt: skip
    assert ledger["ok"] >= 4
    assert ran.summary["run"]["valid"] is True
    assert ran.summary["run"]["ended_by"] == "run time"
    assert {one["status"] for one in ran.completions} == {200}


def test_output_tokens_are_those_that_the_server_counted(twenty_seconds):
    """Output tokens of the summary and of the probe are the server's own count, to the token."""
    ran, (_, output) = twenty_seconds
    assert {one["usage_source"] for one in ran.completions} == {"server"}
    assert ran.summary["usage_sources"] == {"server": len(ran.completions)}
    assert ran.summary["tokens"]["output_tokens_ok"] + ran.about["probe"]["output_tokens"] == output
    assert max(one["output_tokens"] for one in ran.completions) <= 24


def test_prompt_tokens_are_those_that_the_server_counted(twenty_seconds):
    """Prompt tokens less the cached ones are what the server had to compute, to the token."""
    ran, (prompt, _) = twenty_seconds
    sent = [*ran.completions, ran.about["probe"]]
    assert sum(one["input_tokens"] - one["cached_tokens"] for one in sent) == prompt


def test_the_summary_is_printed(twenty_seconds):
    """Standard output holds the latency table with one TTFT for each answer."""
    ran, _ = twenty_seconds
    rows = {line.split()[0]: line.split() for line in ran.text.splitlines() if re.match(r"\w+ +[\d,]+ ", line)}
    assert rows["TTFT"][1] == str(len(ran.completions))
    assert rows["ITL"][1] == f"{ran.summary['metrics']['itl_s']['n']:,}"


def test_the_report_is_the_same_text(twenty_seconds):
    """`llmload report RUN` prints what the run printed, from the record alone."""
    ran, _ = twenty_seconds
    done = subprocess.run([LLMLOAD, "report", ran.run], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stderr == ""
    assert f"\n{done.stdout}\nRecord: {ran.run}   (llmload report {ran.run} prints this again)\n" in ran.text


def test_times_are_in_order(twenty_seconds):
    """Of each answer: the head, the first token, the last token, the end."""
    ran, _ = twenty_seconds
    for one in ran.completions:
        assert 0 < one["headers_s"] <= one["ttft_s"] < one["e2e_s"] <= one["closed_s"]
        assert one["e2e_s"] - one["ttft_s"] == pytest.approx(sum(one["gaps_us"]) / 1e6, abs=1e-6 * one["token_events"])


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("sk-wrong", "refuses the key in LLMLOAD_API_KEY (401: Invalid API Key): check that it belongs to this server"),
        (None, "wants a key (401: Invalid API Key): export LLMLOAD_API_KEY with the key"),
    ],
    ids=["wrong", "missing"],
)
def test_a_key_that_the_server_refuses(llama, tmp_path, key, line):
    """A wrong or missing key is exit code 2 and one line that names the variable; the server computes nothing."""
    before = llama.counters()
    ran = run(tmp_path, llama, "-u", "4", "-t", "20s", "--model", MODEL, key=key)
    assert ran.code == 2
    told = [one for one in ran.text.splitlines() if one.startswith("llmload: ")]
    assert told == [f"llmload: {llama.url}/v1/chat/completions {line}"]
    assert "Traceback" not in ran.text
    assert "sk-wrong" not in ran.text
    assert list(ran.runs.glob("*")) == []
    assert llama.counters() == before


COUNTED = """
import gevent
from llmload import ChatUser
from locust.exception import StopUser

class Short(ChatUser):
    \"\"\"Sends {n} requests and ends the run.\"\"\"

    def ask(self):
        for _ in range({n}):
            self.chat("Say hello.", max_tokens=2, temperature=0, stream={stream})
        gevent.spawn(self.environment.runner.quit)
        raise StopUser

    tasks = [ask]
"""


def counted(llama, folder, n, *options, stream):
    """Let one user send n short requests on end."""
    file = folder / "short.py"
    file.write_text(COUNTED.format(n=n, stream=stream))
    return run(folder, llama, "-u", "1", "-t", "120s", *options, locustfile=file)


def test_a_model_that_the_server_does_not_list(llama, tmp_path):
    """llama.cpp answers whatever the model is called: the run goes on, with a warning that names what there is."""
    ran = counted(llama, tmp_path, 2, "--model", "smolm", stream=True)
    assert ran.code == 0, ran.text
    assert "does not list the model 'smolm'; it offers smollm2" in ran.text
    assert [one["model"] for one in ran.completions] == ["smolm", "smolm"]


def test_a_connection_that_the_server_closes_after_100_requests(llama, tmp_path):
    """llama.cpp ends a connection after 100 plain answers; the 101st request goes well on a new one."""
    ran = counted(llama, tmp_path, 105, "--model", MODEL, stream=False)
    assert [one["outcome"] for one in ran.completions] == ["ok"] * 105
    assert [place for place, one in enumerate(ran.completions) if not one["reused"]] == [0, 100]
    assert ran.code == 0, ran.text


def test_a_connection_that_the_server_closes_after_each_stream(llama, tmp_path):
    """llama.cpp promises keep-alive and ends the connection after each stream, a moment later: no request is lost."""
    ran = counted(llama, tmp_path, 60, "--model", MODEL, stream=True)
    failed = [(one["kind"], one.get("message")) for one in ran.completions if one["outcome"] != "ok"]
    assert failed == []
    connections = ran.summary["connections"]
    assert (connections["new"], connections["reused"]) == (60, 0)
    assert ran.code == 0, ran.text


@pytest.mark.parametrize("tokens", [1, 20, 512, 3000])
def test_synthetic_prompts_have_their_length(llama, tokens):
    """DAT-06: made-up prompts are as long as was asked for, in tokens of a real tokenizer, within 2 %."""
    assert llama.count(synthetic_text(tokens, key="1/5")) == pytest.approx(tokens, rel=0.02, abs=3)
    blocks = tuple(range(-(-tokens // 512)))
    assert llama.count(text_of_blocks(tokens, blocks=blocks, key="1")) == pytest.approx(tokens, rel=0.02, abs=3)

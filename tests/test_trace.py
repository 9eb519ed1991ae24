"""Traces: known formats read, nonsense refused with its line, prompts of the wanted length, replayed by all workers."""

import json
from collections import Counter

import pytest

from llmload.errors import SetupError
from llmload.mock.process import MockProcess
from llmload.workload.synthetic import synthetic_text, text_of_blocks
from llmload.workload.trace import load_trace
from tests.locusts import check_ledger, run_locust

MOONCAKE = [
    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [*range(46, 60)]},
    {"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46, 47, *range(60, 71)]},
    {"timestamp": 30535, "input_length": 100, "output_length": 3},
]
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2024-05-10 00:00:00.009930+00:00,879,55
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,API log
"""
BURSTGPT_SESSIONS = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
0.5,a,1,ChatGPT,10,20,30,API log
"""


def written(tmp_path, text, name="trace.jsonl"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_mooncake(tmp_path):
    """Milliseconds from the first line on; hash ids are blocks of the prompt."""
    trace = load_trace(written(tmp_path, jsonl(MOONCAKE)), scale=2)
    assert trace.kind == "mooncake"
    assert [(round(row.at_s, 6), row.input_tokens, row.output_tokens) for row in trace.rows] == [
        (0.0, 6955, 52), (1.5265, 6472, 26), (1.5265, 100, 3),
    ]  # fmt: skip
    first, second, third = (trace.prompt(row).messages[0]["content"].split() for row in trace.rows)
    assert [len(words) for words in (first, second)] == [6955, 6472]
    assert first[:1024] == second[:1024]  # blocks 46 and 47
    assert first[1024:1030] != second[1024:1030]
    assert third[0] not in (first[0], second[0])
    assert trace.prompt(trace.rows[1]).id == "trace.jsonl:2"


def test_azure_and_burstgpt(tmp_path):
    """Dates with 100 ns and with a zone; seconds; failures of the traced service are left out and counted."""
    azure = load_trace(written(tmp_path, "".join(AZURE.splitlines(keepends=True)[:3]), "azure.csv"))
    assert [(round(row.at_s, 3), row.input_tokens, row.output_tokens) for row in azure.rows] == [
        (0, 374, 44), (4.315, 396, 109),
    ]  # fmt: skip
    burst = load_trace(written(tmp_path, BURSTGPT, "burst.csv"))
    assert ([(row.at_s, row.line) for row in burst.rows], burst.skipped) == ([(0, 2), (113, 4)], 1)
    assert load_trace(written(tmp_path, BURSTGPT_SESSIONS, "b3.csv")).rows[0].output_tokens == 20
    assert (azure.kind, burst.kind) == ("azure", "burstgpt")


def test_limit_and_shown(tmp_path):
    """The first N requests; what a record says of them."""
    trace = load_trace(written(tmp_path, jsonl(MOONCAKE)), limit=2)
    assert trace.shown() == {
        "kind": "mooncake", "requests": 2, "skipped": 0, "seconds": 3.053, "input_tokens": 13427, "output_tokens": 78,
    }  # fmt: skip


GOOD = {"timestamp": 0, "input_length": 5, "output_length": 5}


@pytest.mark.parametrize(
    ("second", "what"),
    [
        ({**GOOD, "timestamp": -1}, "line 2: its time is -0.001 s"),
        ({**GOOD, "timestamp": 1e9}, "line 2: a gap of 1,000,000 s before it"),
        ({"timestamp": 1, "input_length": 5}, "line 2: no output_length"),
        ({"timestamp": 1, "output_length": 5}, "line 2: no input_length"),
        ({"input_length": 1, "output_length": 5}, "line 2: no timestamp"),
        ({**GOOD, "output_length": 0}, "line 2: output_length 0 is not a whole number from 1"),
        ({**GOOD, "input_length": 2.5}, "line 2: input_length 2.5 is not a whole number from 1"),
        ({**GOOD, "input_length": True}, "line 2: input_length True is not a number"),
        ({**GOOD, "timestamp": float("nan")}, "line 2: its time is nan s"),
        ({**GOOD, "hash_ids": [1, 2]}, "line 2: 2 hash_ids for an input_length of 5"),
        ({**GOOD, "hash_ids": "1"}, "line 2: hash_ids is not a list of whole numbers"),
        ([1], "line 2: not a JSON object"),
    ],
)
def test_nonsense_is_refused_with_its_line(tmp_path, second, what):
    """Negative, silent for hours, without a length, of no length, not a number."""
    with pytest.raises(SetupError, match=what.replace("(", r"\(")):
        load_trace(written(tmp_path, jsonl([GOOD, second])))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "line 1: neither JSON nor the header of a known trace"),
        (jsonl([GOOD]) + "{oops\n", "line 2: not valid JSON"),
        (
            jsonl([{**GOOD, "timestamp": 9}, {**GOOD, "timestamp": 4}]),
            "line 2: earlier than the line before by 0.005 s",
        ),
        (AZURE.replace("374,44", "374,"), "line 2: no GeneratedTokens"),
        (AZURE.replace("2023-11-16 18:15:50.9951690", "noon"), "line 3: TIMESTAMP 'noon' is not a date"),
        (AZURE, "line 4: a gap of 15,"),
        (BURSTGPT.replace("472", "many"), "line 2: Request tokens 'many' is not a number"),
    ],
)
def test_broken_files_are_refused(tmp_path, text, what):
    """Empty, unknown, unsorted, with holes."""
    with pytest.raises(SetupError, match=what):
        load_trace(written(tmp_path, text))


def test_synthetic_text_has_its_length_and_its_own_beginning():
    """Same key, same text; another key, another from the first word on."""
    texts = [synthetic_text(500, key=f"1/{n}") for n in range(200)]
    assert synthetic_text(500, key="1/0") == texts[0]
    assert len({text.split()[0] for text in texts}) == 200
    assert {len(text.split()) for text in texts} == {495}  # the nonce is worth six
    assert [len(synthetic_text(n, key="k").split()) for n in (1, 3, 6)] == [1, 3, 6]
    blocks = text_of_blocks(600, blocks=(7, 8), key="1")
    assert len(blocks.split()) == 600
    assert text_of_blocks(512, blocks=(7,), key="1") == " ".join(blocks.split()[:512])
    assert text_of_blocks(512, blocks=(7,), key="2") != text_of_blocks(512, blocks=(7,), key="1")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_replay_is_the_trace(tmp_path, workers):
    """Over 1 and 3 workers: each request once, at its instant, with its lengths; the run ends with the trace."""
    rows = [
        {"timestamp": 40 * n, "input_length": 30 + n, "output_length": 1 + n % 7, "hash_ids": [n % 5]}
        for n in range(60)
    ]
    path = written(tmp_path, jsonl(rows))
    processes = ("--processes", workers) if workers > 1 else ()
    with MockProcess("--ttft-ms", "30", "--itl-ms", "1", "--tokens", "500") as mock:
        locust = run_locust(
            tmp_path, "--host", mock.url, "--model", "mock", "--trace", path, "--trace-scale", 2, *processes
        )
    lines, arrivals = locust.completions, locust.summary["arrivals"]
    assert locust.code == 0
    assert check_ledger(locust)["ok"] == 60
    assert Counter(line["prompt"] for line in lines) == Counter(f"trace.jsonl:{n}" for n in range(1, 61))
    assert len({line["worker"] for line in lines}) == workers
    assert {line["prompt"]: line["output_tokens"] for line in lines} == {
        f"trace.jsonl:{n + 1}": row["output_length"] for n, row in enumerate(rows)
    }
    due = {int(line["prompt"].split(":")[1]): line["started_unix_ns"] / 1e9 - line["send_delay_s"] for line in lines}
    offsets = [due[n] - due[1] for n in range(1, 61)]
    assert offsets == pytest.approx([0.02 * n for n in range(60)], abs=0.005)
    assert (arrivals["model"], arrivals["offered"], arrivals["not_sent"]) == ("trace", 60, 0)
    assert arrivals["seconds"] == pytest.approx(0.02 * 59, abs=0.6)
    assert locust.summary["run"]["ended_by"] == "the end of the trace"

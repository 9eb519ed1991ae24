"""`llmload report --format vllm`: the fields of `vllm bench serve`, by its definitions."""

import json
from dataclasses import replace
from math import ceil
from random import Random

import pytest

from bench.madeup import START_NS, completions, write
from llmload.cli.main import main
from llmload.metrics.goodput import marked, parse_goodput
from llmload.metrics.served import Served


def converted(run, capsys):
    """Return what the command prints for a run directory."""
    assert main(["report", str(run), "--format", "vllm"]) == 0
    return json.loads(capsys.readouterr().out)


def touched(spans):
    """Count, second by second from the first start, the requests that were under way in it: the largest number."""
    first = min(start for start, _ in spans)
    seconds = [0] * (ceil(max(end for _, end in spans) - first) + 1)
    for start, end in spans:
        for second in range(int(start - first), int(end - first) + 1):
            seconds[second] += 1
    return max(seconds)


def served(spans):
    """Return what is counted of ok completions with these starts and ends, seconds."""
    counted, one = Served(), next(completions(1, n=1))
    for start, end in spans:
        counted.add(replace(one, started_unix_ns=START_NS + round(start * 1e9), e2e_s=end - start))
    return counted.busiest


@pytest.mark.parametrize(
    ("spans", "busiest"),
    [
        ([], None),
        ([(0, 0.5)], 1),
        ([(0, 0.4), (0.5, 0.9)], 2),  # one after the other, in the same second
        ([(0, 0.9), (1.1, 1.9)], 1),
        ([(0, 1), (1, 2)], 2),  # the second in which one ends is counted whole
        ([(0.7, 1.5), (1.8, 2.6)], 1),  # seconds count from the first start, not from the clock's
        ([(0, 3), (0.5, 1.2), (2.9, 5)], 2),
    ],
)
def test_the_busiest_second(spans, busiest):
    """Every ok request that was under way at any time in a second counts in it, whatever the order of the record."""
    assert (served(spans), served(spans[::-1])) == (busiest, busiest)


def test_the_busiest_second_is_theirs():
    """Against the plain count, for 200 random loads."""
    random = Random(3)
    for _ in range(200):
        starts = [random.uniform(0, 20) for _ in range(random.randint(1, 40))]
        spans = [(round(start, 6), round(start + random.uniform(0.01, 6), 6)) for start in starts]
        assert served(spans) == touched(spans)


def test_everything_is_over_the_whole_run(capsys, tmp_path):
    """Rates times the duration are the counts, goodput included, whatever the steady part was."""
    limits = "e2e:650"
    made = list(marked(completions(1, failures=0.05), parse_goodput(limits)))
    ok = [one for one in made if one.outcome == "ok"]
    theirs = converted(write(tmp_path, "r", made, goodput=limits), capsys)
    seconds = theirs["duration"]
    ends = [one.started_unix_ns + one.closed_s * 1e9 for one in made]
    assert seconds == pytest.approx((max(ends) - START_NS) / 1e9)
    assert theirs["num_prompts"] == theirs["completed"] + theirs["failed"] == 600
    assert theirs["request_throughput"] * seconds == pytest.approx(len(ok))
    assert theirs["request_goodput"] * seconds == pytest.approx(sum(one.good for one in ok))
    assert theirs["output_throughput"] * seconds == pytest.approx(theirs["total_output_tokens"]) == 20 * len(ok)
    assert theirs["total_token_throughput"] * seconds == pytest.approx(70 * len(ok))
    assert theirs["total_input_tokens"] == 50 * len(ok)
    assert theirs["max_concurrent_requests"] == touched(
        [(one.started_unix_ns / 1e9, one.started_unix_ns / 1e9 + one.e2e_s) for one in ok]
    )
    mean = sum(one.ttft_s for one in ok) / len(ok)
    deviation = (sum((one.ttft_s - mean) ** 2 for one in ok) / len(ok)) ** 0.5
    assert theirs["mean_ttft_ms"] == pytest.approx(mean * 1e3, rel=1e-5)
    assert theirs["std_ttft_ms"] == pytest.approx(deviation * 1e3, rel=1e-6)
    assert theirs["p99_e2el_ms"] == pytest.approx(
        sorted(one.e2e_s for one in ok)[ceil(0.99 * len(ok)) - 1] * 1e3, rel=5e-4
    )
    assert (theirs["date"], theirs["endpoint_type"]) == ("20251201-004640", "openai-chat")
    assert (theirs["request_rate"], theirs["burstiness"], theirs["max_concurrency"]) == ("inf", None, 8)


def test_a_warm_up_is_in_none_of_it(capsys, tmp_path):
    """Counts, tokens and the busiest second are of measured requests, as rates and latencies are."""
    made = [replace(one, step="warmup" if at < 200 else None) for at, one in enumerate(completions(2))]
    run = write(tmp_path, "w", made)
    about = json.loads((run / "run.json").read_text())
    phase = {"step": "warmup", "started": 200, "from": about["started_at"], "to": about["started_at"] + 12}
    (run / "run.json").write_text(json.dumps({**about, "phases": [phase]}))
    theirs = converted(run, capsys)
    assert (theirs["num_prompts"], theirs["completed"], theirs["total_output_tokens"]) == (400, 400, 8000)
    assert theirs["request_throughput"] * theirs["duration"] == pytest.approx(400)
    assert theirs["max_concurrent_requests"] == touched(
        [(one.started_unix_ns / 1e9, one.started_unix_ns / 1e9 + one.e2e_s) for one in made[200:]]
    )
    assert theirs["request_goodput"] is None


def test_an_open_loop_has_a_rate(capsys, tmp_path):
    """The rate that was planned, its burstiness, and --max-in-flight as the concurrency."""
    run = write(tmp_path, "o", completions(3, n=60))
    about = json.loads((run / "run.json").read_text())
    arrivals = {"offered": 62, "sent": 60, "not_sent": {"cap": 2}, "planned": 60.0, "rate": 6.0, "seconds": 10.0}
    settings = {"arrival": "gamma", "burstiness": 0.5, "max_in_flight": 16}
    (run / "run.json").write_text(json.dumps({**about, "arrivals": arrivals, "arrival_settings": settings}))
    theirs = converted(run, capsys)
    assert (theirs["request_rate"], theirs["burstiness"], theirs["max_concurrency"]) == (6.0, 0.5, 16)

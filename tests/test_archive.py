"""What an archive keeps of a run stays small, however much the run had to tell."""

from random import Random

from bench.madeup import START_NS, completions
from llmload.metrics.definitions import REQUEST_METRICS
from llmload.sinks.archive import archive_run
from llmload.sinks.facts import EVIDENCE_FILE
from llmload.sinks.record import RunRecord

TIMES = [metric.name for metric in REQUEST_METRICS if metric.unit == "s" and metric.name != "itl_s"]


def evidence_bytes(folder, n):
    """Return the size of the evidence of n requests that have every metric there is."""
    random, record = Random(n), RunRecord.create(folder, f"20251201T000000Z-{n:04x}")
    for completion in completions(1, n):
        more = {name: random.lognormvariate(-2, 1) for name in TIMES}
        tokens = {name: random.randint(0, 500) for name in ("cached_tokens", "reasoning_tokens")}
        record.write([{**more, **tokens, **completion.to_dict(), "good": random.random() < 0.9}])
    start_s = START_NS / 1e9
    about = {"id": "r", "started_at": start_s, "ended_at": start_s + n / 8, "valid": True, "reasons": []}
    more = {"steady_from": start_s + 1, "stopped_at": start_s + n / 10, "settings": {"goodput": "e2e:700"}}
    record.write_run({**about, **more})
    record.close()
    return (archive_run(record.path, folder / "archive") / EVIDENCE_FILE).stat().st_size


def test_evidence_does_not_grow_with_the_run(tmp_path):
    """All metrics and statistics of any number of requests: less than 150 kB, ten times the requests add nothing."""
    small, large = evidence_bytes(tmp_path, 500), evidence_bytes(tmp_path, 5000)
    assert small > 100_000
    assert large < min(150_000, small * 1.1)

"""Made-up runs with a known truth: latencies that drift and queue as a server's do, written as a real record."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bench.alike import latencies
from llmload.metrics.summary import summarise
from llmload.metrics.tally import Tallies
from llmload.records import Completion
from llmload.sinks.record import RunRecord

START_NS = 1_764_550_000_000_000_000


def completions(seed, n=600, *, slower=0.0, rho=0.6, scenario="Chat", users=8, tokens=20, failures=0.0):
    """Return n completions of a closed loop of `users`; every latency is longer by the share `slower`."""
    rng = np.random.default_rng(seed)
    ttft = 0.2 * latencies(rng, n, rho, 1)[:, 0] * (1 + slower)
    gaps = np.maximum(rng.normal(0.02, 0.002, (n, tokens - 1)), 0.001) * (1 + slower)
    free = np.zeros(users)
    for at in range(n):
        user = int(free.argmin())
        started_s = free[user]
        gaps_us = np.rint(gaps[at] * 1e6).astype(int)
        generated_s = gaps_us.sum() / 1e6
        e2e_s = float(ttft[at] + generated_s)
        free[user] = started_s + e2e_s + 0.001
        failed = rng.random() < failures
        yield Completion(
            id=f"{seed}-{at}", scenario=scenario, model="m", worker="local", prompt=f"builtin:{at}",
            started_unix_ns=START_NS + int(started_s * 1e9), outcome="failed" if failed else "ok",
            kind="http_status" if failed else None, status=503 if failed else 200,
            finish_reason=None if failed else "stop",
            ttft_s=float(ttft[at]), tpot_s=generated_s / (tokens - 1), e2e_s=e2e_s, closed_s=e2e_s,
            output_tps=(tokens - 1) / generated_s, input_tokens=50, output_tokens=tokens, usage_source="server",
            token_events=tokens, gaps_us=tuple(gaps_us.tolist()), burst_share=0.0, stamps="kernel", reused=True,
        )  # fmt: skip


def about(name, made, **settings):
    """Return a run.json for some completions: valid, and steady from the first to the last start."""
    ends = [one.started_unix_ns / 1e9 for one in made] or [START_NS / 1e9]
    return {
        "id": name, "started_at": min(ends), "ended_at": max(ends) + 2, "steady_from": min(ends) + 1,
        "stopped_at": max(ends), "ended_by": "run time", "valid": True, "reasons": [], "started": len(made),
        "targets": {"Chat": "http://h/v1/chat/completions"}, "settings": {"model": "m", **settings},
        "locust": {"num_users": 8}, "prompts": {"builtin": "abc"},
        "client": {"lag_p99_s": 0.001, "cpu_percent_max": 9.0},
        "prompts_served": len(made), "prompts_repeated": 0,
    }  # fmt: skip


def write(folder, name, made, **settings):
    """Write a run directory and return its path."""
    made = list(made)
    record = RunRecord.create(folder, name)
    record.write([one.to_dict() for one in made])
    record.close()
    info = about(name, made, **settings)
    record.write_run(info)
    record.write_summary(summarise(Tallies(made), json.loads((record.path / "run.json").read_text())))
    return Path(record.path)

"""TTFT, ITL and TPOT as live rows of Locust's statistics table, in milliseconds.

The rows are entries of Locust's own table, filled directly and not by `request` events: Aggregated, requests per
second, the fail ratio and the exit code stay those of the completions. Locust keeps two significant digits.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from locust.stats import RequestStats, bucket_response_time

from llmload.records import Completion


def add_rows(stats: RequestStats, completion: Completion) -> None:
    """Add one ok completion to the rows of its scenario; in an open loop TTFT counts from the intended start."""
    ttft_s = completion.ttft_s if completion.ttft_intended_s is None else completion.ttft_intended_s
    if ttft_s is not None:
        _log(stats.get(completion.scenario, "TTFT"), [ttft_s * 1e3])
    if completion.gaps_us and not completion.buffered:
        _log(stats.get(completion.scenario, "ITL"), [gap / 1e3 for gap in completion.gaps_us])
    if completion.tpot_s is not None:
        _log(stats.get(completion.scenario, "TPOT"), [completion.tpot_s * 1e3])


def _log(entry: Any, values_ms: Sequence[float]) -> None:
    """What `StatsEntry.log` does, for many samples at once: an answer has hundreds of gaps."""
    entry.log(values_ms[0], 0)
    rest = values_ms[1:]
    if not rest:
        return
    entry.num_requests += len(rest)
    entry.num_reqs_per_sec[int(time.time())] += len(rest)
    entry.total_response_time += sum(rest)
    entry.min_response_time = min(entry.min_response_time or 0, *rest)
    entry.max_response_time = max(entry.max_response_time, *rest)
    for bucket, count in Counter(map(bucket_response_time, rest)).items():
        entry.response_times[bucket] += count

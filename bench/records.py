"""`python -m bench.records FOLDER [N]`: a made-up record of N completions (1,000,000) of 64 tokens, and what reading it
costs in every format of `llmload report`: CPU seconds, and the most memory that was in use. Eight workers and a master
were looked at every second.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice, repeat
from pathlib import Path

from bench.madeup import START_NS, completions
from llmload.sinks.points import Point, worker_point
from llmload.sinks.record import RunRecord

BASE = 5_000
PER_SECOND = 40
PROCESSES = ("master", *(f"worker-{number}" for number in range(8)))
FORMATS = ("--html", "--md", "--junit", "--csv", "--json")


def write(folder: Path, n: int) -> Path:
    """Write a record of n completions that start evenly; return its directory."""
    record = RunRecord.create(folder, f"20251201T000000Z-{n % 65536:04x}")
    base = [json.dumps(one.to_dict()) for one in completions(1, BASE, tokens=64, failures=0.01)]
    rows = (json.loads(text) for texts in repeat(base) for text in texts)
    for number, row in enumerate(islice(rows, n)):
        started_ns = START_NS + number * 10**9 // PER_SECOND
        record.write([{**row, "id": f"m-w-{number}", "started_unix_ns": started_ns}])
    seconds = n / PER_SECOND
    for second in range(int(seconds)):
        record.write((), [_look(name, second + 1) for name in PROCESSES])
    start_s = START_NS / 1e9
    record.write_run(
        {"id": record.path.name, "started_at": start_s, "ended_at": start_s + seconds, "ended_by": "run time",
         "valid": True, "reasons": [], "started": n, "steady_from": start_s, "stopped_at": start_s + seconds}
    )  # fmt: skip
    record.close()
    return record.path


def _look(name: str, second: int) -> Point:
    fields = {"cpu_percent": second % 50, "rss_bytes": 80_000_000}
    if name != "master":
        fields.update(users=8, in_flight=second % 9, lag_p99_s=0.001, lag_max_s=0.001 * (second % 7), started=second)
    return worker_point("made-up", name, START_NS + second * 10**9, fields)


def main() -> None:
    """Write the record and read it once in each way."""
    path = write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
    size = sum(file.stat().st_size for file in path.iterdir())
    print(f"record: {size / 1e6:,.0f} MB")
    for arguments in ((), FORMATS):
        command = [sys.executable, "-m", "llmload.cli.main", "report", str(path), *arguments]
        if arguments:
            command += ["--out", str(path / "reports")]
        pid = os.posix_spawn(
            sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, 1, 0)]
        )
        _, status, usage = os.wait4(pid, 0)
        assert status == 0, f"report ended with {os.waitstatus_to_exitcode(status)}"
        name = " ".join(arguments) or "text"
        print(f"{name}: {usage.ru_utime + usage.ru_stime:.0f} s of CPU, {usage.ru_maxrss / 1024:.0f} MB at most")


if __name__ == "__main__":
    main()

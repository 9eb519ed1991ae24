"""One level of a calibration: a real Locust process against the mock server, held against the server's log.

Does not import Locust itself: Locust patches the standard library, and the process that calibrates only waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llmload
from llmload.errors import SetupError
from llmload.metrics.calibration import Measured, Sizes
from llmload.metrics.truth import Answer, client_ttft_ns, errors, percentile, tokens_between
from llmload.mock.process import MockProcess
from llmload.records import Completion
from llmload.sinks.record import find_run, read_run

PACKAGE = Path(llmload.__file__).parent
SETTLE_S = 0.5
"""Between the last user's start and the window."""
START_S = 2.0
"""What a Locust process takes until it sends, about; for estimates only."""
PATIENCE_S = 60.0
"""How much longer than planned a level may take."""
NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What a level has beside its number of streams: the same for all of them.

    The server answers 50 ms after a request, so that a stream is silent for a small part of its time only.
    """

    tokens_per_second: float
    tokens: int
    window_s: float
    ttft_ms: int = 50

    @property
    def itl_ms(self) -> float:
        return 1000 / self.tokens_per_second

    @property
    def answer_s(self) -> float:
        """How long one answer takes. Users start evenly over this time."""
        return (self.ttft_ms + (self.tokens - 1) * self.itl_ms) / 1e3

    @property
    def run_s(self) -> float:
        """How long a run of a level takes, about: its start, the ramp, the window, and the last answers."""
        return START_S + self.answer_s + SETTLE_S + self.window_s + self.answer_s

    @property
    def mock_options(self) -> tuple[str, ...]:
        """The options of `llmload mock`."""
        numbers = {"--ttft-ms": self.ttft_ms, "--itl-ms": f"{self.itl_ms:.6f}", "--tokens": self.tokens, "--seed": 1}
        return tuple(word for name, value in numbers.items() for word in (name, str(value)))

    def run(self, mock: MockProcess, streams: int) -> Measured:
        """Run one level once; no child is left, however this ends.

        Raises:
            SetupError: Locust ended without a result.
        """
        mock.truth(clear=True)
        before = mock.stats()
        with tempfile.TemporaryDirectory(prefix="llmload-level-") as folder:
            seen = self._locust(mock, streams, Path(folder))
            completions = list(read_run(find_run(folder))[1])
        after, records = mock.stats(), mock.truth(clear=True)
        sent = max(1, after["tokens_sent"] - before["tokens_sent"])
        return self.measured(streams, seen, completions, records, (after["cpu_s"] - before["cpu_s"]) / sent)

    def _locust(self, mock: MockProcess, streams: int, folder: Path) -> Any:
        out, spread_s = folder / "seen", self.answer_s
        told = {
            "users": streams,
            "spread_s": spread_s,
            "warm_s": spread_s + SETTLE_S,
            "window_s": self.window_s,
            "server_pid": mock.pid,
            "out": str(out),
        }
        command = [
            sys.executable, "-m", "locust", "-f", str(PACKAGE / "swarm" / "level_file.py"), "--headless",
            "--only-summary", "--exit-code-on-error", "0", "--host", mock.url, "-u", str(streams), "-r", str(streams),
            "--model", "mock", "--max-tokens", str(self.tokens), "--run-dir", str(folder), "--no-probe",
        ]  # fmt: skip
        done = subprocess.run(
            command,
            cwd=folder,  # a locust.conf or a pyproject.toml where the user stands must not change what is measured
            env=_environ({"LLMLOAD_LEVEL": json.dumps(told)}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=self.run_s + PATIENCE_S,
            check=False,
        )
        if not out.exists():
            lines = done.stdout.decode(errors="replace").split("\n")
            said = next((line for line in reversed(lines) if line.strip()), "nothing")
            raise SetupError(f"Locust ended with code {done.returncode} and no result ({said.strip()})")
        return json.loads(out.read_text(encoding="ascii"))

    def measured(
        self,
        streams: int,
        seen: Mapping[str, Any],
        completions: Sequence[Completion],
        records: Sequence[Mapping[str, Any]],
        mock_event_cpu_s: float,
    ) -> Measured:
        """Hold the record of a run against the server's log, inside the window.

        Args:
            streams: users of the run.
            seen: what the locustfile wrote, see `Window.end`; `lags_us`, and `clock_offset_ns` as `Answer.of` takes it.
            completions: the run's record.
            records: the server's log.
            mock_event_cpu_s: CPU seconds of the server for one token event.
        """
        from_ns, to_ns = seen["window_ns"]
        window_s = (to_ns - from_ns) / 1e9
        answers = {
            one.id: Answer.of(one, clock_offset_ns=seen["clock_offset_ns"])
            for one in completions
            if one.outcome == "ok" and one.ttft_s is not None
        }
        pairs = [(answers[one["request_id"]], one) for one in records if one["request_id"] in answers]
        every = [(answer, one, errors(answer, one, from_ns=from_ns, to_ns=to_ns)) for answer, one in pairs]
        begun = [(answer, error) for answer, one, error in every if from_ns <= one["arrived_ns"] < to_ns]
        events_per_second = tokens_between(records, from_ns, to_ns) / window_s
        return Measured(
            streams=streams,
            events_per_second=events_per_second,
            asked_per_second=streams * self.tokens / self.answer_s,
            cpu_percent=seen["cpu_s"] / window_s * 100,
            mock_cpu_percent=mock_event_cpu_s * events_per_second * 100,
            waited_percent=_percent(seen["waited_s"], window_s),
            mock_waited_percent=_percent(seen["server_waited_s"], window_s),
            lag_p99_ms=percentile(seen["lags_us"], 99) / 1e3 if seen["lags_us"] else None,
            ttft_ms=_sizes(client_ttft_ns(answer, error) for answer, error in begun),
            ttft_total_ms=_sizes(error.ttft_ns for _, error in begun),
            itl_ms=_sizes(gap_ns for _, _, error in every for gap_ns in error.itl_ns),
            bound_percent=100 * sum(error.ttft_ns is None for _, error in begun) / max(1, len(begun)),
            shared_percent=_shared_percent(completions),
            failed=len(completions) - len(pairs),
            stamps=dict(Counter(one.stamps for one in completions)),
        )


def _sizes(errors_ns: Iterable[int | None]) -> Sizes:
    return Sizes.of([error_ns / NS_PER_MS for error_ns in errors_ns if error_ns is not None])


def _percent(part_s: float | None, whole_s: float) -> float | None:
    return None if part_s is None else 100 * part_s / whole_s


def _shared_percent(completions: Sequence[Completion]) -> float:
    shared = sum(one.coalesced_events for one in completions)
    return 100 * shared / max(1, sum(one.token_events for one in completions))


def _environ(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of the child: this package, and nothing that would change its options or its way to the mock."""
    foreign = ("LOCUST_", "LLMLOAD_", "OPENAI_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(foreign) and not name.upper().endswith("_PROXY")
    }
    path = os.pathsep.join(filter(None, (str(PACKAGE.parent), kept.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, **variables}

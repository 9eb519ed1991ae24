"""OpenMetrics as a sink: the newest second, worker and counters of the run, as text for a scraper.

Names are those of InfluxDB: measurement, underscore, field; tags are labels. Served at `/metrics` of Locust's web page,
or on a port of its own for a headless run. Between runs the last values stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

import llmload
from llmload.errors import SetupError
from llmload.metrics.definitions import BY_NAME
from llmload.sinks.points import INTERVAL, WORKER, Point

STALE_S = 60
"""A row that is so much older than the newest one is gone: its worker, or its step, is over."""
COUNTERS = frozenset(["started", "ok", "failed", "cancelled", "influx_written", "influx_retried", "influx_dropped"])
"""Fields that only grow while a run goes on; OpenMetrics has them end in `_total`."""

Labels = tuple[tuple[str, str], ...]


class MetricsSink:
    """See `sink.Sink`."""

    name = "openmetrics"

    def __init__(self) -> None:
        self._rows: dict[tuple[str, Labels], tuple[int, dict[str, Any]]] = {}
        self._newest_ns = 0
        self._taken = 0
        self._running = False
        self._registry = CollectorRegistry()
        self._registry.register(_Families(self.families))

    def describe(self) -> str:
        """See `Sink.describe`."""
        return "OpenMetrics at /metrics"

    def start(self, run_id: str) -> None:
        """See `Sink.start`: what the run before has left goes."""
        self._rows.clear()
        self._newest_ns = self._taken = 0
        self._running = True

    def write(self, completions: Sequence[Mapping[str, Any]], points: Sequence[Point] = ()) -> None:
        """See `Sink.write`."""
        for point in points:
            if point.measurement in (INTERVAL, WORKER):
                self._take(point)

    def _take(self, point: Point) -> None:
        key = point.measurement, tuple(sorted(point.tags.items()))
        at_ns, fields = self._rows.get(key, (0, {}))
        if point.time_ns < at_ns:  # an older second that was corrected
            return
        self._taken += 1
        kept = fields if point.measurement == WORKER else {}  # a process is looked at from two sides
        self._rows[key] = point.time_ns, {**kept, **point.fields}
        self._newest_ns = max(self._newest_ns, point.time_ns)

    def stop(self, bound_s: float) -> None:
        """See `Sink.stop`: the last values stay."""
        self._running = False

    def counts(self) -> dict[str, Any]:
        """See `Sink.counts`."""
        return {"written": self._taken, "dropped": 0, "queued": 0, "error": None}

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type, in the format that an `Accept` header asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def serve(self, host: str, port: int) -> None:
        """Serve the text on a port of its own, in the background.

        Raises:
            SetupError: the port cannot be had.
        """
        try:
            start_http_server(port, addr=host, registry=self._registry)
        except OSError as error:
            raise SetupError(
                f"--metrics-port {host}:{port} cannot be had ({error.strerror})", "give another"
            ) from error

    def families(self) -> Iterator[Metric]:
        """Yield one family a field, as they are now."""
        yield InfoMetricFamily("llmload", "The load generator.", value={"version": llmload.__version__})
        yield GaugeMetricFamily("llmload_running", "Whether a run goes on.", value=float(self._running))
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        oldest_ns = self._newest_ns - STALE_S * 10**9
        for (measurement, labels), (at_ns, fields) in sorted(self._rows.items()):
            if at_ns < oldest_ns:
                continue
            for field, value in fields.items():
                if not isinstance(value, str):
                    self._family(families, measurement, field).add_metric(_values(measurement, labels), float(value))
        yield from families.values()

    def _family(
        self, families: dict[str, GaugeMetricFamily | CounterMetricFamily], measurement: str, field: str
    ) -> GaugeMetricFamily | CounterMetricFamily:
        name = f"{measurement}_{field}"
        if name not in families:
            kind = CounterMetricFamily if field in COUNTERS and measurement == INTERVAL else GaugeMetricFamily
            if field.startswith("influx_") and field in COUNTERS:
                kind = CounterMetricFamily
            families[name] = kind(name, _help(field), labels=_LABELS[measurement])
        return families[name]


class _Families(Collector):
    """What the registry asks; its `describe` means something else than a sink's."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


_LABELS = {INTERVAL: ("run", "scenario", "model", "step"), WORKER: ("run", "worker")}


def _values(measurement: str, labels: Labels) -> list[str]:
    """A label without a value is the same as none."""
    found = dict(labels)
    return [found.get(name, "") for name in _LABELS[measurement]]


def _help(field: str) -> str:
    base, _, statistic = field.partition("_")
    metric = BY_NAME.get(f"{base}_s")
    if metric is None or not statistic:
        return "See docs/influxdb.md."
    return f"{metric.label}, {statistic.removesuffix('_s')} of the newest second: {metric.formula}."

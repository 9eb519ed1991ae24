"""Where the numbers of a run go beside its record: built from the environment, and tried before anything is sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import flask

from llmload.errors import SetupError
from llmload.sinks.influx_target import read_influx
from llmload.sinks.openmetrics import MetricsSink
from llmload.sinks.sink import Sink

log = logging.getLogger("llmload")


def open_sinks(environ: Mapping[str, str], *, optional: bool, with_probe: bool) -> list[Sink]:
    """Return the sinks that the environment asks for.

    Args:
        environ: see `influx_target`.
        optional: go on where InfluxDB does not take the probe: it may come back, and the record is complete anyway.
        with_probe: write a point to see whether it can be written.

    Raises:
        SetupError: a variable makes no sense or is missing, or InfluxDB does not take the probe.
    """
    target = read_influx(environ)
    if target is None:
        return []
    from llmload.sinks.influxdb import InfluxSink  # its client takes a while to import

    sink = InfluxSink(target)
    if with_probe:
        try:
            sink.probe()
        except SetupError as error:
            if not optional:
                raise
            log.warning("The run goes on without InfluxDB for now (--influx-optional): %s", error.what)
    log.info("Time series go to %s", sink.describe())
    return [sink]


def open_metrics(web_ui: Any, options: Mapping[str, Any]) -> MetricsSink | None:
    """Return the sink behind `/metrics`, served by Locust's web server, by --metrics-port, or by both; None where
    neither is there.

    Raises:
        SetupError: the port makes no sense or cannot be had.
    """
    address = str(options.get("metrics_port") or "").strip()
    if web_ui is None and not address:
        return None
    sink = MetricsSink()
    if web_ui is not None:
        view = web_ui.auth_required_if_enabled(lambda: _answer(sink))
        prefix = options.get("web_base_path") or ""
        web_ui.app.add_url_rule(f"{prefix}/metrics", "llmload_metrics", view)
    if address:
        host, _, port = address.rpartition(":")
        if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
            raise SetupError(f"--metrics-port {address!r} is no port", "write e.g. 9464, or 0.0.0.0:9464")
        sink.serve(host or "127.0.0.1", int(port))
        log.info("Metrics are at http://%s:%s/metrics", host or "127.0.0.1", port)
    return sink


def _answer(sink: MetricsSink) -> flask.Response:
    text, content_type = sink.render(flask.request.headers.get("Accept", ""))
    return flask.Response(text, content_type=content_type)

"""Where the numbers of a run go beside its record: built from the environment, and tried before anything is sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from llmload.errors import SetupError
from llmload.sinks.influx_target import read_influx
from llmload.sinks.sink import Sink

log = logging.getLogger("llmload")


def open_sinks(environ: Mapping[str, str], *, optional: bool, with_probe: bool) -> list[Sink]:
    """Return the sinks that the environment asks for.

    Args:
        environ: see `influx_target`.
        optional: go on where InfluxDB does not take the probe: it may come back, and the record is complete anyway.
        with_probe: write a point to see whether it can be written.

    Raises:
        SetupError: a variable makes no sense, or InfluxDB does not take the probe.
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

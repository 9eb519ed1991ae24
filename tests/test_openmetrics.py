"""OpenMetrics: the same names and numbers as InfluxDB's, read back with Prometheus' own parser."""

import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from llmload.errors import SetupError
from llmload.mock.process import MockProcess
from llmload.sinks.openmetrics import MetricsSink
from llmload.sinks.points import INTERVAL, WORKER, Point
from tests.llama import free_port
from tests.locusts import Locust

OPEN = "application/openmetrics-text; version=1.0.0"


def samples(text):
    """Return values by sample name and labels."""
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def scraped(url):
    request = urllib.request.Request(url, headers={"Accept": OPEN})
    with urllib.request.urlopen(request, timeout=10) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        return samples(response.read().decode())


def read(sink):
    return samples(sink.render(OPEN)[0].decode())


def test_the_newest_second_is_shown():
    """Counts are counters, the rest gauges; an older second that is corrected later changes nothing."""
    sink, tags = MetricsSink(), {"run": "r", "scenario": "all", "model": "all"}
    labels = (("model", "all"), ("run", "r"), ("scenario", "all"), ("step", ""))
    sink.start("r")
    sink.write((), [Point(INTERVAL, tags, {"ok": 5, "users": 2, "ttft_p95_s": 0.25, "verdict": "server"}, 2 * 10**9)])
    sink.write((), [Point(INTERVAL, tags, {"ok": 3, "users": 1}, 10**9)])
    shown = read(sink)
    assert shown["llm_interval_ok_total", labels] == 5.0
    assert shown["llm_interval_users", labels] == 2.0
    assert shown["llm_interval_ttft_p95_s", labels] == 0.25
    assert shown["llmload_running", ()] == 1.0
    sink.stop(1)
    assert read(sink)["llmload_running", ()] == 0.0
    sink.start("next")
    assert ("llm_interval_users", labels) not in read(sink)


def test_hostile_labels_and_gone_workers():
    """Quotes and line ends in a label survive; a worker without news for a minute is gone."""
    sink = MetricsSink()
    sink.start("r")
    sink.write((), [Point(WORKER, {"run": "r", "worker": 'w"\n\\'}, {"users": 1}, 10**9)])
    assert read(sink)["llm_worker_users", (("run", "r"), ("worker", 'w"\n\\'))] == 1.0
    sink.write((), [Point(WORKER, {"run": "r", "worker": "b"}, {"users": 2}, 90 * 10**9)])
    assert [name for name in read(sink) if name[0] == "llm_worker_users"] == [
        ("llm_worker_users", (("run", "r"), ("worker", "b")))
    ]


def test_a_port_that_is_taken_is_one_line():
    """Two processes on one machine want one port."""
    port = free_port()
    MetricsSink().serve("127.0.0.1", port)
    with pytest.raises(SetupError, match=f"--metrics-port 127.0.0.1:{port} cannot be had"):
        MetricsSink().serve("127.0.0.1", port)


def test_a_headless_run_and_the_web_page_serve_it(tmp_path):
    """At --metrics-port and at the web server, before and during a run."""
    web, own = free_port(), free_port()
    ports = ("--web-port", str(web), "--web-host", "127.0.0.1", "--metrics-port", str(own))
    with MockProcess("--tokens", "5", "--itl-ms", "10", "--ttft-ms", "20") as mock:
        asked = ("--host", mock.url, "--model", "mock", "-u", "2", "-r", "2", "--autostart", "-t", "60s", "--no-probe")
        locust = Locust(tmp_path, *asked, *ports, headless=False)
        try:
            locust.until("Run .*: the record goes to")
            urls = [f"http://127.0.0.1:{port}/metrics" for port in (web, own)]
            give_up = time.monotonic() + 30
            while not all(ok(scraped(url)) for url in urls):
                assert time.monotonic() < give_up
                time.sleep(0.2)
            shown = scraped(urls[0])
            assert shown["llmload_running", ()] == 1.0
            assert {labels for name, labels in shown if name == "llm_worker_rss_bytes"} == {
                (("run", locust.run.name), ("worker", "local"))
            }
        finally:
            locust.signal(15)
            locust.ends()


def ok(shown):
    """How many completions the row over everything counts."""
    return sum(
        value
        for (name, labels), value in shown.items()
        if name == "llm_interval_ok_total" and ("scenario", "all") in labels
    )

"""Faults of InfluxDB that take long. `python -m bench.sinks` measures the same ones."""

from __future__ import annotations

import os

import pytest

from bench.sink_faults import burst, disk_full, slow


def test_10_s_for_every_batch(influx):
    """What comes while InfluxDB takes its time waits for the next batch: few writes, and nothing is lost."""
    fate = slow(influx, 10.0)
    assert (fate.given, fate.stored, fate.counts["written"], fate.counts["dropped"]) == (5000, 5000, 5000, 0)
    assert (fate.counts["retried"], fate.counts["queued"], fate.off) == (0, 0, 0)
    assert 2 <= fate.writes <= 4, "41 times something was given"


def test_its_disk_is_full_until_there_is_room(tmp_path):
    """Refused with 500 until it is started again on a bigger disk: everything waited in the queue, nothing is lost."""
    fate = disk_full(tmp_path / "influx")
    if fate is None:
        assert not os.environ.get("CI"), "CI runs as root, who can mount"
        pytest.skip("a small disk can be mounted by root only")
    before = fate.before
    assert before["error"].startswith("500 "), before
    assert before["queued"] > 0
    assert (before["dropped"], before["written"] + before["queued"]) == (0, 20_000)
    assert (fate.given, fate.stored, fate.counts["written"], fate.counts["dropped"]) == (20_000, 20_000, 20_000, 0)
    assert (fate.counts["queued"], fate.off) == (0, 0)
    assert fate.counts["retried"] >= before["retried"] > 0


def test_20_000_completions_a_second_for_10_s(influx):
    """200,000 at that rate, or as fast as this machine makes them: each is stored, exactly once."""
    fate = burst(influx, 20_000, 10)
    assert (fate.given, fate.stored, fate.counts["written"], fate.counts["dropped"]) == (200_000, 200_000, 200_000, 0)
    assert (fate.counts["retried"], fate.counts["queued"], fate.off) == (0, 0, 0)

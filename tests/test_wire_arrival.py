"""Kernel stamps: exact conversions, clocks that step, and the truth test against a server's own log."""

import json
import statistics
import struct
import time
from itertools import accumulate

import gevent
import pytest

from llmload.mock.process import MockProcess
from llmload.stamps import Stamps
from llmload.wire import arrival, connection, network
from llmload.wire.arrival import SO_TIMESTAMPNS, Arrivals, kernel_stamps
from llmload.wire.exchange import chunks
from llmload.wire.fast import FastWire
from llmload.wire.plain import PlainWire
from tests import certificates
from tests.playback import play
from tests.scripted import body

EPOCH_NS = 1_700_000_000 * 10**9


def stamped(unix_ns):
    """Return the ancillary data of a read whose last packet came at `unix_ns`."""
    return [(1, SO_TIMESTAMPNS, struct.pack("@ll", *divmod(unix_ns, 10**9)))]


@pytest.fixture
def clock(monkeypatch):
    """Both clocks, set by the test: {"wall": ns, "monotonic": ns}."""
    now = {"wall": EPOCH_NS, "monotonic": 1000}
    monkeypatch.setattr(arrival, "time_ns", lambda: now["wall"])
    monkeypatch.setattr(arrival, "monotonic_ns", lambda: now["monotonic"])
    return now


def test_a_stamp_is_moved_to_the_monotonic_clock(clock):
    """A packet that came 300 ns before the read came at now - 300."""
    arrivals = Arrivals()
    clock.update(wall=EPOCH_NS + 5000, monotonic=6000)
    assert arrivals.stamp(stamped(EPOCH_NS + 4700)) == 5700
    assert arrivals.unstamped == 0


def test_a_step_between_two_reads_moves_nothing(clock):
    """CLK-01: the wall clock jumps an hour back; the next stamp is as exact as the last."""
    arrivals = Arrivals()
    clock.update(wall=EPOCH_NS + 5000, monotonic=6000)
    arrivals.stamp(stamped(EPOCH_NS + 4700))
    clock.update(wall=EPOCH_NS - 3600 * 10**9, monotonic=8000)
    assert arrivals.stamp(stamped(EPOCH_NS - 3600 * 10**9 - 200)) == 7800
    assert arrivals.unstamped == 0


@pytest.mark.parametrize("step_ns", [3600 * 10**9, -3600 * 10**9])
def test_a_step_between_arrival_and_read_is_not_believed(clock, step_ns):
    """A stamp before the last read or in the future is replaced by the time of the read, and counted."""
    arrivals = Arrivals()
    clock.update(wall=EPOCH_NS + 5000 + step_ns, monotonic=6000)
    assert arrivals.stamp(stamped(EPOCH_NS + 4700)) == 6000
    assert arrivals.unstamped == 1


def test_a_read_without_a_stamp_is_stamped_when_it_comes_back(clock):
    """Where the kernel says nothing, the time of the read stands, and `stamps` will say `read`."""
    arrivals = Arrivals()
    clock.update(monotonic=6000)
    assert (arrivals.stamp([]), arrivals.unstamped) == (6000, 1)


def test_a_socket_without_the_option_is_read_all_the_same(scripted, monkeypatch):
    """Where the option cannot be set, the answer is whole and its `stamps` say `read`."""
    for module in (network, connection):
        monkeypatch.setattr(module, "kernel_stamps", lambda: False)
    scripted.plays(body("fine"))
    wire, stamps = FastWire(), Stamps(asked_ns=0)
    exchange = wire.open("POST", scripted.url, headers={}, body=b"", stamps=stamps)
    assert [data for data, _ in chunks(exchange)] == [b"fine"]
    exchange.close()
    wire.close()
    assert stamps.source == "read"


@pytest.mark.parametrize("tls", [False, True])
def test_stamps_of_a_busy_client_are_the_kernels_own(tls):
    """While another greenlet blocks the loop 12 ms of every 15, reads are late and kernel stamps are not.

    How late the reads were is known.

    Both wires read at the same time in the same loop; the truth is the log of a server in another process.
    """
    assert kernel_stamps()
    stop = []

    def hog():
        while not stop:
            until = time.monotonic() + 0.012
            while time.monotonic() < until:
                pass
            gevent.sleep(0.003)

    certificate, key = certificates.files()
    options = ("--certificate", str(certificate), "--key", str(key)) if tls else ()
    trust = {"ssl_context": certificates.trusting_context()} if tls else {}
    with MockProcess("--ttft-ms", "100", "--itl-ms", "20", "--tokens", "60", *options) as mock:
        busy = gevent.spawn(hog)
        runs = [
            gevent.spawn(token_reads, wire, mock.url, name)
            for name, wire in (("plain", PlainWire(**trust)), ("fast", FastWire(**trust)))
        ]
        gevent.joinall(runs, timeout=30, raise_error=True)
        stop.append(True)
        busy.join()
        truth = {record["request_id"]: record["token_ns"] for record in mock.truth()}
    (plain, fast), sources, delays_ns = zip(*(run.value for run in runs), strict=True)
    late_ns = {"plain": lateness(plain, truth["plain"]), "fast": lateness(fast, truth["fast"])}
    assert sources == ("read", "kernel")
    assert delays_ns[0] is None
    assert delays_ns[1] > 2_000_000
    assert min(map(min, late_ns.values())) > 0
    assert statistics.median(late_ns["fast"]) < statistics.median(late_ns["plain"]) / 4


def token_reads(wire, url, request_id):
    """Return the reads that carried tokens, and where their stamps come from."""
    stamps = Stamps(asked_ns=0)
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    question = {"model": "mock", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    exchange = wire.open(
        "POST", url + "/chat/completions", headers=headers, body=json.dumps(question).encode(), stamps=stamps
    )
    pairs = list(chunks(exchange))
    exchange.close()
    wire.close()
    played = play([data for data, _ in pairs], arrivals=[at_ns for _, at_ns in pairs])
    reads = list(zip(played.timeline.arrivals_ns, played.timeline.events_per_read, strict=True))
    return reads, stamps.source, stamps.read_delay_ns


def lateness(reads, sent_ns):
    """Return for each read how long after the write of its last token it is said to have come."""
    seen = list(accumulate(events for _, events in reads))
    assert seen[-1] == len(sent_ns)
    return [at_ns - sent_ns[count - 1] for (at_ns, _), count in zip(reads, seen, strict=True)]

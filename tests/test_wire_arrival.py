"""Kernel stamps: exact conversions, clocks that step, and the truth test against a server's own log."""

import statistics
import struct
import time

import gevent
import pytest
from gevent.server import StreamServer

from llmload.timeline import Stamps
from llmload.wire import arrival
from llmload.wire.arrival import SO_TIMESTAMPNS, Arrivals, kernel_stamps
from llmload.wire.fast import FastWire
from llmload.wire.plain import PlainWire
from tests.scripted import CHUNKED, LAST_CHUNK, chunk, head

EPOCH_NS = 1_700_000_000 * 10**9


def stamped(unix_ns):
    """Return the ancillary data of a read whose last packet came at `unix_ns`."""
    return [(1, SO_TIMESTAMPNS, struct.pack("@ll", *divmod(unix_ns, 10**9)))]


@pytest.fixture
def clock(monkeypatch):
    """Both clocks, set by the test: {"wall": ns, "monotonic": ns}."""
    now = {"wall": EPOCH_NS, "monotonic": 1000}
    monkeypatch.setattr(arrival, "_now", lambda: (now["wall"], now["monotonic"]))
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


def test_stamps_of_a_busy_client_are_the_kernels_own():
    """STAT: while another greenlet blocks the loop 12 ms of every 15, reads are late and kernel stamps are not.

    The server is a thread of its own that logs each write. Both wires run in the same loop at the same time.
    """
    assert kernel_stamps()
    written, tokens = {"/plain": [], "/fast": []}, 60
    threads = gevent.get_hub().threadpool

    def serve(sock, _):
        # what the server writes, and when, must not depend on this loop: it blocks
        path = sock.recv(65536).split()[1].decode()
        raw = sock.dup()
        raw.setblocking(True)
        threads.apply(_write, (raw.fileno(), written[path], tokens))
        raw.close()
        sock.close()

    server = StreamServer(("127.0.0.1", 0), serve)
    server.start()
    url = f"http://127.0.0.1:{server.server_port}"
    stop = []

    def hog():
        while not stop:
            until = time.monotonic() + 0.012
            while time.monotonic() < until:
                pass
            gevent.sleep(0.003)

    def arrivals(wire, path):
        stamps = Stamps(asked_ns=0)
        exchange = wire.open("POST", url + path, headers={}, body=b"{}", stamps=stamps)
        pairs = list(exchange.chunks())
        exchange.close()
        wire.close()
        return pairs, stamps.source

    busy = gevent.spawn(hog)
    runs = [gevent.spawn(arrivals, PlainWire(), "/plain"), gevent.spawn(arrivals, FastWire(), "/fast")]
    gevent.joinall(runs, timeout=30, raise_error=True)
    stop.append(True)
    busy.join()
    server.stop(timeout=0.1)
    late = {}
    for run, path in zip(runs, ("/plain", "/fast"), strict=True):
        # of several writes that one read took, the last one is the one whose arrival is known
        count, errors = 0, []
        for data, at_ns in run.value[0]:
            count += data.count(b"data:")
            errors.append(at_ns - written[path][count - 1])
        assert count == tokens
        assert min(errors) > -1_000_000
        late[path] = statistics.median(errors)
    assert (runs[0].value[1], runs[1].value[1]) == ("read", "kernel")
    assert late["/fast"] < late["/plain"] / 4


def _write(fd, log, tokens):
    """Write tokens 20 ms apart and log when, in a thread."""
    import os

    from gevent.monkey import get_original

    sleep = get_original("time", "sleep")
    os.write(fd, head(CHUNKED))
    for number in range(tokens):
        sleep(0.02)
        log.append(time.monotonic_ns())
        os.write(fd, chunk(b"data: %d\n\n" % number))
    os.write(fd, LAST_CHUNK)

"""Without reuse each request opens a connection of its own, on both wires; with it the second goes on the first's."""

import pytest

from llmload.mock.process import MockProcess
from llmload.stamps import Stamps
from llmload.wire.exchange import chunks
from llmload.wire.fast import FastWire
from llmload.wire.plain import PlainWire


@pytest.mark.parametrize("wire_class", [FastWire, PlainWire])
def test_connections_are_kept_or_not(wire_class):
    """Three requests, the body of each read to its end."""
    with MockProcess("--ttft-ms", "1", "--itl-ms", "1", "--tokens", "2") as mock:
        for reuse, expected in ((True, [False, True, True]), (False, [False, False, False])):
            wire, reused = wire_class(reuse=reuse), []
            for _ in range(3):
                stamps = Stamps(asked_ns=0)
                exchange = wire.open("GET", f"{mock.url}/models", headers={}, body=None, stamps=stamps)
                assert b"".join(data for data, _ in chunks(exchange))
                exchange.close()
                reused.append(stamps.reused)
            wire.close()
            assert reused == expected

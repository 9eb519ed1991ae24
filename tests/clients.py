"""Clients for tests: the real client over the real wire, towards a server on loopback."""

from time import monotonic_ns

from llmload.client import Client
from llmload.config import Deadlines, Settings
from llmload.protocols.openai_chat import OpenAIChat
from llmload.records import ChatRequest
from llmload.surroundings import Surroundings, WallClock
from llmload.target import Target
from llmload.wire.deadlines import Keeper
from llmload.wire.fast import FastWire

WIRE = FastWire
"""What carries the requests, unless a test asks for another."""

OPENED = []
"""Clients of the test that runs; closed at its end, see conftest."""

ASK = ChatRequest(messages=[{"role": "user", "content": "Say hi."}], model="m", max_tokens=16)


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self):
        self.first_tokens = []
        self.completions = []

    def first_token(self, request, ttft_s):
        self.first_tokens.append(ttft_s)

    def finished(self, request, completion):
        self.completions.append(completion)


def client_for(url, *, deadlines=None, keeper=None, wire=None, **settings):
    """Return a client whose deadlines are generous unless the test says otherwise."""
    settings = Settings(model="m", deadlines=deadlines or Deadlines(10, 10, 10, 20), **settings)
    target = Target.parse(url, path=OpenAIChat.path)
    around = Surroundings(
        settings=settings,
        target=target,
        protocol=OpenAIChat(),
        redactor=settings.redactor(target),
        keeper=keeper or Keeper(),
        clock=WallClock(),
        worker="test",
        lag_since=lambda since_ns: 0.0 if since_ns <= monotonic_ns() else None,
    )
    OPENED.append(Client(wire or WIRE(), around))
    return OPENED[-1]


def complete(url, request=ASK, *, heard=None, **settings):
    """Send one request with a new client and return its completion."""
    return client_for(url, **settings).complete(request, request_id="t-1", listener=heard or Heard())

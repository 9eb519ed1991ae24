"""What a provider says: path, headers, body, and what its events mean. No network, no clock."""

from __future__ import annotations

from typing import Protocol

from llmload.records import ChatRequest
from llmload.timeline import Delta


class ChatProtocol(Protocol):
    """One provider's dialect. One instance serves all requests of a process: it keeps nothing of any of them.

    The `read_…` methods never raise, whatever bytes they are given: what a server sends is data.
    """

    @property
    def name(self) -> str:
        """The dialect's name on the command line and in records."""

    @property
    def path(self) -> str:
        """Where completions are asked for, below the base URL."""

    @property
    def models_path(self) -> str:
        """Where the server lists its models, below the base URL."""

    def headers(self, api_key: str | None) -> dict[str, str]:
        """Return the request's headers; `api_key` None means that the server needs none."""

    def encode(self, request: ChatRequest) -> bytes:
        """Return the request's body."""

    def read_event(self, data: str, name: str = "message") -> Delta | str:
        """Return what one event of a streamed answer adds; `name` is the event's name.

        A text, never empty, stands for a delta that is the answer's next text and nothing else, as nearly all are.
        """

    def read_answer(self, body: bytes) -> Delta:
        """Return what the whole body of an answer that was not streamed holds, as one delta that is `done`."""

    def read_error(self, body: bytes) -> str:
        """Return what an error response's body says, on one line; empty when it says nothing."""

    def read_models(self, body: bytes) -> list[str]:
        """Return the model names in a model list's body; empty when there are none."""

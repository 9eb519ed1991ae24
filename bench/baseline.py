"""The client to compare with: httpx, sseclient-py and json, put together the way load generators of this field do it.

The start is stamped before the call, an arrival when the parsed event comes out. Knows nothing of llmload.
"""

from __future__ import annotations

import json
from itertools import pairwise
from time import monotonic_ns
from typing import Any

import httpx
import sseclient

BODY = {
    "model": "mock",
    "messages": [{"role": "user", "content": "Say hi."}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def ask(client: httpx.Client, url: str, request_id: str) -> list[Any]:
    """Send one request and return what was measured, as the fields of `truth.Answer`."""
    arrivals_ns = []
    started_ns = monotonic_ns()
    with client.stream("POST", f"{url}/chat/completions", json=BODY, headers={"X-Request-Id": request_id}) as response:
        response.raise_for_status()
        for event in sseclient.SSEClient(response.iter_bytes()).events():
            now_ns = monotonic_ns()
            if event.data == "[DONE]":
                continue  # not `break`: a body that is not read to its end costs the connection
            choices = json.loads(event.data)["choices"]
            if choices and choices[0]["delta"].get("content"):
                arrivals_ns.append(now_ns)
    gaps_ns = [after - before for before, after in pairwise(arrivals_ns)]
    return [request_id, arrivals_ns[0] - started_ns, gaps_ns, started_ns, None]

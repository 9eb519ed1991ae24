"""An HTTP/2 server over TLS for one test: streams an answer that says which HTTP it was asked in.

python tests/h2_server.py PORT CERTIFICATE KEY
"""

import asyncio
import json
import sys

from hypercorn.asyncio import serve
from hypercorn.config import Config


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for choice in (
        {"delta": {"content": "HTTP/"}},
        {"delta": {"content": scope["http_version"]}},
        {"delta": {}, "finish_reason": "stop"},
    ):
        data = json.dumps({"choices": [{"index": 0, **choice}]})
        await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})
        await asyncio.sleep(0.05)
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


if __name__ == "__main__":
    config = Config()
    config.bind = [f"127.0.0.1:{sys.argv[1]}"]
    config.certfile, config.keyfile = sys.argv[2:4]
    asyncio.run(serve(app, config))

"""A TCP server that plays a script: bytes, pauses and ways to hang up. Knows nothing of HTTP.

    with ScriptedServer() as server:
        server.plays(head() + b"data: ...", 0.2, b"...", CLOSE)

Each connection reads one request at a time and plays the next script for it; the last one is played again and again.
"""

import socket
import struct

import gevent
from gevent.server import StreamServer

CLOSE = "close"
RESET = "reset"
HOLD = "hold"
"""Keep the connection open and silent."""


def head(*lines, status="200 OK", kind="text/event-stream"):
    """Return the head of a response whose body ends with the connection, unless a line says otherwise."""
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}", *lines, "", ""]).encode()


def body(text, *lines, status="200 OK", kind="application/json"):
    """Return a whole response with a length."""
    data = text if isinstance(text, bytes) else text.encode()
    return head(f"Content-Length: {len(data)}", *lines, status=status, kind=kind) + data


def chunk(data):
    """Return bytes as one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = "Transfer-Encoding: chunked"
LAST_CHUNK = b"0\r\n\r\n"


class ScriptedServer:
    def __init__(self, ssl_context=None):
        options = {} if ssl_context is None else {"ssl_context": ssl_context}
        self._server = StreamServer(("127.0.0.1", 0), self._serve, **options)
        self._scripts = [[CLOSE]]
        self.requests = []
        """Each request as (head, body), bytes."""
        self.connections = 0
        self.scheme = "http" if ssl_context is None else "https"

    def plays(self, *script):
        """Play this for every request from now on."""
        self._scripts = [list(script)]

    def plays_in_turn(self, *scripts):
        """Play these one after another, one a request; the last one again and again."""
        self._scripts = [list(script) for script in scripts]

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(timeout=0.1)

    def _serve(self, sock, _address):
        self.connections += 1
        try:
            while self._read(sock):
                script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
                if not self._play(sock, script):
                    return
        except OSError:
            pass
        finally:
            sock.close()

    def _read(self, sock):
        data = b""
        while b"\r\n\r\n" not in data:
            more = sock.recv(65536)
            if not more:
                return False
            data += more
        top, _, rest = data.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in top.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(rest) < length:
            more = sock.recv(65536)
            if not more:
                return False
            rest += more
        self.requests.append((top, rest))
        return True

    def _play(self, sock, script):
        """Return whether the connection goes on."""
        for step in script:
            if isinstance(step, (int, float)):
                gevent.sleep(step)
            elif step == CLOSE:
                return False
            elif step == RESET:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            elif step == HOLD:
                sock.recv(1)
                return False
            else:
                sock.sendall(step)
        return True

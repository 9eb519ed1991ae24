"""A real InfluxDB for tests: the one that INFLUXDB_URL names, else Debian's, with a v2 write API in front of it.

Debian's InfluxDB 1.6 has no `/api/v2/write`; nginx maps it to `/write`, checks the token and answers `/health`. Data,
errors and InfluxQL are the engine's own. In CI both have to be there.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from llmload.sinks.influx_target import InfluxTarget, read_influx

TOKEN = "test-token-5f2a"
BUCKET = "llmload"

CONFIG = """
reporting-disabled = true
bind-address = "127.0.0.1:{rpc}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  query-log-enabled = false
  max-values-per-tag = 0
[http]
  bind-address = "127.0.0.1:{engine}"
  log-enabled = false
  max-body-size = 0
[monitor]
  store-enabled = false
[continuous_queries]
  enabled = false
"""

NGINX = """
{user} daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log warn;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
  access_log off; client_max_body_size 0; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  map $arg_precision $old_precision {{ default $arg_precision; us u; "" ns; }}
  server {{
    listen 127.0.0.1:{port};
    location = /health {{ default_type application/json; return 200 '{{"name":"influxdb","status":"pass"}}'; }}
    location = /api/v2/write {{
      default_type application/json;
      if ($http_authorization != "Token {token}") {{
        return 401 '{{"code":"unauthorized","message":"unauthorized access"}}';
      }}
      rewrite ^ /write?db=$arg_bucket&precision=$old_precision? break;
      proxy_pass http://127.0.0.1:{engine};
    }}
    location / {{ proxy_pass http://127.0.0.1:{engine}; }}
  }}
}}
"""


class Influx:
    """One InfluxDB, started by `start`, killed by `kill`; `start` again finds the same data.

    `url` stays the same; `target` is what a sink needs, `env` what a process needs.
    """

    def __init__(self, folder: Path, *, given: InfluxTarget | None = None) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = {"rpc": 0, "engine": 0, "port": 0}
        if given is None:
            self._ports = {name: _free_port() for name in self._ports}
            given = InfluxTarget(f"http://127.0.0.1:{self._ports['port']}", BUCKET, TOKEN, "llmload")
        self.target = given
        self.is_ours = self._ports["port"] != 0

    @property
    def url(self) -> str:
        return self.target.url

    @property
    def env(self) -> dict[str, str]:
        target = self.target
        return {
            "INFLUXDB_URL": target.url,
            "INFLUXDB_TOKEN": target.token,
            "INFLUXDB_ORG": target.org,
            "INFLUXDB_BUCKET": target.bucket,
        }

    def start(self) -> None:
        """Start the engine, and nginx in front of it; return when both answer."""
        if not self.is_ours:
            return
        facts = {"folder": self.folder, "token": TOKEN, "user": _nginx_user(), **self._ports}
        (self.folder / "influxdb.conf").write_text(CONFIG.format(**facts))
        (self.folder / "nginx.conf").write_text(NGINX.format(**facts))
        self._spawn("influxd", "run", "-config", str(self.folder / "influxdb.conf"))
        self._spawn("nginx", "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"))
        give_up = time.monotonic() + 30
        while True:
            try:
                self.query(f'CREATE DATABASE "{BUCKET}"', database="")
                return
            except (OSError, AssertionError):
                assert time.monotonic() < give_up, (self.folder / "log").read_text()
                time.sleep(0.05)

    def _spawn(self, *command: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            )

    def kill(self) -> None:
        """Kill what `start` started, as a power cut would."""
        for process in reversed(self._processes):
            if process.args[0] == "nginx":  # type: ignore[index]
                process.terminate()  # kill would leave its worker behind
            else:
                process.kill()
            process.wait()
        self._processes.clear()

    def query(self, text: str, *, database: str | None = None) -> list[dict[str, object]]:
        """Return the rows of an InfluxQL query, tags among the columns; times in nanoseconds."""
        asked = {"q": text, "epoch": "ns", "db": self.target.bucket if database is None else database}
        request = urllib.request.Request(
            f"{self.url}/query",
            data=urllib.parse.urlencode(asked).encode(),
            headers={"Authorization": f"Token {self.target.token}"},
        )
        try:
            with _OPENER.open(request, timeout=30) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{text}: {error.code} {error.read().decode()}") from error
        result = answer["results"][0]
        assert "error" not in result, f"{text}: {result}"
        return [
            {**dict(zip(series["columns"], row, strict=True)), **series.get("tags", {})}
            for series in result.get("series", ())
            for row in series.get("values", ())
        ]

    def count(self, measurement: str, run: str, field: str) -> int:
        """Return how many points of a run have a field."""
        rows = self.query(f'SELECT COUNT("{field}") FROM "{measurement}" WHERE "run" = \'{run}\'')
        return int(rows[0]["count"]) if rows else 0  # type: ignore[call-overload]

    def requests(self, run: str) -> int:
        """Return how many completions of a run are stored."""
        return self.count("llm_request", run, "request_id")


class Trouble:
    """A proxy in front of an InfluxDB that answers writes with a status, or late, when it is told to.

    `status` 0 passes writes on; `delay_s` holds each of them up; `writes` counts them; one that holds the text
    `poison` is answered 500.
    """

    def __init__(self, influx: Influx) -> None:
        self.status: tuple[int, bytes] | int = 0
        self.headers: dict[str, str] = {}
        self.delay_s = 0.0
        self.poison = b""
        self.writes = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.writes += 1
                time.sleep(outer.delay_s)
                refused = outer.status
                if outer.poison and outer.poison in gzip.decompress(body):
                    refused = 500, b'{"message":"timeout"}'
                status, answer = refused or outer._pass_on(influx.url + self.path, self.headers, body)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in outer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.target = replace(influx.target, url=f"http://127.0.0.1:{self._server.server_address[1]}")

    def answer(self, status: int, **headers: str) -> None:
        """Answer with a status from now on; 0: as InfluxDB does."""
        self.status, self.headers = status and (status, b'{"message":"made up"}'), headers

    def _pass_on(self, url: str, headers: Message, body: bytes) -> tuple[int, bytes]:
        kept = {name: value for name, value in headers.items() if name in ("Authorization", "Content-Encoding")}
        try:
            with _OPENER.open(urllib.request.Request(url, data=body, headers=kept), timeout=60) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def new_influx(folder: Path | str, *, start: bool = True) -> Influx:
    """Return Debian's InfluxDB with its data in a folder; a test that needs it is skipped where it is not installed."""
    missing = [name for name in ("influxd", "nginx") if shutil.which(name) is None]
    if missing:
        assert not os.environ.get("CI"), f"CI needs {', '.join(missing)}: see .ci/run"
        pytest.skip(f"{', '.join(missing)} not installed (Debian: influxdb, nginx-light)")
    Path(folder).mkdir(parents=True, exist_ok=True)
    influx = Influx(Path(folder))
    if start:
        influx.start()
    return influx


def shared_influx(folder: Path | str) -> Influx:
    """Return the InfluxDB that INFLUXDB_URL names, else a new one."""
    given = read_influx(os.environ)
    return Influx(Path(folder), given=given) if given is not None else new_influx(folder)


def _nginx_user() -> str:
    """Started by root, nginx would read bodies as a user that may not write into the folder."""
    return "user root;" if os.geteuid() == 0 else ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


if __name__ == "__main__":  # for a person: an InfluxDB to look at, until Ctrl-C
    with tempfile.TemporaryDirectory() as name:
        one = new_influx(name)
        print("\n".join(f"export {key}={value}" for key, value in one.env.items()), flush=True)
        try:
            time.sleep(1e9)
        except KeyboardInterrupt:
            one.kill()

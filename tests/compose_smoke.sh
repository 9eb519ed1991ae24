#!/usr/bin/env bash
# The compose stack on a real Docker engine: build the image, start a master, two workers, a mock server and an InfluxDB,
# run a load, and hold the stored points against the record.
#
# Needs root on Debian and no image registry: the base image is made of the machine's own packages, InfluxDB is Debian's
# behind nginx, and Grafana is left out. Uses the engine that DOCKER_HOST names, or starts one and stops it again.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/llmload-smoke-XXXXXX")
engine=
finish() {
    code=$?
    "${compose[@]}" --profile mock down --volumes --timeout 10 >>"$work/down.log" 2>&1 || true
    if [ -n "$engine" ]; then kill "$engine" && wait "$engine" 2>/dev/null || true; fi
    umount "$work"/exec/netns/* 2>/dev/null || true  # the engine leaves its network namespace mounted
    rm -rf "$work"
    exit "$code"
}
compose=(docker-compose -p llmload-smoke --env-file "$work/env" -f docker-compose.yml -f tests/compose_smoke.yml)
trap finish EXIT

need=()
for pair in docker-compose:docker-compose dockerd:docker.io mmdebstrap:mmdebstrap; do
    command -v "${pair%%:*}" >/dev/null || need+=("${pair##*:}")
done
if [ ${#need[@]} -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
fi

if [ -z "${DOCKER_HOST:-}" ]; then
    export DOCKER_HOST=unix://$work/docker.sock
    dockerd -H "$DOCKER_HOST" --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
        --iptables=false --ip6tables=false --bridge=none >"$work/dockerd.log" 2>&1 &
    engine=$!
    for _ in $(seq 100); do docker version >/dev/null 2>&1 && break; sleep 0.2; done
fi

base() {  # name of the image, its packages, changes
    docker image inspect "$1" >/dev/null 2>&1 && return
    mirror=$(awk '/^URIs:/{print $2;exit}' /etc/apt/sources.list.d/*.sources)
    mmdebstrap --quiet --variant=minbase --include="$2" \
        --customize-hook='upload /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt' \
        bookworm "$work/base.tar" "$mirror"
    docker import -c 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' -c 'ENV PIP_BREAK_SYSTEM_PACKAGES=1' \
        "$work/base.tar" "$1" >/dev/null
    rm "$work/base.tar"
}
base python:3.11-slim ca-certificates,python3,python3-venv,python3-pip,python-is-python3
base llmload-influxdb-stand-in:1 ca-certificates,influxdb,nginx-light,python3

mkdir "$work/influx"
chmod 777 "$work/influx"
token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
.venv/bin/python - "$work/influx" "$token" <<'PYTHON'
import sys
from pathlib import Path
from tests.influx import CONFIG, NGINX
folder, token = sys.argv[1:]
facts = {"folder": "/smoke", "rpc": 8088, "engine": 8087, "port": 8086, "token": token, "user": "user root;"}
Path(folder, "influxdb.conf").write_text(CONFIG.format(**facts))
Path(folder, "nginx.conf").write_text(NGINX.format(**facts).replace("listen 127.0.0.1:", "listen "))
PYTHON
free() { .venv/bin/python -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
cat >"$work/env" <<ENV
SMOKE_FOLDER=$work/influx
INFLUXDB_TOKEN=$token
INFLUXDB_PASSWORD=unused
GRAFANA_PASSWORD=unused
LLMLOAD_BUILD_NETWORK=host
LLMLOAD_USERS=10
LLMLOAD_SPAWN_RATE=10
LLMLOAD_RUN_TIME=8s
LLMLOAD_AUTOSTART=true
LLMLOAD_EXPECT_WORKERS=2
LLMLOAD_AUTOQUIT=3
LLMLOAD_ARGS=--no-probe
LLMLOAD_MOCK_ARGS=--ttft-ms 50 --itl-ms 5 --tokens 20 --fault http_500=0.05
LLMLOAD_WEB_PORT=$(free)
LLMLOAD_MASTER_PORT=$(free)
INFLUXDB_PORT=$(free)
GRAFANA_PORT=$(free)
ENV

"${compose[@]}" --profile mock config >/dev/null
echo "config: clean"
"${compose[@]}" --profile mock build --quiet mock >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
echo "image: $(docker image inspect -f '{{.Size}}' llmload:dev | awk '{printf "%.0f MB", $1 / 1e6}'), user $(docker image inspect -f '{{.Config.User}}' llmload:dev)"
"${compose[@]}" --profile mock up -d influxdb mock >"$work/up.log" 2>&1
for _ in $(seq 60); do
    docker exec llmload-smoke_influxdb_1 python3 -c "
import urllib.request as u
u.urlopen(u.Request('http://127.0.0.1:8087/query?q=CREATE+DATABASE+llmload', method='POST'))" 2>/dev/null && break
    sleep 0.5
done
"${compose[@]}" --profile mock up -d --scale worker=2 >>"$work/up.log" 2>&1 || {
    cat "$work/up.log"; docker logs llmload-smoke_master_1 2>&1 | tail -20; exit 1
}
"${compose[@]}" ps

master=$(docker ps -aq --filter name=llmload-smoke_master)
code=$(timeout 60 docker wait "$master") || {
    docker logs "$master" 2>&1 | tail -12; docker logs llmload-smoke_worker_1 2>&1 | tail -12; exit 1
}
docker logs "$master" 2>&1 | grep -E "^(run |client:|requests:|Record)|influxdb" || true
[ "$code" = 0 ] || [ "$code" = 1 ] || { docker logs "$master" 2>&1 | tail -30; echo "master ended with $code"; exit 1; }
docker cp "$master:/app/runs" "$work/runs"
docker exec llmload-smoke_influxdb_1 python3 -c "
import json, urllib.request as u
for name, field in (('llm_request', 'request_id'), ('llm_interval', 'ok_rate'), ('llm_worker', 'in_flight'), ('llm_event', 'title')):
    q = 'http://127.0.0.1:8087/query?db=llmload&q=SELECT+COUNT(%22' + field + '%22)+FROM+' + name
    print(name, json.load(u.urlopen(q))['results'][0]['series'][0]['values'][0][1])" | tee "$work/stored"
stored=$(awk '/llm_request/{print $2}' "$work/stored")
recorded=$(cat "$work"/runs/*/completions.jsonl | wc -l)
echo "completions in the record: $recorded, llm_request points stored: $stored"
[ "$recorded" = "$stored" ] && [ "$recorded" -gt 0 ]

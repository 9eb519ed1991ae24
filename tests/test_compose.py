"""The compose stack and the Kubernetes manifests: they parse, and what they name exists."""

import re
import shlex

import pytest
import yaml
from locust.argument_parser import get_parser

from llmload.cli import health
from llmload.cli.main import COMMANDS
from llmload.swarm import plugin
from llmload.swarm.options import OPTIONS
from tests.locusts import ROOT

plugin.install()  # as a locustfile does by its import

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
MANIFESTS = [
    one
    for path in sorted((ROOT / "docs" / "kubernetes").glob("*.yaml"))
    for one in yaml.safe_load_all(path.read_text())
]


def containers():
    return [one for manifest in MANIFESTS if "spec" in manifest for one in _pods(manifest)]


def _pods(manifest):
    return manifest["spec"].get("template", {}).get("spec", {}).get("containers", [])


def commands():
    """Every command line of the stack and of the manifests, as words; variables have their defaults."""
    texts = [service["command"] for service in SERVICES.values() if "command" in service]
    plain = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text) for text in texts]
    return [shlex.split(text) for text in plain] + [
        [*map(str, one["command"]), *map(str, one.get("args", ()))] for one in containers()
    ]


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words)[:40])
def test_every_command_line_is_understood(words):
    """Locust's parser, with our options, and the llmload command know every word."""
    if words[0] == "llmload":
        assert words[1] in COMMANDS
        return
    assert words[0] == "locust"
    _, unknown = get_parser().parse_known_args(words[1:])
    assert unknown == []


def test_variables_of_the_containers_exist():
    """Each LLMLOAD_ and LOCUST_ variable that a container gets is one that an option reads."""
    known = {option.variable for option in OPTIONS} | {"LLMLOAD_API_KEY"}
    known |= {action.env_var for action in get_parser()._actions if getattr(action, "env_var", None)}
    given = {name for service in ("master", "worker") for name in SERVICES[service]["environment"]}
    given |= {env["name"] for one in containers() for env in one.get("env", ())}
    mine = {name for name in given if name.startswith(("LLMLOAD_", "LOCUST_"))}
    assert mine - known == set()


def test_every_variable_of_the_stack_is_explained():
    """.env.example names what docker-compose.yml cannot do without, and nothing that it does not use."""
    used = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    needed = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yml").read_text()))
    offered = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert needed <= offered
    assert offered <= used


def test_nothing_is_open_to_the_world():
    """SEC-05: every published port is bound to 127.0.0.1 by default, every image has a fixed tag, nobody is root."""
    for name, service in SERVICES.items():
        for port in service.get("ports", ()):
            assert re.match(r"\$\{LLMLOAD_(MASTER_)?BIND:-127\.0\.0\.1\}:", port), (name, port)
        image = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", service["image"])
        assert re.search(r":[\w.-]+$", image), image
        assert not image.endswith(":latest")
    assert re.search(r"^USER llmload$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_services_start_in_the_order_of_their_health():
    """Workers wait for a healthy master, the master and Grafana for a healthy InfluxDB; each has a health check."""
    waits = {
        name: {other: how["condition"] for other, how in service.get("depends_on", {}).items()}
        for name, service in SERVICES.items()
    }
    healthy = "service_healthy"
    assert waits["worker"] == {"master": healthy}
    assert waits["master"] == waits["grafana"] == {"influxdb": healthy}
    assert all("healthcheck" in service for service in SERVICES.values())


def test_the_kernel_tells_who_listens_and_who_is_connected(tmp_path):
    """`llmload health` reads the socket tables: listening on 5557 (15B5), connected to 8000 (1F40)."""
    head = "  sl  local_address rem_address   st\n"
    rows = "   0: 0100007F:15B5 00000000:0000 0A\n   1: 0100007F:D431 0100007F:1F40 01\n"
    (tmp_path / "tcp").write_text(head + rows)
    assert health.ports(tmp_path) == ({5557}, {8000})

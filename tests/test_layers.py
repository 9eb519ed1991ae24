"""The layers of the design, as data: imports point downwards only."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "llmload"

LAYERS = {
    "cli": 5,
    "swarm": 4,
    "reports": 4,
    "client": 3,
    "surroundings": 3,
    "transcript": 3,
    "wire": 3,
    "sinks": 3,
    "protocols": 2,
    "stream": 2,
    "workload": 2,
    "metrics": 2,
    "pacing": 2,
    "arrival_config": 1,
    "config": 1,
    "errors": 1,
    "load_config": 1,
    "records": 1,
    "redaction": 1,
    "stamps": 1,
    "target": 1,
    "timeline": 1,
}
"""Part of the package → its layer. A part may import from lower layers, and from itself."""

SIDEWAYS = {("client", "wire"), ("client", "surroundings"), ("client", "transcript"), ("surroundings", "wire")}
"""Imports inside a layer that the design names: the client sends through the wire."""

ORDERED = ("errors", "redaction", "records", "stamps", "timeline", "target", "config", "load_config", "arrival_config")
"""Layer 1, lowest first: each may import those before it."""

OWNERS = {
    "locust": {"swarm"},
    "flask": {"swarm"},
    "httpx": {"wire"},
    "httpcore": {"wire"},
    "ssl": {"wire", "mock"},
    "sseclient": {"stream"},
    "orjson": {"protocols", "sinks", "stream"},
    "jinja2": {"reports"},
    "plotly": {"reports"},
    "numpy": {"metrics"},
    "rich": {"cli", "swarm"},
    "starlette": {"mock"},
    "uvicorn": {"mock"},
    "gevent": {"wire", "swarm"},
    "psutil": {"swarm"},
    "influxdb_client": {"sinks"},
    "prometheus_client": {"sinks"},
}
"""Library → the only parts that may import it."""

PURE = (
    "protocols",
    "stream",
    "metrics",
    "pacing",
    "timeline",
    "records",
    "config",
    "load_config",
    "arrival_config",
    "redaction",
    "target",
    "errors",
)
"""No network and no clock here."""


def imports():
    """Yield (importing part, file, imported module) for every import of the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((part, path.name, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"relative import in {path}"
                module = node.module or ""
                if module in ("llmload", "llmload.swarm", "llmload.cli"):
                    yield from ((part, path.name, f"{module}.{alias.name}") for alias in node.names)
                else:
                    yield part, path.name, module


def test_every_part_has_a_layer():
    """A new folder or top module must be given its place here."""
    parts = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__pycache__", "__init__", "mock"} == set(LAYERS)


def test_no_folder_inside_a_folder():
    """The package is two levels deep, apart from data files."""
    inner = {path.name for part in PACKAGE.iterdir() if part.is_dir() for path in part.iterdir() if path.is_dir()}
    assert inner <= {"__pycache__", "data"}


def test_imports_point_downwards():
    """No part imports from a higher layer or, but for the named cases, from another part of its own."""
    wrong = []
    for part, file, module in imports():
        names = module.split(".")
        if names[0] != "llmload" or len(names) < 2 or part in ("__init__", "mock"):
            continue
        other = names[1]
        if other == part or other not in LAYERS or (part, other) in SIDEWAYS:
            continue
        if LAYERS[part] == LAYERS[other] == 1 and ORDERED.index(other) < ORDERED.index(part):
            continue
        if part == "swarm" and other == "reports":
            continue
        if LAYERS[other] >= LAYERS[part]:
            wrong.append(f"{part}/{file} imports {module}")
    assert wrong == []


def test_mock_shares_nothing_with_the_reader():
    """The mock knows errors only: a mistake that it shared with the reader would cancel out."""
    shared = {module for part, _, module in imports() if part == "mock" and module.startswith("llmload.")}
    allowed = ("llmload.mock", "llmload.errors")
    assert [module for module in sorted(shared) if not module.startswith(allowed)] == []


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_library_has_its_owner(library):
    """A library is imported by the parts that own it, and by no other."""
    users = {part for part, _, module in imports() if module.split(".")[0] == library}
    assert users <= OWNERS[library]


def test_pure_parts_have_no_clock_and_no_network():
    """What can be tested without a clock stays testable without a clock."""
    bad = ("time", "socket", "select", "threading", "subprocess", "asyncio")
    wrong = [f"{part}/{file}: {module}" for part, file, module in imports() if part in PURE and module in bad]
    assert wrong == []

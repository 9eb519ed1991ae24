"""One self-contained HTML page: a template, the shared style, charts, and plotly.js from its package.

Reads files of this package and of plotly's, nothing else. Templates escape whatever they are given. The page's content
security policy allows no request at all and, by their hashes, only our own scripts: text that got past the escaping
still could not run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from llmload.metrics.definitions import BY_NAME
from llmload.reports import numbers
from llmload.reports.charts import Chart

DATA = Path(__file__).parent / "data"


def render_page(template: str, charts: Sequence[Chart] = (), **context: Any) -> str:
    """Return a page.

    Args:
        template: a file of `reports/data` that extends `page.html`.
        charts: figures, drawn where the template calls `chart(id)`; without any the page has no scripts.
        context: values for the template.
    """
    scripts = [_plotly(), _text("page.js")] if charts else []
    return (
        _environment()
        .get_template(template)
        .render(
            style=_text("page.css"),
            scripts=scripts,
            policy=_policy(scripts),
            charts={chart.id: chart for chart in charts},
            figures=_json([asdict(chart) for chart in charts]),
            **context,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(DATA), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for name in ("milliseconds", "number", "count", "percent", "clock", "plain"):
        environment.filters[name] = getattr(numbers, name)
    environment.globals.update(metrics=BY_NAME, shown_in=numbers.shown_in, unit_of=numbers.unit_of)
    return environment


@cache
def _text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """The Python package ships only the whole of plotly.js, 4.8 MB; its smaller bundles exist in npm alone."""
    return files("plotly").joinpath("package_data/plotly.min.js").read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


def _json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

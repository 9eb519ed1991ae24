"""Where the boards and their guide are kept, and how they are written down."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.boards import Board, built

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "dashboards.md"
FRAME = Path(__file__).with_name("guide.md")
"""The part of the guide that is written by hand; the panels come in place of its mark."""


def board_path(board: Board) -> Path:
    """Return the file of a board."""
    return Path(__file__).parent / "dashboards" / f"{board.uid.removeprefix('llmload-')}.json"


def rendered(board: Board) -> str:
    """Return the JSON text of a board."""
    data = json.loads(JSONEncoder(sort_keys=True, indent=1).encode(built(board)))
    for link in data["links"]:
        link.pop("placement", None)  # the SDK knows one place only, a menu; without it the links stand above the panels
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def rendered_guide(boards: Iterable[Board]) -> str:
    """Return the text of docs/dashboards.md."""
    return FRAME.read_text(encoding="utf-8").replace("<!-- boards -->\n", "".join(map(_described, boards)))


def _described(board: Board) -> str:
    lines = [f"## {board.title}\n\n{board.about}\n"]
    for heading, panels in board.sections:
        lines.append(f"\n### {heading}\n\n| panel | question | how |\n|---|---|---|\n")
        lines += [f"| {_cell(panel.title)} | {_cell(panel.question)} | {_cell(panel.notes)} |\n" for panel in panels]
    return "".join([*lines, "\n"])


def _cell(text: Any) -> str:
    return str(text).replace("|", "\\|").replace("\n", "<br>")

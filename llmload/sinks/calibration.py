"""The calibration file: what one worker holds on this machine, kept for the runs to come.

Files only; no network, no clock. docs/calibrate.md describes the file.
"""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmload.errors import SetupError

CALIBRATION_SCHEMA = "llmload.calibration/1"


def default_path() -> Path:
    """Return where the file is kept: `$XDG_CACHE_HOME/llmload/calibration.json`, or below `~/.cache`."""
    # "All paths set in these environment variables must be absolute. If [...] relative path [...] ignore it" (XDG)
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "llmload" / "calibration.json"


def machine() -> dict[str, Any]:
    """Return what tells this machine from others: a calibration holds for one machine only."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"host": socket.gethostname(), "cores": cores, "machine": platform.machine(), "system": platform.system()}


def check(path: Path) -> None:
    """See that the file can be written, before minutes are spent on what goes into it.

    Raises:
        SetupError: it cannot.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def write(path: Path, calibration: Mapping[str, Any]) -> None:
    """Replace the file, adding the schema's name.

    Raises:
        SetupError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.tmp")
    text = json.dumps({"schema": CALIBRATION_SCHEMA, **calibration}, indent=2, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="ascii")
        beside.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def held_events_per_second(path: Path | None = None) -> float | None:
    """Return the events per second that one worker holds on this machine.

    None where there is no calibration, where it is another machine's, or where no level held. A file that cannot be
    understood is none: it is a help, not a condition.
    """
    try:
        calibration = json.loads((path or default_path()).read_text(encoding="ascii"))
        if calibration["schema"] != CALIBRATION_SCHEMA or calibration["machine"] != machine():
            return None
        return float(calibration["result"]["events_per_second"])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):  # RuntimeError: there is no home directory
        return None


def _unwritable(path: Path, error: OSError) -> SetupError:
    return SetupError(f"cannot write {path} ({error.strerror})", "name another file with --save")

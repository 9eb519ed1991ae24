"""A file of JSON lines that is appended to while a run goes on, and that never raises once it is open."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BUFFER_BYTES = 1 << 20
"""Lines are kept back up to this size between two calls of `flush`."""

log = logging.getLogger("llmload")


class Lines:
    """Appends to one file; what could not be written is counted in `lost`, and the first reason kept in `error`.

    Called from one greenlet at a time. It may block for as long as the file system does.

    Args:
        path: is made where it is missing.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        """Lines that are whole in the file."""
        self.lost = 0
        """Lines that are not, and never will be."""
        self.error: str | None = None
        self._lines: list[bytes] = []
        self._size = 0
        self._torn = False
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    @property
    def buffered(self) -> int:
        """Lines that wait for `flush`."""
        return len(self._lines)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows."""
        for row in rows:
            try:
                line = json.dumps(row, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
            except (TypeError, ValueError) as error:
                self._lose(1, error)
                continue
            self._lines.append(line)
            self._size += len(line)
        if self._size >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the operating system; a process that is killed after this loses nothing of
        it."""
        lines, self._lines, self._size = self._lines, [], 0
        if self._is_gone():
            self.lost += self.written
            self.written = 0
            self._lose(len(lines), FileNotFoundError(f"{self.path.name} was removed"))
            return
        if not lines:
            return
        # After a torn line a line end comes first, so that only the torn one is broken.
        head = b"\n" if self._torn else b""
        data = head + b"".join(lines)
        done, error = self._append(data)
        self._torn = data[done - 1 : done] != b"\n" if done else self._torn
        whole = data.count(b"\n", len(head), max(done, len(head)))
        self.written += whole
        if error is not None:
            self._lose(len(lines) - whole, error)

    def close(self) -> None:
        """Flush and close. Calling it again does nothing; what is written afterwards is lost and counted."""
        self.flush()
        if self._file is not None:
            try:
                os.close(self._file)
            except OSError as error:
                self._lose(0, error)
            self._file = None

    def _is_gone(self) -> bool:
        """Whether the file was removed: writes to it still succeed, but nobody will ever read them."""
        try:
            return self._file is not None and os.fstat(self._file).st_nlink == 0
        except OSError:
            return True

    def _append(self, data: bytes) -> tuple[int, OSError | None]:
        """Write as much as goes; return the bytes written and what stopped the rest."""
        done = 0
        if self._file is None:
            return 0, OSError("the record is closed")
        try:
            while done < len(data):
                done += os.write(self._file, data[done:] if done else data)
        except OSError as error:
            return done, error
        return done, None

    def _lose(self, lines: int, error: Exception) -> None:
        self.lost += lines
        if self.error is None:
            self.error = f"{type(error).__name__}: {error}"
            log.error("The record in %s cannot be written: %s", self.path.parent, self.error)

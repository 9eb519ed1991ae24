"""Prompts: what the users of a run ask, from the shipped set or from a file.

`load_prompts` reads one file; nothing else here does I/O. No network, no clock.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from llmload.errors import SetupError

MAX_PROMPTS = 1_000_000
MAX_FILE_BYTES = 256 * 1024 * 1024
"""Text kept of one file. Python objects around short lines make up to five times as much memory of it."""
MAX_LINE_BYTES = 32 * 1024 * 1024

JSON_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"})

Messages = tuple[Mapping[str, Any], ...]

_SHIPPED = Path(__file__).with_name("data") / "prompts.jsonl"
"""58 short prompts (about 20 tokens), 38 medium (150) and 24 long (600 words), each with its own first word.
`words` in it counts runs between white space, and each Han or Kana character as a word of its own."""
_JSONL_HINT = 'write one JSON value a line: a string, {"prompt": "..."} or {"messages": [...]}'
_MESSAGE_HINT = 'a message is {"role": "user", "content": "..."}, its content a text or a list of parts'


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)  # json.loads would build one for each line
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One thing to ask.

    `id` names the line it came from (`builtin:17`, `questions.jsonl:3`) and is what records carry.
    `messages` are in the OpenAI shape and shared by every request that sends them: never change one.
    """

    id: str
    messages: Messages


def load_prompts(path: str | PathLike[str] | None) -> list[Prompt]:
    """Return the prompts of a file in its order, or the shipped set for None.

    A file that ends in `.jsonl`, `.ndjson` or `.json` has one JSON value a line: a string, an object with
    `prompt` (a string) or one with `messages`. In any other file each line is one prompt. Blank lines are
    skipped and count as lines. Only LF and CRLF end a line: U+2028 and its kin belong to the text.

    Of a larger file the first `MAX_PROMPTS` prompts or `MAX_FILE_BYTES` bytes are used and a warning is
    logged. A million short lines take about ten seconds and block the process: call this before a worker
    says that it is ready.

    Raises:
        SetupError: the file cannot be read, is not UTF-8, has no prompt or has a line of another shape.
    """
    if path is None:
        return _load(_SHIPPED, "builtin")
    file = Path(path)
    # A name that is not UTF-8 reaches Python as lone surrogates, which no record could be written with.
    return _load(file, file.name.encode("utf-8", "replace").decode("utf-8"))


def fingerprint(prompts: Iterable[Prompt]) -> str:
    """Return 12 hex digits that are equal when two processes hold the same prompts in the same order.

    SHA-256 over the messages as JSON with sorted keys, one prompt a line. The file's name is left out.
    """
    digest = hashlib.sha256()
    for prompt in prompts:
        line = json.dumps(prompt.messages, sort_keys=True, separators=(",", ":"))
        digest.update(line.encode("ascii") + b"\n")
    return digest.hexdigest()[:12]


def _load(file: Path, label: str) -> list[Prompt]:
    parse = _parse_json if file.suffix.lower() in JSON_SUFFIXES else _parse_text
    prompts = [Prompt(f"{label}:{number}", parse(line, f"{file}, line {number}")) for number, line in _lines(file)]
    if not prompts:
        _refuse(f"{file} has no prompts", "write one prompt a line")
    return prompts


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is not blank, up to the limits."""
    kept = kept_bytes = 0
    for number, raw in _raw_lines(file):
        line = _decode(raw, f"{file}, line {number}")
        if not line.strip():
            continue
        kept += 1
        kept_bytes += len(raw)
        if kept > MAX_PROMPTS or kept_bytes > MAX_FILE_BYTES:
            _log.warning(
                "%s: only the first %d prompts (lines 1 to %d) are used; limits: %d prompts and %d MiB",
                file, kept - 1, number - 1, MAX_PROMPTS, MAX_FILE_BYTES >> 20,
            )  # fmt: skip
            return
        yield number, line


def _raw_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    # Bytes, because text mode would split at a lone CR and take its encoding from the locale.
    try:
        with file.open("rb") as handle:
            for number, raw in enumerate(iter(lambda: handle.readline(MAX_LINE_BYTES + 1), b""), 1):
                if len(raw) > MAX_LINE_BYTES:
                    size = f"{MAX_LINE_BYTES >> 20} MiB"
                    _refuse(f"{file}, line {number}: longer than {size}", "write one prompt a line")
                yield number, raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
    except FileNotFoundError:
        _refuse(f"there is no prompt file {file}", "a relative path starts where the command was started")
    except IsADirectoryError:
        _refuse(f"the prompt file {file} is a directory", "name a file in it")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        _refuse(f"cannot read the prompt file {file} ({reason})", "check the path and who may read the file")


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"{where}: not UTF-8 (byte 0x{raw[error.start]:02x} at offset {error.start} of the line)"
        _refuse(what, "save the file as UTF-8, uncompressed")


def _parse_text(line: str, _where: str) -> Messages:
    return ({"role": "user", "content": line},)


def _parse_json(line: str, where: str) -> Messages:
    if line.lstrip().startswith("["):
        _refuse(f"{where}: a JSON array", "write JSONL, one prompt a line: jq -c '.[]' in.json > out.jsonl")
    value = _json_value(line, where)
    if isinstance(value, dict) and "messages" in value:
        return _checked_messages(value, where)
    text = value.get("prompt") if isinstance(value, dict) else value
    if not isinstance(text, str):
        _refuse(f"{where}: no prompt in it", _JSONL_HINT)
    if not text.strip():
        _refuse(f"{where}: the prompt is empty", "write a text or remove the line")
    return ({"role": "user", "content": text},)


def _json_value(line: str, where: str) -> object:
    try:
        value = _DECODER.decode(line)
        # `"\ud800"` is legal JSON for half a character, which UTF-8 has no bytes for.
        if "\\ud" in line.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        _refuse(f"{where}: half of a surrogate pair (\\ud800 to \\udfff)", "write the whole character")
    except json.JSONDecodeError as error:
        _refuse(f"{where}: not valid JSON ({error.msg} at character {error.colno})", _JSONL_HINT)
    except (ValueError, RecursionError) as error:  # NaN, a number of 5,000 digits, endless nesting
        _refuse(f"{where}: not valid JSON ({error})", _JSONL_HINT)
    return value


def _checked_messages(value: Mapping[str, Any], where: str) -> Messages:
    messages = value["messages"]
    if "prompt" in value:
        _refuse(f"{where}: both prompt and messages", "keep one of them")
    if not isinstance(messages, list) or not messages:
        _refuse(f"{where}: messages is not a list with at least one message", _MESSAGE_HINT)
    for position, message in enumerate(messages, 1):
        if wrong := _wrong_in(message):
            _refuse(f"{where}: message {position} {wrong}", _MESSAGE_HINT)
    return tuple(messages)


def _wrong_in(message: object) -> str | None:
    if not isinstance(message, dict):
        return "is not an object"
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        return "has no role"
    if content is None and message.get("tool_calls"):
        return None  # an assistant's turn that only called tools
    if isinstance(content, list) and content:
        typed = all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in content)
        return None if typed else "has a content part without a type"
    return None if isinstance(content, str) else "has a content that is no text and no list of parts"


def _refuse(what: str, hint: str) -> NoReturn:
    raise SetupError(what, hint)

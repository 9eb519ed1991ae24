"""The `llmload` command: one parser, one function a command, one exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

import llmload
from llmload.errors import LlmloadError

COMMANDS = {
    "calibrate": "find out how much one worker holds on this machine",
    "compare": "compare runs, each change with its interval and a verdict",
    "demo": "run the mock server and a short load against it",
    "health": "tell whether the process of this container is up",
    "history": "list the runs of an archive, with a trend for each metric",
    "mock": "serve a chat API with known times",
    "push": "send the record of a run to InfluxDB",
    "report": "print the summary of a run from its record",
}
"""Each is a module of this package with `add_arguments(parser)` and `run(args) -> exit code`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; set-up errors become one line and code 2."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="llmload", description=llmload.__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"llmload {llmload.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if name in argv[:1]:
            importlib.import_module(f"llmload.cli.{name}").add_arguments(sub)
    args = parser.parse_args(argv)
    try:
        return int(importlib.import_module(f"llmload.cli.{args.command}").run(args))
    except LlmloadError as error:
        print(f"llmload {args.command}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""`llmload mock`: serve a chat API with known times."""

from __future__ import annotations

import argparse
import os
import secrets
from pathlib import Path

from llmload.errors import SetupError
from llmload.mock.distribution import SYNTAX, Distribution, parse_distribution
from llmload.mock.faults import FAULTS, parse_fault
from llmload.mock.settings import TEXTS, Settings

KEY_VARIABLE = "LLMLOAD_MOCK_API_KEY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"D, a distribution: {SYNTAX}.\nFaults with their parameters:\n{_fault_lines()}"
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default %(default)s)")
    parser.add_argument("--model", action="append", metavar="NAME", help="repeatable (default mock)")
    parser.add_argument(
        "--ttft-ms", default="200", metavar="D", help="arrival of a request to its first token (default 200)"
    )
    parser.add_argument("--itl-ms", default="20", metavar="D", help="time between two tokens (default 20)")
    parser.add_argument(
        "--tokens",
        default="128",
        metavar="D",
        help="tokens per answer, cut by a request's max_tokens (default 128)",
    )
    parser.add_argument(
        "--slots",
        type=int,
        default=0,
        help="answers at a time, others queue first in, first out (default 0: no limit)",
    )
    parser.add_argument(
        "--lockstep", action="store_true", help="send the tokens of all streams on one grid of --itl-ms"
    )
    parser.add_argument(
        "--reasoning", type=int, default=0, metavar="N", help="send the first N tokens as reasoning_content"
    )
    parser.add_argument("--text", choices=TEXTS, default="ascii", help="words to answer with (default ascii)")
    parser.add_argument(
        "--fault",
        action="append",
        metavar="NAME[=P][:KEY=VALUE]",
        help="let each request meet this fault with probability P; repeatable",
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"refuse requests without it (or set {KEY_VARIABLE}, which ps does not show)",
    )
    parser.add_argument("--seed", type=int, help="repeat the same draws; the ready line names it (default random)")
    parser.add_argument(
        "--truth",
        type=Path,
        metavar="FILE",
        help="write what was really sent when, as JSON lines; overwrites FILE",
    )
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="speak TLS with this PEM certificate")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the key of --certificate")
    parser.add_argument(
        "--keep-alive-s",
        type=int,
        default=75,
        metavar="S",
        help="close connections idle for so long (default 75)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes; return the exit code."""
    settings = settings_of(args)
    if (args.certificate is None) != (args.key is None):
        raise SetupError("--certificate and --key belong together", "give both, or none to speak plain HTTP")
    from llmload.mock.server import serve  # uvicorn and Starlette are needed for this command only

    return serve(
        settings,
        host=args.host,
        port=args.port,
        truth_file=args.truth,
        keep_alive_s=max(0, args.keep_alive_s),
        certificate=(args.certificate, args.key) if args.certificate else None,
    )


def settings_of(args: argparse.Namespace) -> Settings:
    """The checked settings of these options.

    Raises:
        SetupError: an option with a value that has no meaning.
    """
    for option, value in (("--slots", args.slots), ("--reasoning", args.reasoning), ("--port", args.port)):
        if value < 0:
            raise SetupError(f"{option}: {value} is below 0", "give 0 or more")
    return Settings(
        ttft_ms=parse_distribution(args.ttft_ms, "--ttft-ms"),
        itl_ms=parse_distribution(args.itl_ms, "--itl-ms"),
        tokens=_tokens(args.tokens),
        seed=secrets.randbelow(2**31) if args.seed is None else args.seed,
        models=tuple(args.model or ("mock",)),
        slots=args.slots,
        lockstep=args.lockstep,
        reasoning=args.reasoning,
        text=args.text,
        faults=tuple(parse_fault(text, "--fault") for text in args.fault or ()),
        api_key=args.api_key or os.environ.get(KEY_VARIABLE) or None,
    )


def _tokens(text: str) -> Distribution:
    tokens = parse_distribution(text, "--tokens")
    if tokens.constant is not None and tokens.constant % 1:
        raise SetupError(f"--tokens: {text!r} is not a whole number", "give a whole number of tokens")
    return tokens


def _fault_lines() -> str:
    lines = []
    for name, kind in FAULTS.items():
        shown = []
        for key, default in kind.params.items():
            value = "|".join(default) if isinstance(default, tuple) else "N" if default is None else f"{default}"
            shown.append(f":{key}={value.removesuffix('.0')}")
        lines.append(f"  {name}{''.join(f'[{part}]' for part in shown)}\n      {kind.meaning}")
    return "\n".join(lines)

"""llmload's options on Locust's command line, each with an environment variable, and in its web form.

Values stay text here: `config.read_settings` checks them, so that the command line, a variable and the web form are
checked by the same lines and answer with the same words.
"""

from __future__ import annotations

import argparse
import atexit
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GRACE_S = "30"
"""Default of Locust's own --stop-timeout: how long answers under way may take once a run stops, seconds."""

ABOUT = (
    "The API key comes from LLMLOAD_API_KEY or OPENAI_API_KEY. "
    f"--stop-timeout is {GRACE_S} s here: so long may answers under way take once a run stops."
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its flag, default, help text, and whether the web form shows it."""

    flag: str
    metavar: str | None
    default: str | bool | None
    help: str
    in_web: bool = True
    repeats: bool = False
    joins: bool = False
    """Repeatable too, but kept as one text, which the web form can show."""

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        return f"LLMLOAD_{self.name.upper()}"

    @property
    def shown_default(self) -> str:
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        return self.default or ""


OPTIONS = (
    Option("--model", "NAME", None, "Model to ask for, as the server knows it"),
    Option("--max-tokens", "N", "128", "Longest answer to ask for, in tokens; 0 leaves the field out"),
    Option("--max-tokens-field", "FIELD", "max_tokens", "Name of that field: max_tokens or max_completion_tokens"),
    Option("--temperature", "T", None, "Sampling temperature; left out when not given"),
    Option("--extra-body", "JSON", None, "JSON object merged into every request body, last"),
    Option(
        "--header",
        "'NAME: VALUE'",
        None,
        "Header to send with every request; repeatable. Values are kept out of every output",
        in_web=False,
        repeats=True,
    ),
    Option(
        "--stream",
        None,
        True,
        "Stream the answers; without it there is no TTFT, ITL and TPOT",
    ),
    Option("--usage", None, True, "Ask the server for token counts in the stream, stream_options.include_usage"),
    Option(
        "--prompts",
        "FILE",
        None,
        "Prompts: a text file, one a line, or JSONL; default: a shipped, varied set",
    ),
    Option(
        "--unique-prompts",
        "WHEN",
        "auto",
        "Begin prompts with a nonce, so that no prefix cache can serve them: always, never, repeats (when one comes "
        "again) or auto (repeats for the shipped prompts, never for a file)",
    ),
    Option("--seed", "N", "1", "Seed of the order of the prompts"),
    Option("--think-time", "S", "0", "Pause of a user between requests, seconds: 2, 1-3 or exp:2"),
    Option(
        "--timeout-connect",
        "DURATION",
        "10s",
        "Deadline from the start until the request is on its way; 0: none",
    ),
    Option("--timeout-first-token", "DURATION", "120s", "Deadline for the first token; 0: none"),
    Option("--timeout-idle", "DURATION", "60s", "Deadline between two events with content; 0: none"),
    Option("--timeout-total", "DURATION", "600s", "Deadline for the whole answer; 0: none"),
    Option(
        "--unix-socket",
        "PATH",
        None,
        "Connect to this socket of the machine instead of the host; arrivals are then stamped after the read",
        in_web=False,
    ),
    Option("--http2", None, False, "Offer HTTP/2 to a TLS server; arrivals are then stamped after the read"),
    Option(
        "--reuse-connections",
        None,
        True,
        "Keep connections between requests; without it each request opens one of its own",
    ),
    Option("--ca-file", "FILE", None, "PEM file of certificates to trust beside the usual ones", in_web=False),
    Option("--insecure", None, False, "Do not verify the server's certificate; every output says so", in_web=False),
    Option("--run-dir", "DIR", "runs", "Folder in which each run gets a directory of its own", in_web=False),
    Option(
        "--archive",
        "DIR",
        None,
        "Also keep the run here, about 100 kB, for llmload history and llmload compare --against",
        in_web=False,
    ),
    Option("--archive-records", None, False, "Keep its completions there as well", in_web=False),
    Option(
        "--probe",
        None,
        True,
        "Send one small request before the load and stop on what is wrong",
        in_web=False,
    ),
    Option("--abort-after", "N", "100", "Stop when the first N requests have all failed; 0: never"),
    # when requests start, in an open loop
    Option(
        "--rate",
        "R",
        None,
        "Open loop: R requests per second, e.g. 12 or 0.5, whatever the server does; the number of users follows",
        in_web=False,
    ),
    Option(
        "--arrival",
        "MODEL",
        None,
        "Open loop: every user is one request per second, arriving as poisson (default with --rate), constant or gamma",
    ),
    Option("--burstiness", "B", None, "Shape of gamma arrivals: 1 is Poisson, less comes in bursts, more is evener"),
    Option("--max-in-flight", "N", None, "Open loop: send nothing while N requests are under way; counted as not sent"),
    Option(
        "--trace",
        "FILE",
        None,
        "Replay a trace of times and lengths: Mooncake JSONL, BurstGPT or Azure CSV; ends with it",
        in_web=False,
    ),
    Option("--trace-scale", "X", "1", "Replay it X times as fast", in_web=False),
    Option("--trace-limit", "N", None, "Replay only its first N requests", in_web=False),
    # gates
    Option(
        "--slo",
        "OBJECTIVES",
        None,
        "What the run must meet, e.g. 'p95(ttft) < 800ms; error_rate < 0.01'; repeatable. Missed: exit code 3",
        joins=True,
    ),
    Option("--slo-file", "FILE", None, "More of them, one a line, # begins a comment", in_web=False),
    Option("--goodput", "LIMITS", None, "What each completion must meet to be good, ms: 'ttft:500 tpot:50 e2e:5000'"),
    Option(
        "--abort-on",
        "RULE",
        None,
        "End the run early, with exit code 3, e.g. 'error_rate > 0.2 for 30s'; repeatable: any of them",
        joins=True,
    ),
    Option("--strict", None, False, "A run whose client was the limit is not valid: exit code 4"),
    Option(
        "--quiet",
        None,
        False,
        "Show no progress: neither the block on a terminal nor a line each 10 s in a log, nor Locust's table",
        in_web=False,
    ),
    # how the load changes
    Option("--warmup", "DURATION", "0", "Requests that start within so long are recorded, but not measured; 0: none"),
    Option(
        "--stages",
        "STAGES",
        None,
        "Users (of an open loop: the rate) in straight lines, duration:number, e.g. 30s:50, 2m:50, 10s:200, 20s:0",
    ),
    Option("--sweep", "LEVELS", None, "Hold each number of users (of an open loop: each rate) in turn, e.g. 5,10,20"),
    Option("--sweep-prompt-tokens", "LENGTHS", None, "Hold each prompt length in turn, e.g. 128,1024,8192"),
    Option(
        "--find-capacity",
        "OBJECTIVES",
        None,
        "Find the highest number of users (of an open loop: the highest rate) that meets them, "
        "e.g. 'p95(ttft) < 1s and error_rate < 1%'; -t bounds the time, -u the number",
    ),
    Option("--step-time", "DURATION", "30s", "How long a step of a sweep, or of the search for the capacity, is held"),
    Option("--settle", "DURATION", "5s", "How much of that passes before the step is measured"),
    Option("--rounds", "N", "1", "How often a sweep goes through its levels; medians and their spread are reported"),
    # where the numbers go
    Option(
        "--metrics-port",
        "PORT",
        None,
        "Serve OpenMetrics at /metrics of this port as well, also of a headless run: 9464, or 0.0.0.0:9464",
        in_web=False,
    ),
    Option(
        "--influx-optional",
        None,
        False,
        "Run also when InfluxDB (INFLUXDB_URL) does not take the probe; what it misses can be pushed later",
        in_web=False,
    ),
)


def show_with_help(_: Any) -> None:
    """Print our options under Locust's own when its help is asked for.

    Locust prints its help before it imports the locustfile, so that listeners come too late. This is called by gevent
    (entry point `gevent.plugins.monkey.did_patch_all`) while Locust is being imported, and waits for its exit.
    """
    command = sys.orig_argv  # also set while `python -m locust` is being found; other gevent programs come by here too
    if any(Path(one).stem == "locust" for one in command[:4]) and {"-h", "--help"} & set(command):
        atexit.register(_print_group)


def _print_group() -> None:
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    group = parser.add_argument_group("llmload options", f"For locustfiles with a ChatUser. {ABOUT}")
    for option in OPTIONS:
        group.add_argument(option.flag, default=option.default, help=_help(option), **_kind(option))
    print("\n" + parser.format_help().strip())


def _help(option: Option) -> str:
    default = f", default: {option.shown_default}" if option.shown_default else ""
    return f"{option.help} [{option.variable}{default}]".replace("%", "%%")  # argparse formats help texts


def add_options(parser: argparse.ArgumentParser, **_: Any) -> None:
    """Add the option group to Locust's parser. Listener of `init_command_line_parser`."""
    parser.allow_abbrev = False  # --good must not mean --goodput today and something else when an option is added
    group = parser.add_argument_group("llmload options", ABOUT)
    for option in OPTIONS:
        action: Any = group.add_argument(
            option.flag,
            default=option.default,
            help=option.help.replace("%", "%%"),
            env_var=option.variable,
            **_kind(option),
        )
        # Locust shows what carries these marks in its web form; its own add_argument sets them only outside a group
        action.include_in_web_ui = option.in_web
        action.is_secret = False
        # never required: the section is folded, and a browser does not submit over an empty field that it cannot show,
        # without a word. What is missing is said by `web.guard_start`
        action.is_required = False
        action.is_multiple = False
    parser.set_defaults(stop_timeout=GRACE_S)


class Joined(argparse._AppendAction):
    """Appends to one text, with `;` between; an empty value is refused, because `--slo "$SLO"` without SLO is a gate
    that lets everything pass."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if not str(values).strip(" ;\n"):
            raise argparse.ArgumentError(self, "is empty: give a value, or leave the option out")
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, f"{before}; {values}" if before else str(values))


def _kind(option: Option) -> dict[str, Any]:
    if isinstance(option.default, bool):
        return {"action": argparse.BooleanOptionalAction}
    if option.joins:
        return {"action": Joined, "metavar": option.metavar}
    return {"action": "append" if option.repeats else "store", "metavar": option.metavar}

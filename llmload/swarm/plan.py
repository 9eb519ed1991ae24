"""What a run will send and where to: options, user classes and prompts, read and checked together.

Read again at the start of each run, because the web form may have changed an option.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from locust import User

from llmload.arrival_config import read_arrivals
from llmload.config import Settings, read_settings
from llmload.errors import SetupError
from llmload.load_config import LoadSettings, read_load
from llmload.metrics.goodput import Goodput, parse_goodput
from llmload.metrics.steps import level_of
from llmload.pacing.arrivals import Arrivals, Model, processes_for
from llmload.pacing.course import course_of
from llmload.pacing.sweep import Sweep
from llmload.pacing.think import ThinkTime, parse_think_time
from llmload.protocols.openai_chat import OpenAIChat
from llmload.records import ChatRequest
from llmload.surroundings import Surroundings, WallClock
from llmload.swarm.arriving import Arrival
from llmload.swarm.shelf import PromptShelf
from llmload.target import Target
from llmload.wire.choose import open_wire
from llmload.wire.deadlines import Keeper
from llmload.wire.exchange import Wire
from llmload.wire.tls import Context, shared_context
from llmload.workload.lengths import PromptLengths
from llmload.workload.prompts import Prompt
from llmload.workload.source import PromptSource, Unique

UserClass = type[User]


class Plan:
    """One run's settings, targets and prompt sources.

    Args:
        options: option values by name.
        environ: environment variables; the key is taken from here.
        classes: the `ChatUser` classes that will run.
        shelf: where prompts are read from.
        host_of: the host that a class names for itself.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        environ: Mapping[str, str],
        classes: Sequence[UserClass],
        shelf: PromptShelf,
        host_of: Callable[[UserClass], str | None] = attrgetter("host"),
    ) -> None:
        models = [getattr(cls, "model", None) for cls in classes if not getattr(cls, "arms", ())]
        fallback = models[0] if models and all(models) else None
        self.settings: Settings = read_settings({**options, "model": options.get("model") or fallback}, environ)
        self.load: LoadSettings = read_load(options)
        self.course = course_of(self.load)
        self.lengths: PromptLengths | None = None
        self.protocol = OpenAIChat(ask_usage=self.settings.ask_usage, max_tokens_field=self.settings.max_tokens_field)
        self.think_time: ThinkTime = parse_think_time(self.settings.think_time)
        self.goodput: Goodput | None = parse_goodput(options.get("goodput"))
        host = options.get("host")
        self.targets: dict[UserClass, Target] = {
            cls: Target.parse(_own_host(cls, host_of) or host or host_of(cls), path=self.protocol.path)
            for cls in classes
        }
        if not classes:
            raise SetupError("the locustfile has no ChatUser class", "derive one: class Chat(ChatUser): pass")
        self._prompts = {path: shelf.get(path) for path in {self._path(cls) for cls in classes}}
        self.arrivals = read_arrivals(options)
        self.trace = shelf.trace(self.arrivals, seed=self.settings.seed)
        self._check_open()
        self._sources: dict[str | None, PromptSource] = {}
        self._random = random.Random(self.settings.seed)

    @property
    def target(self) -> Target:
        """The target of the first class."""
        return next(iter(self.targets.values()))

    @property
    def trust(self) -> Context:
        """The TLS context of this run, shared by all its clients.

        Raises:
            SetupError: --ca-file cannot be used.
        """
        return shared_context(ca_file=self.settings.ca_file, insecure=self.settings.insecure)

    def is_open(self, cls: Any) -> bool:
        """Whether users of a class are arrival processes."""
        return self.arrivals.open_loop or bool(getattr(cls, "open_loop", False))

    @property
    def any_open(self) -> bool:
        """Whether there is an open loop in this run."""
        return any(self.is_open(cls) for cls in self.targets)

    @property
    def arrival_model(self) -> Arrivals:
        """What the arrivals of an open loop are like."""
        model = cast(Model, self.arrivals.arrival or "poisson")
        return Arrivals(model, self.arrivals.burstiness or 1.0, seed=self.settings.seed)

    @property
    def process_rate(self) -> float:
        """Requests per second of one user in an open loop."""
        return 1.0 if self.arrivals.rate is None else processes_for(self.arrivals.rate)[1]

    def _check_open(self) -> None:
        if self.arrivals.max_in_flight is not None and not self.any_open:
            raise SetupError("--max-in-flight without an open loop", "give --rate, --arrival or --trace")

    @property
    def fingerprints(self) -> dict[str, str]:
        """A hash of each prompt file's content, by its name; workers must have the same."""
        traced = {} if self.trace is None else {f"trace {self.trace.name}": self.trace.fingerprint}
        return {**{path or "builtin": print_ for path, (_, print_) in self._prompts.items()}, **traced}

    def deal(self, *, worker_index: int, worker_count: int, run_id: str) -> None:
        """Take this process's share of the prompts."""
        self._sources = {
            path: PromptSource(
                prompts,
                seed=self.settings.seed,
                worker_index=worker_index,
                worker_count=worker_count,
                unique=self._unique(path),
                salt=run_id,
            )
            for path, (prompts, _) in self._prompts.items()
        }
        self._random = random.Random(f"{self.settings.seed}/{worker_index}")
        if isinstance(self.course, Sweep) and self.course.axis == "prompt_tokens":
            key = f"{self.settings.seed}/{run_id}/{worker_index}"
            self.lengths = PromptLengths(self.course.levels[0], key=key)

    def begin_step(self, step: str | None) -> None:
        """Take what a step means for requests: the length of their prompts."""
        level = level_of(step)
        if self.lengths is not None and level is not None:
            self.lengths.tokens = int(level)

    def _unique(self, path: str | None) -> Unique:
        chosen = self.settings.unique_prompts
        if chosen == "auto":
            if any(getattr(cls, "arms", ()) for cls in self.targets if self._path(cls) == path):
                return "always"  # what one arm has sent must not be in the cache for the next
            return "repeats" if path is None else "never"
        return cast(Unique, chosen)

    @property
    def served(self) -> dict[str, int]:
        """Prompts given out by this process, and how many of them were repetitions."""
        sources = self._sources.values()
        return {
            "served": sum(source.served for source in sources),
            "repeats": sum(source.repeats for source in sources),
        }

    def think_time_s(self) -> float:
        """Return the next pause of a user, seconds."""
        return self.think_time.sample(self._random)

    def around(
        self,
        cls: UserClass,
        *,
        worker: str,
        keeper: Keeper,
        clock: WallClock,
        lag_since: Callable[[int], float | None],
    ) -> Surroundings:
        """Return what the clients of a class share."""
        target = self.targets[cls]
        return Surroundings(
            settings=self.settings,
            target=target,
            protocol=self.protocol,
            redactor=self.settings.redactor(target),
            keeper=keeper,
            clock=clock,
            worker=worker,
            lag_since=lag_since,
            goodput=self.goodput,
        )

    def wire(self, cls: UserClass) -> Wire:
        """Return a new wire for a user of a class."""

        def chosen(name: str) -> bool:
            own = getattr(cls, name, None)
            return bool(getattr(self.settings, name) if own is None else own)

        url, http2, reuse = self.targets[cls].url, chosen("http2"), chosen("reuse_connections")
        return open_wire(url, ssl_context=self.trust, http2=http2, reuse=reuse, unix_socket=self.settings.unix_socket)

    @property
    def arms(self) -> dict[str, dict[str, Any]]:
        """What distinguishes the arms of an A/B run, by name, in their order; empty without arms."""
        arms: list[Any] = [cls for cls in self.targets if getattr(cls, "is_arm", False)]
        return {arm.named(): arm.shown() for arm in arms}

    def copies(self, cls: UserClass, count: int) -> list[Prompt]:
        """Return the next prompt of a class once for each of `count` requests."""
        return self._sources[self._path(cls)].copies(count)

    def request(
        self,
        cls: Any,
        *,
        prompt: str | None,
        messages: Sequence[Mapping[str, Any]] | None,
        overrides: Mapping[str, Any],
        arrival: Arrival | None = None,
    ) -> ChatRequest:
        """Return a request: what this call says, else its arrival, the class, and what the options say."""
        name, traced = None, None
        if messages is None and prompt is not None:
            messages = ({"role": "user", "content": prompt},)
        if messages is None:
            wanted = None if arrival is None else arrival.prompt
            dealt = wanted or self._next_prompt(cls, None if arrival is None else arrival.position)
            messages, name, traced = dealt.messages, dealt.id, arrival if wanted else None

        if isinstance(messages, str) or not all(isinstance(message, Mapping) for message in messages):
            raise TypeError(f"messages must be a list of dicts with role and content, not {type(messages).__name__}")

        def chosen(field: str) -> Any:
            layers = (overrides[field], getattr(cls, field), getattr(self.settings, field))
            return next((value for value in layers if value is not None), None)

        return ChatRequest(
            messages=messages,
            model=chosen("model"),
            max_tokens=traced.max_tokens if traced and overrides["max_tokens"] is None else chosen("max_tokens"),
            temperature=chosen("temperature"),
            stream=chosen("stream"),
            extra_body=chosen("extra_body"),
            scenario=overrides["scenario"] or cls.scenario or cls.__name__,
            prompt=name,
            intended_ns=None if arrival is None else arrival.due_ns,
        )

    def _next_prompt(self, cls: Any, position: int | None) -> Prompt:
        return self.lengths.next() if self.lengths else self._sources[self._path(cls)].next(position)

    def _path(self, cls: UserClass) -> str | None:
        return getattr(cls, "prompts", None) or self.settings.prompts


def _own_host(cls: UserClass, host_of: Callable[[UserClass], str | None]) -> str | None:
    """An arm's host is what it is about: it comes before --host."""
    return host_of(cls) if getattr(cls, "is_arm", False) else None

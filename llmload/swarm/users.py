"""The Locust user that holds chat completions.

A locustfile is a subclass:

    from locust import between, task
    from llmload import ChatUser

    class Support(ChatUser):
        wait_time = between(1, 5)

        @task
        def ask(self):
            self.chat("My parcel has not arrived. What can I do?", max_tokens=200)

Each subclass is a scenario of its own in the results, under its class name or its `scenario`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from locust import User
from locust.env import Environment

from llmload.pacing.backoff import backoff_s
from llmload.records import Completion
from llmload.swarm import plugin
from llmload.swarm.arriving import current_arrival, use_arrival
from llmload.swarm.session import session_of


def send_next_prompt(user: ChatUser) -> None:
    """The task of a `ChatUser` that declares none: send the next prompt."""
    user.chat()


class ChatUser(User):
    """A user that sends one chat completion after another.

    Class attributes override the options of the command line for this class; None takes the option. Everything
    else is Locust's: `weight`, `fixed_count`, `wait_time`, `host`, `on_start`, `on_stop`, `@task`.
    Without a task of its own a class sends the next prompt of its prompt set again and again.
    """

    abstract = True

    scenario: ClassVar[str | None] = None
    """Name in the results; the class's name where it is None."""
    model: ClassVar[str | None] = None
    max_tokens: ClassVar[int | None] = None
    temperature: ClassVar[float | None] = None
    extra_body: ClassVar[Mapping[str, Any] | None] = None
    stream: ClassVar[bool | None] = None
    http2: ClassVar[bool | None] = None
    reuse_connections: ClassVar[bool | None] = None
    prompts: ClassVar[str | None] = None
    """A prompts file of this class's own."""
    open_loop: ClassVar[bool] = False
    """Whether a user is an arrival process even where no option says so; see `OpenLoopUser`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = [one for one in cls.tasks if one is not send_next_prompt]
        cls.tasks = own or [send_next_prompt]

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._session = session_of(environment)
        self._client = self._session.client(type(self))
        self._failed_in_a_row = 0
        load = self._session.load
        self.process = None if load is None or load.schedule is None else load.schedule.process(self)
        """In an open loop what starts this user's tasks; None in a closed one."""

    def start(self, group: Any) -> Any:
        """Start the user's greenlet; its connections are closed when it ends."""
        greenlet = super().start(group) if self.process is None else self.process.start(group)
        greenlet.link(lambda _: self._client.close())
        return greenlet

    def stop(self, force: bool = False) -> bool:
        """Stop the user: what is under way may end, unless `force`; see Locust's `User.stop`."""
        stopped: bool = super().stop(force) if self.process is None else self.process.stop(force)
        return stopped

    def wait_time(self) -> float:
        """Return the pause before the next task, seconds: --think-time, unless the class says otherwise."""
        return self._session.think_time_s()

    def chat(
        self,
        prompt: str | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        model: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        extra_body: Mapping[str, Any] | None = None,
        stream: bool | None = None,
        scenario: str | None = None,
    ) -> Completion:
        """Send one chat completion and wait for its end.

        Args:
            prompt: text of one user message; None, and no `messages`: the next prompt of the prompt set.
            messages: a whole conversation in the OpenAI shape, instead of `prompt`.
            model, max_tokens, temperature, extra_body, stream: for this request only.
            scenario: name in the results, for this request only.

        Returns:
            The completion, whose `outcome` is `ok` or `failed`; its `text` is the answer. A failed request raises
            nothing; in a closed loop the next one waits a little, longer after each failure, so that a dead server is
            not hammered.

        Raises:
            StopUser: the run is stopping; nothing was sent.
        """
        session, arrival = self._session, current_arrival()
        if self.process is None and session.load is not None and self._failed_in_a_row:
            session.load.stopping.wait(backoff_s(self._failed_in_a_row))
        request = session.request(
            type(self),
            prompt=prompt,
            messages=messages,
            arrival=arrival,
            overrides={
                "model": model,
                "max_tokens": max_tokens,
                "temperature": temperature,
                "extra_body": extra_body,
                "stream": stream,
                "scenario": scenario,
            },
        )
        if arrival is not None:
            use_arrival()
        completion = session.complete(self, self._client, request)
        self._failed_in_a_row = 0 if completion.outcome == "ok" else self._failed_in_a_row + 1
        return completion


plugin.install()

"""A/B in one run: users that send each prompt once with each of several arms, in random order.

    from llmload import ABUser, Arm

    class Before(Arm):
        stream = False
        reuse_connections = False

    class After(Arm):
        concurrent = 8

    class AB(ABUser):
        arms = (Before, After)

The first arm is what the others are compared with. `llmload compare --arms RUN` works the comparison out.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import gevent
from locust.env import Environment
from locust.exception import StopUser

from llmload.client import Client
from llmload.errors import SetupError
from llmload.redaction import shown_url
from llmload.swarm.users import ChatUser, send_next_prompt
from llmload.workload.prompts import Prompt
from llmload.workload.trim import trimmed

NO_OVERRIDES = dict.fromkeys(("model", "max_tokens", "temperature", "extra_body", "stream", "scenario"))
_NUMBERS = itertools.count()

SETTINGS = ("stream", "http2", "reuse_connections", "model", "host", "max_tokens", "temperature", "prompt_words")


class Arm(ChatUser):
    """One way to send a prompt; its class name, or `scenario`, is its name in the results.

    Class attributes are those of `ChatUser`, `http2` and `reuse_connections` among them, and of its own:
    `concurrent`, how many prompts it sends at a time; `prompt_words`, to how many words it cuts what a user says;
    `host`, which for an arm comes before --host. Never a user by itself.
    """

    abstract = True
    is_arm: ClassVar[bool] = True
    concurrent: ClassVar[int] = 1
    prompt_words: ClassVar[int | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.abstract = True

    @classmethod
    def named(cls) -> str:
        return cls.scenario or cls.__name__

    @classmethod
    def shown(cls) -> dict[str, Any]:
        """Return what distinguishes it, JSON-ready."""
        given = {name: getattr(cls, name) for name in SETTINGS if getattr(cls, name) is not None}
        if "host" in given:
            given["host"] = shown_url(given["host"])
        return given | ({"concurrent": cls.concurrent} if cls.concurrent != 1 else {})


def next_of_each_arm(user: ABUser) -> None:
    """The task of an `ABUser`: some prompts, each once with each arm."""
    user.send_pairs()


class ABUser(ChatUser):
    """A user that sends the same prompts with each of its `arms`, one arm after the other in random order.

    As many prompts at once as the most concurrent arm sends at a time. Each copy of a prompt has a nonce of its own, so
    that no arm finds the other's prompt in the server's cache, unless --unique-prompts says otherwise.
    With one user nothing else runs beside an arm; with several, their arms meet each other.
    """

    abstract = True
    arms: ClassVar[Sequence[type[Arm]]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.tasks == [send_next_prompt]:
            cls.tasks = [next_of_each_arm]

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._by_arm = {arm: [self._session.client(arm) for _ in range(arm.concurrent)] for arm in self.arms}
        seed = self._session.plan.settings.seed if self._session.plan is not None else 0
        self._random = random.Random(f"{seed}/{next(_NUMBERS)}")

    def start(self, group: Any) -> Any:
        """See `ChatUser.start`."""
        greenlet = super().start(group)
        greenlet.link(lambda _: self._close())
        return greenlet

    def _close(self) -> None:
        for clients in self._by_arm.values():
            for client in clients:
                client.close()

    def send_pairs(self) -> None:
        """Send the next prompts with every arm.

        Raises:
            StopUser: the run is stopping.
        """
        plan = self._session.plan
        if plan is None:
            raise StopUser
        batch = max(arm.concurrent for arm in self.arms)
        dealt = [plan.copies(type(self), len(self.arms)) for _ in range(batch)]
        order = list(enumerate(self.arms))
        self._random.shuffle(order)
        for place, arm in order:
            self._send(arm, [copies[place] for copies in dealt])

    def _send(self, arm: type[Arm], prompts: list[Prompt]) -> None:
        """Send prompts with an arm, as many at a time as it has clients, and wait for all."""
        clients = self._by_arm[arm]
        if len(clients) == 1:
            self._send_each(arm, clients[0], prompts)
            return
        greenlets = [gevent.spawn(self._stopped, arm, client, prompts) for client in clients]
        try:
            gevent.joinall(greenlets)
        except BaseException:
            gevent.killall(greenlets)
            raise
        if any(greenlet.value for greenlet in greenlets):
            raise StopUser

    def _stopped(self, arm: type[Arm], client: Client, prompts: list[Prompt]) -> bool:
        """Send from one greenlet of several; return whether the run is stopping."""
        try:
            self._send_each(arm, client, prompts)
        except StopUser:
            return True
        return False

    def _send_each(self, arm: type[Arm], client: Client, prompts: list[Prompt]) -> None:
        while prompts:
            prompt = prompts.pop(0)
            messages: Sequence[Mapping[str, Any]] = prompt.messages
            if arm.prompt_words is not None:
                messages = trimmed(messages, arm.prompt_words)
            request = self._session.request(arm, prompt=None, messages=messages, overrides=NO_OVERRIDES)
            self._session.complete(self, client, replace(request, prompt=prompt.id))

    @classmethod
    def check_arms(cls) -> None:
        """Refuse arms that cannot be compared.

        Raises:
            SetupError: there are fewer than two, two have one name, or one cannot do what it says.
        """
        arms = tuple(cls.arms)
        if len(arms) < 2 or not all(isinstance(arm, type) and issubclass(arm, Arm) for arm in arms):
            raise SetupError(
                f"{cls.__name__} needs two arms or more", "write arms = (Before, After), classes made from Arm"
            )
        names = [arm.named() for arm in arms]
        if len(set(names)) < len(names):
            raise SetupError(f"two arms of {cls.__name__} have the same name", "give each a class name of its own")
        for arm in arms:
            if not isinstance(arm.concurrent, int) or not 1 <= arm.concurrent <= 1000:
                raise SetupError(
                    f"the arm {arm.named()} has concurrent = {arm.concurrent!r}", "give a number from 1 to 1000"
                )

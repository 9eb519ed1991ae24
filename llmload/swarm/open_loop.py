"""The user of an open loop: requests start when a schedule says so, whatever the server does.

    from llmload import OpenLoopUser

    class Visitors(OpenLoopUser):
        pass

One user is one arrival process of one request per second, so the number of users is the offered rate: -u 12 sends 12
requests per second, and what changes the number of users (a ramp, a load shape, the web page) changes the rate.
"""

from __future__ import annotations

from typing import ClassVar

from llmload.swarm.users import ChatUser


class OpenLoopUser(ChatUser):
    """A `ChatUser` whose tasks start when they are due, each in a greenlet of its own.

    Latency counts from the moment at which the first request of a task was due. `wait_time` is not asked. State that
    tasks keep in `self` is shared by all that are under way.
    """

    abstract = True
    open_loop: ClassVar[bool] = True

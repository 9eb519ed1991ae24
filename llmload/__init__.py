"""llmload: a distributed load generator for LLM chat APIs, built on Locust.

A locustfile needs one name from here:

    from llmload import ChatUser

    class Chat(ChatUser):
        pass

Importing this package opens no file and no socket, and does not import Locust until a user class is asked for
(Locust patches the standard library when it is imported, which the mock server must not meet).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmload.errors import LlmloadError, SetupError
from llmload.records import ChatRequest, Completion

if TYPE_CHECKING:
    from llmload.swarm.arms import ABUser, Arm
    from llmload.swarm.open_loop import OpenLoopUser
    from llmload.swarm.shapes import StagesShape
    from llmload.swarm.users import ChatUser

__version__ = "0.1.0"
__all__ = [
    "ABUser", "Arm", "ChatRequest", "ChatUser", "Completion", "LlmloadError", "OpenLoopUser", "SetupError",
    "StagesShape", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "ChatUser":
        from llmload.swarm.users import ChatUser

        return ChatUser
    if name in ("ABUser", "Arm"):
        from llmload.swarm import arms

        return getattr(arms, name)
    if name == "StagesShape":
        from llmload.swarm.shapes import StagesShape

        return StagesShape
    if name == "OpenLoopUser":
        from llmload.swarm.open_loop import OpenLoopUser

        return OpenLoopUser
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

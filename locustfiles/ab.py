"""A/B in one run: each prompt is sent once by each arm, in random order, and compared in pairs.

locust -f locustfiles/ab.py --host http://127.0.0.1:8000 --model NAME -u 1

The well-known before and after: whole answers, a new connection for each request, one at a time, against streamed
answers over kept connections, eight at a time.
"""

from llmload import ABUser, Arm


class Before(Arm):
    stream = False
    reuse_connections = False


class After(Arm):
    stream = True
    reuse_connections = True
    concurrent = 8


class AB(ABUser):
    """The first arm is the base; more arms are compared with it, too."""

    arms = (Before, After)

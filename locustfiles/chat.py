"""The plain load test: users that send prompt after prompt.

    locust -f locustfiles/chat.py --host http://127.0.0.1:8000 --model NAME

Everything is an option; see `locust -f locustfiles/chat.py --help`.
"""

from llmload import ChatUser


class Chat(ChatUser):
    """One user: sends the next prompt, waits for the end of the answer, thinks, goes on."""

"""Two kinds of users in one test, each a scenario of its own in the results.

locust -f locustfiles/mixed.py --host http://127.0.0.1:8000 --model NAME
"""

from locust import between, task

from llmload import ChatUser


class Support(ChatUser):
    """Short questions, short answers, three of four users."""

    weight = 3
    wait_time = between(1, 3)
    max_tokens = 64

    @task(4)
    def ask(self):
        self.chat()

    @task(1)
    def follow_up(self):
        question = {"role": "user", "content": "Where is my parcel?"}
        answer = self.chat(messages=[question])
        if answer.outcome == "ok":
            said = {"role": "assistant", "content": answer.text}
            self.chat(messages=[question, said, {"role": "user", "content": "Can you send it again?"}])


class Writer(ChatUser):
    """Long answers, one of four users."""

    weight = 1
    max_tokens = 400
    temperature = 0.7

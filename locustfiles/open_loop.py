"""An open loop: requests start when they are due, whatever the server does; one user is one request per second.

    locust -f locustfiles/open_loop.py --host http://127.0.0.1:8000 --model NAME -u 12 -r 2

offers 12 requests per second, after a ramp of 6 s. The same rate from any other locustfile: --rate 12.
"""

from locust import task

from llmload import OpenLoopUser


class Visitors(OpenLoopUser):
    """Visitors come at random (poisson); another --arrival may come in bursts (gamma) or like a clock (constant)."""

    max_tokens = 100

    @task(3)
    def ask(self):
        self.chat()

    @task(1)
    def ask_again(self):
        question = {"role": "user", "content": "What is a load test?"}
        answer = self.chat(messages=[question])  # due at the moment of the arrival
        if answer.outcome == "ok":
            said = {"role": "assistant", "content": answer.text}
            again = {"role": "user", "content": "Shorter, please."}
            self.chat(messages=[question, said, again])  # due when the first answer has ended

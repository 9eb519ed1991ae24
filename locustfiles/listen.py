"""Listen to llmload's own events: first token, tokens per second, completion.

locust -f locustfiles/listen.py --host http://127.0.0.1:8000 --model NAME
"""

import logging

from locust import events

from llmload import ChatUser

SLOW_S = 1.0


class Chat(ChatUser):
    """The plain user; the listeners below see what it does."""


@events.llm_first_token.add_listener
def on_first_token(request, ttft_s, **kwargs):
    if ttft_s > SLOW_S:
        logging.warning("slow first token: %.2f s for %s", ttft_s, request.prompt)


@events.llm_tokens_per_second.add_listener
def on_speed(scenario, output_tps, output_tokens, **kwargs):
    logging.debug("%s: %d tokens at %.1f tokens/s", scenario, output_tokens, output_tps)


@events.llm_completion.add_listener
def on_completion(completion, **kwargs):
    if completion.outcome == "failed":
        logging.warning("%s failed: %s %s", completion.id, completion.kind, completion.message)

"""llmload's own event hooks, beside Locust's on `environment.events`.

They exist as soon as `llmload` is imported, so that a locustfile can listen:

    from locust import events

    @events.llm_completion.add_listener
    def on_completion(completion, **kwargs):
        print(completion.ttft_s, completion.output_tokens)

`llm_first_token`: the first token of an answer has come, while the answer goes on.
    request: the `ChatRequest`; ttft_s: seconds; user: the `ChatUser`.
`llm_tokens_per_second`: an ok answer has ended whose speed is defined.
    scenario, model: names; output_tps: tokens per second that its reader saw (1 / TPOT); output_tokens: count,
    estimated when `usage_source` is not `server`; usage_source; completion.
`llm_completion`: a request has ended, whatever its outcome; fired exactly once for each.
    completion: the `Completion`; request: the `ChatRequest`; user: the `ChatUser`.

Take `**kwargs` in a listener: arguments may be added.
"""

from __future__ import annotations

from locust.event import EventHook, Events

HOOKS = ("llm_first_token", "llm_tokens_per_second", "llm_completion")


def attach(events: Events) -> None:
    """Give these events the hooks, once."""
    for name in HOOKS:
        if not hasattr(events, name):
            setattr(events, name, EventHook())

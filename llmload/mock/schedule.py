"""When each token is due, as pure numbers in nanoseconds.

No clock: the start is handed in. Due times are sums from the start: a late token does not delay the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from llmload.mock.distribution import Distribution

NS_PER_MS = 1_000_000


def offsets_ns(tokens: int, *, ttft_ns: int, itl_ms: Distribution, rng: Random) -> Sequence[int]:
    """The due time of each token after the start of its request.

    Example: 3 tokens, TTFT 200 ms, ITL 20 ms give 200 ms, 220 ms and 240 ms.
    """
    if itl_ms.constant is not None:
        step_ns = round(itl_ms.constant * NS_PER_MS)
        if step_ns == 0:
            return [ttft_ns] * tokens
        return range(ttft_ns, ttft_ns + tokens * step_ns, step_ns)  # long answers then cost nothing in advance
    due, offsets = ttft_ns, []
    for _ in range(tokens):
        offsets.append(due)
        due += round(itl_ms.draw(rng) * NS_PER_MS)
    return offsets


def on_grid(due_ns: int, step_ns: int) -> int:
    """`due_ns` rounded up to a multiple of `step_ns`; unchanged when `step_ns` is 0 (no grid)."""
    return -(-due_ns // step_ns) * step_ns if step_ns else due_ns


def groups(start: int, stop: int, *, size: int, border: int) -> Iterator[tuple[int, int]]:
    """Cut the tokens from `start` to `stop` into half-open ranges of at most `size`, none across `border`.

    The border is where reasoning ends and the answer begins: they are different fields of an event.
    """
    while start < stop:
        end = min(start + size, stop)
        if start < border < end:
            end = border
        yield start, end
        start = end

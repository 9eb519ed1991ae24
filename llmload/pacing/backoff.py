"""Back-off: the pause after failures, so that a server that refuses at once is not hammered.

Pure: no sleep, no clock, no randomness.
"""

from __future__ import annotations

FIRST_S = 0.1
LONGEST_S = 5.0


def backoff_s(consecutive_failures: int) -> float:
    """Return the seconds that a user waits before its next request, beside its think time.

    0 after a success; after k failures in a row 0.1 · 2^(k - 1), at most 5: 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.
    Without it a user whose connections are refused sends thousands of requests a second, and the
    failures drown everything else.
    """
    if consecutive_failures <= 0:
        return 0.0
    doublings = min(consecutive_failures - 1, 16)  # a power of a long outage would overflow a float
    return min(FIRST_S * 2.0**doublings, LONGEST_S)

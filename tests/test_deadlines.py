"""Deadlines by the monotonic clock, thrown where a request waits and nowhere else."""

from time import monotonic_ns

import gevent
import pytest

from llmload.config import Deadlines
from llmload.stamps import Stamps
from llmload.wire.deadlines import BEHIND_NS, NEVER, Expired, Keeper


def watch(keeper, stamps, *limits, stream=True):
    return keeper.watch(Deadlines(*limits), stamps, stream=stream)


def test_the_deadline_that_runs_is_the_nearest():
    """Connect, then first token, then idle; the total one wins where it is nearer."""
    keeper, stamps = Keeper(), Stamps(asked_ns=0)
    one = watch(keeper, stamps, 10, 20, 30, 40)
    start_ns = one.due_ns - 10 * 10**9
    assert one.kind == "timeout_connect"
    stamps.sent_ns = start_ns + 5
    assert not one.overdue(start_ns)
    assert (one.kind, one.due_ns) == ("timeout_first_token", start_ns + 5 + 20 * 10**9)
    one.content(start_ns + 7)
    assert (one.kind, one.due_ns) == ("timeout_idle", start_ns + 7 + 30 * 10**9)
    one.content(start_ns + 39 * 10**9)
    assert (one.kind, one.due_ns - start_ns) == ("timeout_total", 40 * 10**9)


def test_no_limit_is_never_due():
    """None is no limit, for each of the four."""
    one = watch(Keeper(), Stamps(asked_ns=0, sent_ns=1), None, None, None, None)
    assert not one.overdue(2**62)
    one.content(5)
    assert one.due_ns == NEVER


def test_an_answer_that_is_not_streamed_has_no_first_token_deadline():
    """Only the total deadline bounds the wait for a whole answer."""
    one = watch(Keeper(), Stamps(asked_ns=0, sent_ns=1), 1, 1, 1, None, stream=False)
    assert not one.overdue(monotonic_ns() + 10**12)


def test_expired_strikes_the_waiting_greenlet_once_and_only_inside():
    """The throw comes while the watch is armed; afterwards the greenlet is left alone."""
    keeper = Keeper()
    with pytest.raises(Expired) as expired, watch(keeper, Stamps(asked_ns=0), 0.1, None, None, None):
        gevent.sleep(5)
    assert expired.value.kind == "timeout_connect"
    gevent.sleep(0.2)
    with watch(keeper, Stamps(asked_ns=0), None, None, None, None):
        gevent.sleep(0.1)


class HeldBack:
    """An exchange that holds something back: `hand_over` lets the request parse it."""

    def __init__(self, oldest_ns, parse=lambda: None):
        self.oldest_ns = oldest_ns
        self.asked = 0
        self._parse = parse

    def hand_over(self):
        self.asked += 1
        if self.oldest_ns is not None:
            self.oldest_ns = None
            self._parse()


def test_a_deadline_looks_at_what_has_come_before_it_strikes():
    """TMO-02: an event that came in time and was not parsed yet puts the deadline off."""
    keeper, now_ns = Keeper(), monotonic_ns()
    one = watch(keeper, Stamps(asked_ns=0), 0.1, None, 0.3, None)
    exchange = HeldBack(now_ns, lambda: one.content(monotonic_ns()))
    one.follow(exchange)
    with pytest.raises(Expired) as expired, one:
        gevent.sleep(5)
    assert expired.value.kind == "timeout_idle"
    assert monotonic_ns() - now_ns >= 400_000_000
    assert exchange.asked == 2


def test_what_waits_is_asked_for_once_it_is_old():
    """The keeper leaves fresh bytes alone and asks for those that have waited for `BEHIND_NS`."""
    one = watch(Keeper(), Stamps(asked_ns=0), None, None, None, None)
    assert not one.behind(10**12)
    one.follow(HeldBack(10**12))
    limit_ns = 10**12 + BEHIND_NS
    assert (one.behind(limit_ns - 1), one.behind(limit_ns)) == (False, True)
    one.follow(exchange := HeldBack(0))
    with one:
        gevent.sleep(0.2)
    assert exchange.asked == 1


def test_the_keeper_asks_no_more_often_than_it_has_to():
    """Where nothing waits there is nothing to ask for until something can have waited for `BEHIND_NS`."""
    one = watch(Keeper(), Stamps(asked_ns=0), None, None, None, None)
    one.follow(HeldBack(None))
    assert (one.look_ns, one.behind(10**12), one.look_ns) == (0, False, 10**12 + BEHIND_NS)
    one.follow(HeldBack(10**12 - 7))
    assert (one.look_ns, one.behind(10**12), one.look_ns) == (0, False, 10**12 + BEHIND_NS - 7)


def test_a_user_cannot_swallow_a_deadline():
    """Expired is no Exception: `except Exception` in user code lets it pass."""
    assert not issubclass(Expired, Exception)


def test_the_keeper_rests_when_there_is_nothing_to_watch():
    """No request, no greenlet; and it starts again with the next request."""
    keeper = Keeper()
    for _ in range(2):
        with watch(keeper, Stamps(asked_ns=0), None, None, None, None):
            assert keeper._greenlet is not None
        gevent.sleep(0.2)
        assert keeper._greenlet is None

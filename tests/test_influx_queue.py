"""The queue in front of InfluxDB: given = written + dropped + queued, whatever is done with the lines."""

from hypothesis import given
from hypothesis import strategies as st

from llmload.sinks.influx_queue import LineQueue

A, B, C, D, E = (letter * 10 for letter in (b"a", b"b", b"c", b"d", b"e"))


def queue(*lines, most_bytes=1000):
    one = LineQueue(most_bytes=most_bytes)
    for line in lines:
        one.put(line)
    return one


def test_lines_are_taken_in_order_up_to_both_bounds():
    """At most so many, and none more once so many bytes are reached."""
    one = queue(A, B, C, D)
    assert one.take(2, 1000) == [A, B]
    assert one.take(9, 5) == [C]
    assert one.take(9, 11) == [D]
    assert one.take(9, 1000) == []


def test_lines_in_hand_keep_their_room():
    """Until they are stored; so that what is put back always fits."""
    one = queue(A, B, C, most_bytes=20)
    assert one.counts()["dropped"] == 1
    lines = one.take(9, 1000)
    one.put(D)
    one.put_back(lines)
    assert (one.counts()["queued"], one.counts()["dropped"]) == (2, 2)
    one.note_written(one.take(9, 1000))
    one.put(E)
    assert one.counts() == {
        "written": 2, "retried": 0, "dropped": 2, "queued": 1, "error": "the queue is full",
    }  # fmt: skip


def test_what_was_put_back_comes_alone_in_turns_with_what_is_new():
    """And with `new_first` after everything new."""
    one = queue(A, B)
    one.put_back(one.take(9, 1000))
    for line in (C, D, E):
        one.put(line)
    assert one.take(1, 1000) == [A, B]
    one.put_back([A, B])
    assert one.take(1, 1000) == [C]
    assert one.take(1, 1000, new_first=True) == [D]
    assert one.take(1, 1000) == [A, B]
    assert one.take(1, 1000) == [E]
    assert len(one) == 0


def test_after_the_end_nothing_counts_any_more():
    """What a writer that hung says later is too late, and what is given later is dropped."""
    one = queue(A, B, C)
    lines = one.take(2, 1000)
    one.note_trouble("500 a")
    one.close("too late")
    ended = {"written": 0, "retried": 0, "dropped": 3, "queued": 0, "error": "too late; last trouble: 500 a"}
    assert one.counts() == ended
    one.note_written(lines)
    one.put_back(lines)
    one.note_retried(lines)
    one.note_trouble("500 b")
    assert one.counts() == ended
    one.put(D)
    assert one.counts() == {**ended, "dropped": 4, "error": "too late (3); the run has ended (1); last trouble: 500 a"}


def test_reasons_are_few():
    """However many messages InfluxDB has: the biggest losses first, the rest together."""
    one = queue(*[A] * 9)
    for points, why in ((1, "a"), (3, "b"), (2, "c"), (1, "d"), (1, "e")):
        one.note_dropped(one.take(points, 1000), why)
    assert one.counts()["error"] == "b (3); c (2); other reasons (2); a (1)"


@given(st.lists(st.sampled_from(["put", "none", "take", "written", "dropped", "back", "close"]), max_size=60))
def test_given_is_written_dropped_or_queued_after_every_step(steps):
    """In any order of what can happen."""
    one, given_lines, hand, stored, closed = LineQueue(most_bytes=80), 0, [], 0, False
    for step in steps:
        if step in ("put", "none"):
            one.put(A if step == "put" else None)
            given_lines += 1
        elif step == "take":
            if lines := one.take(3, 1000):
                hand.append(lines)
        elif step == "close":
            one.close("the end")
            closed = True
        elif hand:
            lines = hand.pop(0)
            {"written": one.note_written, "back": one.put_back}.get(step, lambda lines: one.note_dropped(lines, "no"))(
                lines
            )
            stored += len(lines) if step == "written" and not closed else 0
        counts = one.counts()
        assert counts["written"] + counts["dropped"] + counts["queued"] == given_lines
        assert counts["written"] == stored
        assert counts["queued"] <= 8

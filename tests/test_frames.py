"""Frames come out complete and in one form, and neither memory nor work grows without bound."""

from __future__ import annotations

import tracemalloc
from collections import deque
from itertools import repeat

import pytest

from llmload.stream.frames import MAX_LINES, Frames, OversizedEvent


def frames(*, limit: int = 1 << 20) -> Frames:
    return Frames(max_frame_bytes=limit)


def feed_all(reads: list[bytes], *, limit: int = 1 << 20) -> bytes:
    cut = frames(limit=limit)
    return b"".join(cut.feed(data) for data in reads) + cut.finish()


def single_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def test_line_ends_come_out_as_lf() -> None:
    """CR, LF and CRLF end a line, in any mixture."""
    assert frames().feed(b"a\r\rb\n\r\nc\r\n\nd\r\n\r\n") == b"a\n\nb\n\nc\n\nd\n\n"


def test_a_frame_whose_blank_line_is_a_cr_does_not_wait() -> None:
    """A CR ends its line at once, and an LF that comes with the next read is swallowed."""
    cut = frames()
    assert cut.feed(b"data: x\r\n\r") == b"data: x\n\n"
    assert cut.feed(b"\ndata: y\r\n") == b""
    assert cut.feed(b"\r") == b"data: y\n\n"
    assert cut.finish() == b""


def test_an_empty_read_between_cr_and_lf_changes_nothing() -> None:
    """A CRLF stays one line end when an empty read comes between its bytes."""
    assert feed_all([b"a\r", b"", b"\n\r\n"]) == b"a\n\n"


def test_a_byte_order_mark_is_taken_off_the_start_only() -> None:
    """The mark goes, whole or cut into single bytes; a second one and a beginning of one stay."""
    assert feed_all([b"\xef\xbb\xbfa\n\n"]) == b"a\n\n"
    assert feed_all(single_bytes(b"\xef\xbb\xbfa\n\n")) == b"a\n\n"
    assert feed_all(single_bytes(b"\xef\xbb\xbf\xef\xbb\xbfa\n\n")) == b"\xef\xbb\xbfa\n\n"
    assert feed_all(single_bytes(b"\xef\xbba\n\n")) == "\ufffda\n\n".encode()


def test_comments_are_taken_out_and_counted() -> None:
    """A comment line is no part of a frame, at its start, in it, or alone."""
    cut = frames()
    assert cut.feed(b": a\ndata: 1\n:b\ndata: 2\n\n") == b"data: 1\ndata: 2\n\n"
    assert cut.feed(b":\n\n").strip() == b""
    assert cut.feed(b"data: :no comment\n\n") == b"data: :no comment\n\n"
    assert cut.comments == 3


def test_invalid_utf8_becomes_replacement_characters_and_is_counted() -> None:
    """Each byte that is no UTF-8 is counted; a cut sequence is one U+FFFD, as a browser shows it."""
    cut = frames()
    assert cut.feed(b"a\xff\n\nb\xe4\xbd\nc\n\n") == "a\ufffd\n\nb\ufffd\nc\n\n".encode()
    assert cut.invalid_bytes == 3


def test_a_character_cut_by_the_end_of_the_stream_is_not_invalid() -> None:
    """The unfinished frame is made complete without its half character, which is nobody's mistake."""
    cut = frames()
    assert cut.feed(b"data: \xc3\xa9\xe4\xbd") == b""
    assert cut.finish() == "data: \u00e9\n\n".encode()
    assert cut.invalid_bytes == 0


def test_nothing_unfinished_is_nothing() -> None:
    """A stream that ended with a blank line, or never began, leaves no tail."""
    cut = frames()
    cut.feed(b"a\n\n")
    assert cut.finish() == b""
    assert frames().finish() == b""


@pytest.mark.parametrize("blank", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"])
def test_the_limit_is_exact_however_the_frame_is_cut(blank: bytes) -> None:
    """A frame of the limit's length passes and one byte more does not, whole and byte by byte."""
    fits, too_long = b"x" * 9 + blank, b"x" * 10 + blank
    for before in (b"", b"a\n\n", b"\n\n\n"):
        for reads in ([before + fits], single_bytes(before + fits)):
            assert feed_all(reads, limit=10).strip().endswith(b"x" * 9)
        for reads in ([before + too_long], single_bytes(before + too_long), [before + too_long + fits]):
            with pytest.raises(OversizedEvent, match="longer than 10 bytes"):
                feed_all(reads, limit=10)


def test_many_frames_in_one_read_are_not_one_long_frame() -> None:
    """The limit is for each frame, not for what one read brings."""
    assert feed_all([b"12345678\n\n" * 100], limit=10) == b"12345678\n\n" * 100


def test_a_stream_without_blank_lines_is_given_up() -> None:
    """What is kept of a frame that never ends is bounded by the limit and the size of a read."""
    cut = frames(limit=100_000)
    tracemalloc.start()
    with pytest.raises(OversizedEvent):
        deque(map(cut.feed, repeat(b"x" * 1000, 10_000)), maxlen=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400_000


def test_a_frame_of_too_many_lines_is_given_up() -> None:
    """A frame may have MAX_LINES lines, comments not counted, and no more, also as a tail."""
    fits = b"data:\n" * MAX_LINES + b"\n"
    assert feed_all([fits]) == fits
    assert feed_all([b":\n" * 5000 + fits]) == fits
    assert feed_all([fits * 3]) == fits * 3
    for reads in ([b"data:\n" + fits], single_bytes(b"data:\n" + fits), [b"data:\n" * (MAX_LINES + 1)]):
        with pytest.raises(OversizedEvent, match="more than 256 lines"):
            feed_all(reads)


class CountedBytes(bytes):
    """Bytes that count how many of them each search looks at."""

    searched = 0

    def rfind(self, *args: object) -> int:
        CountedBytes.searched += len(self)
        return super().rfind(*args)  # type: ignore[arg-type]


def test_a_long_frame_in_small_reads_is_searched_once() -> None:
    """Each byte is looked at as part of its own read only: the work does not grow with what is pending."""
    cut = frames()
    cut.feed(b"data: ")
    CountedBytes.searched = 0
    for _ in range(10_000):
        cut.feed(CountedBytes(b"xyz"))
    assert CountedBytes.searched == 30_000
    assert cut.feed(b"\n\n") == b"data: " + b"xyz" * 10_000 + b"\n\n"

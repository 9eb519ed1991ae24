"""Recorded responses of real servers are read as what they hold, however reads cut them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmload.protocols.openai_chat import OpenAIChat
from llmload.timeline import Usage
from tests.playback import STREAMS, play_every_way, recorded

EXPECTED = [json.loads(line) for line in (STREAMS / "expected.jsonl").read_text(encoding="utf-8").splitlines()]
STREAMED = [row for row in EXPECTED if "events" in row]
ANSWERS = [row for row in EXPECTED if "answer" in row]
ERRORS = [row for row in EXPECTED if "status" in row]


def name(row: dict[str, Any]) -> str:
    return str(row["name"])


def test_every_recording_is_expected() -> None:
    """`expected.jsonl` has one line for each recording and no other."""
    files = sorted(path.stem for path in STREAMS.glob("*.jsonl") if path.stem != "expected")
    assert sorted(name(row) for row in EXPECTED) == files
    assert len(STREAMED) + len(ANSWERS) + len(ERRORS) == len(files)


@pytest.mark.parametrize("row", STREAMED, ids=name)
def test_a_recorded_stream_is_read_as_what_it_holds(row: dict[str, Any]) -> None:
    """Events, tokens, text, finish reasons, usage and ending of a recorded stream are exact."""
    response = recorded(row["name"])
    played = play_every_way(response.body, most=40 if row["events"] > 4 else 10_000)
    timeline = played.timeline
    usage = None if row["usage"] is None else Usage(*row["usage"])
    assert (timeline.events, timeline.token_events) == (row["events"], row["token_events"])
    assert (timeline.text, timeline.generated) == (row["text"], row["text"] + row["other"])
    assert timeline.finish_reasons == dict(row["finish_reasons"])
    assert timeline.usage == usage
    assert (timeline.done, response.complete) == (row["done"], row["complete"])
    assert (timeline.ending(complete=response.complete), timeline.error) == (row["ending"], row["error"])
    assert (played.reader.comments, played.reader.invalid_bytes, timeline.malformed_events) == (row["comments"], 0, 0)


@pytest.mark.parametrize("row", ANSWERS, ids=name)
def test_a_recorded_answer_that_was_not_streamed_is_one_delta(row: dict[str, Any]) -> None:
    """TOK-16: the body of a recorded non-streamed answer is text, finish reason, usage and the end, in one delta."""
    delta = OpenAIChat().read_answer(recorded(row["name"]).body)
    reasons = tuple((index, reason) for index, reason in row["finish_reasons"])
    assert (delta.answer, delta.finish_reasons, delta.usage) == (row["answer"], reasons, Usage(*row["usage"]))
    assert delta.done


@pytest.mark.parametrize("row", ERRORS, ids=name)
def test_a_recorded_error_says_what_is_wrong_on_one_line(row: dict[str, Any]) -> None:
    """HTTP-01: the message of each gateway's error body is found, whatever its shape."""
    response = recorded(row["name"])
    assert (response.status, OpenAIChat().read_error(response.body)) == (row["status"], row["message"])

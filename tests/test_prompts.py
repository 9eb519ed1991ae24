"""Prompts: the shipped set, the loader's grammar and refusals, and who sends which prompt when."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from llmload.errors import SetupError
from llmload.workload import prompts as prompts_module
from llmload.workload.prompts import Prompt, fingerprint, load_prompts
from llmload.workload.source import PromptSource

SHIPPED = Path(prompts_module.__file__).with_name("data") / "prompts.jsonl"
HAN_OR_KANA = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


def split_words(text: str) -> list[str]:
    """Split at white space and before each Han or Kana character, which makes one word of each."""
    return HAN_OR_KANA.sub(r" \g<0>", text).split()


def text_of(prompt: Prompt) -> str:
    return "\n".join(message["content"] for message in prompt.messages)


def user(text: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": text},)


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return path


def refusal(path: Path | str) -> SetupError:
    with pytest.raises(SetupError) as caught:
        load_prompts(path)
    assert caught.value.hint
    return caught.value


def numbered(count: int) -> list[Prompt]:
    return [Prompt(f"p:{i}", user(f"question {i}")) for i in range(count)]


def take(source: PromptSource, count: int) -> list[str]:
    return [source.next().id for _ in range(count)]


# the shipped set


def test_shipped_prompts_are_named_by_their_line() -> None:
    """Without a file 120 prompts are sent, `builtin:1` to `builtin:120`, as the file itself says."""
    written = [json.loads(line)["id"] for line in SHIPPED.read_text("utf-8").split("\n") if line]
    assert [prompt.id for prompt in load_prompts(None)] == written
    assert written == [f"builtin:{number}" for number in range(1, 121)]


def test_shipped_lengths_are_known() -> None:
    """The words written beside each prompt are those of its messages: 58 short, 38 medium, 24 long."""
    stated = [json.loads(line)["words"] for line in SHIPPED.read_text("utf-8").split("\n") if line]
    assert [len(split_words(text_of(prompt))) for prompt in load_prompts(None)] == stated
    short, medium, long = range(8, 45), range(90, 156), range(600, 681)
    assert [sum(words in size for words in stated) for size in (short, medium, long)] == [58, 38, 24]


def test_shipped_prompts_differ_from_the_first_word_on() -> None:
    """DAT-01: no two prompts share even their first word, so a prefix cache does not flatter the server."""
    openings = Counter(split_words(text_of(prompt))[0].casefold() for prompt in load_prompts(None))
    assert [word for word, count in openings.items() if count > 1] == []


def test_shipped_set_is_small_and_of_many_scripts() -> None:
    """The file stays below 250 kB and has Latin, Han, Devanagari, Arabic, Cyrillic, Hangul and emoji."""
    assert SHIPPED.stat().st_size < 250_000
    text = "\n".join(text_of(prompt) for prompt in load_prompts(None))
    for script in (
        "az",
        "\u4e00\u9fff",
        "\u0900\u097f",
        "\u0600\u06ff",
        "\u0400\u04ff",
        "\uac00\ud7a3",
        "🌀🫿",
    ):
        assert any(script[0] <= character <= script[1] for character in text), script


# files


def test_text_file_is_one_prompt_a_line(tmp_path: Path) -> None:
    """Blank lines are skipped yet counted, and the last line needs no line end."""
    file = write(tmp_path / "q.txt", "one\n\n   \n two \nthree")
    assert load_prompts(file) == [
        Prompt("q.txt:1", user("one")),
        Prompt("q.txt:4", user(" two ")),
        Prompt("q.txt:5", user("three")),
    ]


@pytest.mark.parametrize("name", ["q.jsonl", "q.ndjson", "q.json", "Q.JSONL"])
def test_json_lines_have_three_shapes(tmp_path: Path, name: str) -> None:
    """A line is a string, an object with `prompt`, or one with `messages`; further keys are left alone."""
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    called: dict[str, object] = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    chat: list[dict[str, object]] = [
        {"role": "system", "content": ""},
        {"role": "user", "content": parts, "name": "x"},
        called,
    ]
    lines = ['"plain"', '{"prompt": "asked", "id": 7}', json.dumps({"messages": chat})]
    assert load_prompts(write(tmp_path / name, "\n".join(lines))) == [
        Prompt(f"{name}:1", user("plain")),
        Prompt(f"{name}:2", user("asked")),
        Prompt(f"{name}:3", tuple(chat)),
    ]


def test_only_lf_and_crlf_end_a_line(tmp_path: Path) -> None:
    """UNI-04: a byte order mark and CRLF are dropped; U+2028, U+2029, U+0085, FF and CR stay in the text."""
    odd = "a\u2028b\u2029c\u0085d\x0ce\rf"
    assert load_prompts(write(tmp_path / "q.txt", "\ufeff" + odd + "\r\n你好\r\n")) == [
        Prompt("q.txt:1", user(odd)),
        Prompt("q.txt:2", user("你好")),
    ]
    line = json.dumps("a\u2028b\u2029c\u0085d", ensure_ascii=False)
    assert load_prompts(write(tmp_path / "q.jsonl", "\ufeff" + line + "\r\n")) == [
        Prompt("q.jsonl:1", user("a\u2028b\u2029c\u0085d"))
    ]


def test_locale_does_not_matter(tmp_path: Path) -> None:
    """UNI-04: under LC_ALL=C without UTF-8 mode the text is the same."""
    file = write(tmp_path / "q.txt", "你好 🍋\n")
    program = (
        "import sys; from llmload.workload.prompts import load_prompts as load;"
        "print(ascii(load(sys.argv[1])[0].messages[0]['content']), len(load(None)))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", program, str(file)], env=environment, capture_output=True, check=True)
    assert done.stdout.decode().strip() == f"{'你好 🍋'!a} 120"


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("q.txt", "", " has no prompts"),
        ("q.jsonl", "\n \r\n", " has no prompts"),
        ("q.txt", b"fine\n caf\xe9\n", ", line 2: not UTF-8 (byte 0xe9 at offset 4 of the line)"),
        ("q.jsonl", b"\xff\xfe{\x00", ", line 1: not UTF-8 (byte 0xff at offset 0 of the line)"),
        ("q.json", '\n[{"prompt": "x"}]', ", line 2: a JSON array"),
        ("q.json", '[\n  "x"\n]', ", line 1: a JSON array"),
        ("q.jsonl", '"x"\n{"prompt"', ", line 2: not valid JSON (Expecting ':' delimiter at character 10)"),
        ("q.jsonl", '{"prompt": "x", "t": NaN}', ", line 1: not valid JSON (NaN is not JSON)"),
        ("q.jsonl", '"\\ud83d"', ", line 1: half of a surrogate pair (\\ud800 to \\udfff)"),
        ("q.jsonl", "7", ", line 1: no prompt in it"),
        ("q.jsonl", '{"text": "x"}', ", line 1: no prompt in it"),
        ("q.jsonl", '{"prompt": ["x"]}', ", line 1: no prompt in it"),
        ("q.jsonl", '{"prompt": " "}', ", line 1: the prompt is empty"),
        ("q.jsonl", '{"prompt": "x", "messages": []}', ", line 1: both prompt and messages"),
        ("q.jsonl", '{"messages": []}', ", line 1: messages is not a list with at least one message"),
        ("q.jsonl", '{"messages": "x"}', ", line 1: messages is not a list with at least one message"),
        ("q.jsonl", '{"messages": ["x"]}', ", line 1: message 1 is not an object"),
        ("q.jsonl", '{"messages": [{"content": "x"}]}', ", line 1: message 1 has no role"),
        (
            "q.jsonl",
            '{"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": 1}]}',
            ", line 1: message 2 has a content that is no text and no list of parts",
        ),
        (
            "q.jsonl",
            '{"messages": [{"role": "user", "content": ["x"]}]}',
            ", line 1: message 1 has a content part without a type",
        ),
    ],
)
def test_bad_file_is_refused_with_its_line(tmp_path: Path, name: str, data: str | bytes, what: str) -> None:
    """A refusal names the file, the line and the fault, and says what to do."""
    file = write(tmp_path / name, data)
    assert refusal(file).what == f"{file}{what}"


def test_array_file_is_pointed_to_jsonl(tmp_path: Path) -> None:
    """The hint for a JSON array is the command that turns it into JSONL."""
    hint = refusal(write(tmp_path / "q.json", '["x"]')).hint
    assert hint == "write JSONL, one prompt a line: jq -c '.[]' in.json > out.jsonl"


def test_deep_nesting_and_long_numbers_are_bad_json(tmp_path: Path) -> None:
    """What makes Python's JSON reader raise other errors is refused like any bad line."""
    deep = write(tmp_path / "deep.jsonl", '{"a":' * 100_000)
    long = write(tmp_path / "long.jsonl", "9" * 5000)
    for file in (deep, long):
        assert refusal(file).what.startswith(f"{file}, line 1: not valid JSON (")


def test_unreadable_paths_are_refused(tmp_path: Path) -> None:
    """A missing file, a directory, a path through a file and a NUL each get a sentence."""
    missing = tmp_path / "no.txt"
    assert refusal(missing).what == f"there is no prompt file {missing}"
    assert refusal(tmp_path).what == f"the prompt file {tmp_path} is a directory"
    through = write(tmp_path / "q.txt", "x") / "y"
    assert refusal(through).what == f"cannot read the prompt file {through} (Not a directory)"
    assert refusal("a\0b").what.startswith("cannot read the prompt file a\0b (")


def test_prompt_name_is_always_writable(tmp_path: Path) -> None:
    """A file name that is not UTF-8 still gives an id that a record can carry."""
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    try:
        write(file, "x")
    except OSError:
        pytest.skip("this file system wants UTF-8 names")
    assert load_prompts(file)[0].id == "caf?.txt:1"


def test_more_prompts_than_the_limit_are_cut_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """DAT-03: exactly the limit is silent; one more line is left out, with a warning."""
    monkeypatch.setattr(prompts_module, "MAX_PROMPTS", 3)
    caplog.set_level(logging.WARNING)
    assert len(load_prompts(write(tmp_path / "three.txt", "a\n\nb\nc\n\n"))) == 3
    assert caplog.messages == []
    file = write(tmp_path / "four.txt", "a\n\nb\nc\nd\n")
    assert [prompt.id for prompt in load_prompts(file)] == ["four.txt:1", "four.txt:3", "four.txt:4"]
    assert caplog.messages == [
        f"{file}: only the first 3 prompts (lines 1 to 4) are used; limits: 3 prompts and 256 MiB"
    ]


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """DAT-03: reading stops at so many bytes of text, and one endless line is refused."""
    monkeypatch.setattr(prompts_module, "MAX_FILE_BYTES", 10)
    assert len(load_prompts(write(tmp_path / "q.txt", "1234\n6789\nbcde\n"))) == 2
    assert len(caplog.messages) == 1
    monkeypatch.setattr(prompts_module, "MAX_LINE_BYTES", 1 << 20)
    file = write(tmp_path / "wide.txt", "ok\n" + "x" * ((1 << 20) + 1))
    assert refusal(file).what == f"{file}, line 2: longer than 1 MiB"


def test_fingerprint_is_of_the_content() -> None:
    """DIST-11: names and key order do not count, texts and their order do; the value never changes."""
    one, two = Prompt("a:1", user("one")), Prompt("a:2", user("two"))
    turned = Prompt("b:9", ({"content": "one", "role": "user"},))
    assert fingerprint([one, two]) == fingerprint([turned, two]) == "41b6454b5494"
    assert len({fingerprint(each) for each in ([one, two], [two, one], [one], [two])}) == 4


# the source


def test_workers_send_disjoint_prompts_that_complete_each_lap() -> None:
    """DIST-08: four workers with seed 1 send every prompt exactly once a lap, in three laps."""
    prompts = numbered(42)
    sources = [PromptSource(prompts, seed=1, worker_index=i, worker_count=4) for i in range(4)]
    for _ in range(3):
        shares = [take(source, size) for source, size in zip(sources, (11, 11, 10, 10), strict=True)]
        assert sorted(name for share in shares for name in share) == sorted(prompt.id for prompt in prompts)
    assert [(source.laps, source.served, source.repeats) for source in sources] == [
        (2, 33, 22), (2, 33, 22), (2, 30, 20), (2, 30, 20)
    ]  # fmt: skip


def test_order_is_a_matter_of_the_seed() -> None:
    """The same seed gives the same order, also on another day; another seed or lap gives another."""
    first = take(PromptSource(numbered(6), seed=1), 12)
    assert first == take(PromptSource(numbered(6), seed=1), 12)
    assert first == [f"p:{i}" for i in (2, 1, 0, 4, 3, 5, 2, 5, 1, 4, 0, 3)]
    assert first[:6] != first[6:]
    assert first != take(PromptSource(numbered(6), seed=2), 12)


def test_laps_and_repeats_begin_with_the_first_repetition() -> None:
    """DAT-01: three prompts, four requests: the fourth is a repeat and ends the first lap."""
    source = PromptSource(numbered(3), seed=1)
    assert len(set(take(source, 3))) == 3
    assert (source.laps, source.repeats, source.served) == (0, 0, 3)
    source.next()
    assert (source.laps, source.repeats, source.served) == (1, 1, 4)


def test_more_workers_than_prompts_share() -> None:
    """Each of five workers gets one of two prompts per lap; what the later three send are repeats."""
    sources = [PromptSource(numbered(2), seed=1, worker_index=i, worker_count=5) for i in range(5)]
    sent = [take(source, 1)[0] for source in sources]
    assert sent == [sent[0], sent[1], sent[0], sent[1], sent[0]]
    assert set(sent) == {"p:0", "p:1"}
    assert [source.repeats for source in sources] == [0, 0, 1, 1, 1]


def test_prompts_by_position_are_the_same_for_every_worker() -> None:
    """Positions count over all laps: each has every prompt once, and repetitions get a nonce of their position."""
    prompts = numbered(10)
    sources = [
        PromptSource(prompts, seed=4, worker_index=i, worker_count=3, unique="repeats", salt="r") for i in (0, 2)
    ]
    dealt = [[source.next(position) for position in (*range(20), 3)] for source in sources]
    assert dealt[0] == dealt[1]
    assert sorted(prompt.id for prompt in dealt[0][:10]) == sorted(prompt.id for prompt in prompts)
    assert dealt[0][3] == dealt[0][20]
    texts = [prompt.messages[0]["content"] for prompt in dealt[0][10:20]]
    assert all("-p1" in text for text in texts)
    assert len({text.split()[0] for text in texts}) == 10
    assert sources[0].served == 21


def test_odd_worker_numbers_still_send() -> None:
    """An index of -1 and a count of 0 mean "not known"; an index beyond the count shares a slice."""
    assert take(PromptSource(numbered(9), seed=1, worker_index=-1, worker_count=0), 9) == take(
        PromptSource(numbered(9), seed=1), 9
    )
    late = PromptSource(numbered(9), seed=1, worker_index=4, worker_count=3)
    assert take(late, 3) == take(PromptSource(numbered(9), seed=1, worker_index=1, worker_count=3), 3)
    assert late.repeats == 3


def test_no_prompts_is_a_set_up_error() -> None:
    """An empty list is refused before any load."""
    with pytest.raises(SetupError, match="there are no prompts to send"):
        PromptSource([], seed=1)


def test_unique_prompts_differ_from_the_first_word_on() -> None:
    """DAT-01: 4 workers, 10 prompts, 1,000 requests: as many first words; the text behind stays."""
    sources = [PromptSource(numbered(10), seed=1, worker_index=i, worker_count=4, unique="always") for i in range(4)]
    texts = [text_of(source.next()) for _ in range(250) for source in sources]
    words = [text.split(" ", 1) for text in texts]
    assert len({head for head, _ in words}) == 1000
    assert {rest for _, rest in words} == {f"question {i}" for i in range(10)}
    # The hash comes first: the very first characters are spread over the whole alphabet of 32.
    assert len({head[0] for head, _ in words}) == 32
    assert max(Counter(head[:4] for head, _ in words).values()) <= 3


def test_nonce_is_reproducible_and_salted() -> None:
    """The nonce is fixed by seed, worker and counter; another salt (run) or seed gives another hash."""

    def head(seed: int, salt: str, worker: int = 2) -> str:
        source = PromptSource(numbered(1), seed=seed, worker_index=worker, worker_count=3, unique="always", salt=salt)
        return text_of(source.next())

    assert head(1, "") == "zt4cf7zo-2-1: question 0"
    assert len({head(1, ""), head(2, ""), head(1, "run a"), head(1, "run b"), head(1, "", 1)}) == 5


def test_nonce_opens_the_first_user_message() -> None:
    """It goes before a text, into a leading text part, before an image, and nothing else changes."""
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    system, answer = {"role": "system", "content": "be brief"}, {"role": "assistant", "content": "yes"}
    text_part = {"type": "text", "text": "look", "cache": 1}

    def sent(*messages: Mapping[str, object]) -> list[object]:
        before = json.dumps(messages)
        source = PromptSource([Prompt("p:1", messages)], seed=1, unique="always")
        prompt = source.next()
        assert prompt.id == "p:1"
        assert json.dumps(messages) == before
        return [json.loads(json.dumps(each).replace("a5a52swm-0-1: ", "#")) for each in prompt.messages]

    asked = {"role": "user", "content": "hi", "name": "x"}
    again = {"role": "user", "content": "more"}
    assert sent(system, asked, answer, again) == [system, {**asked, "content": "#hi"}, answer, again]
    assert sent({"role": "user", "content": [text_part, image]}) == [
        {"role": "user", "content": [{**text_part, "text": "#look"}, image]}
    ]
    assert sent({"role": "user", "content": [image]}) == [
        {"role": "user", "content": [{"type": "text", "text": "#"}, image]}
    ]
    assert sent(answer) == [{"role": "assistant", "content": "#yes"}]


def test_shipped_prompts_get_a_nonce_only_when_they_come_again() -> None:
    """DAT-01: the first lap has the prompts as they are, the second none that a prefix cache could know."""
    prompts = [Prompt(f"p{n}", ({"role": "user", "content": f"text {n}"},)) for n in range(3)]
    source = PromptSource(prompts, seed=1, unique="repeats")
    first = [source.next().messages[0]["content"] for _ in range(3)]
    second = [source.next().messages[0]["content"] for _ in range(3)]
    assert sorted(first) == ["text 0", "text 1", "text 2"]
    assert all(text.split(": ")[1] in first and text not in first for text in second)
    assert len({text.split("-")[0] for text in second}) == 3
    assert source.repeats == 0

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_core.stopping import IncrementalDetokenizer, StopChecker


def decode_bytes(ids) -> str:
    """A byte-level tokenizer: id 256 is the end-of-sequence token and has no text."""
    return bytes(i for i in ids if i < 256).decode("utf-8", errors="replace")


def run(text: bytes | list[int], **options) -> tuple[StopChecker, list[str]]:
    checker, pieces = StopChecker(decode=decode_bytes, **{"max_tokens": 10_000} | options), []
    for token in text:
        checker.push(token)
        pieces.append(checker.take_text())
    return checker, pieces


def test_a_stop_string_across_tokens_ends_the_text_before_it() -> None:
    checker, pieces = run(b"one END two", stop=["END"])
    assert (checker.text, checker.finish_reason, checker.stop_string) == ("one ", "stop", "END")
    assert bytes(checker.token_ids) == b"one END"
    assert "".join(pieces) == "one "


def test_the_earliest_stop_string_wins() -> None:
    assert run(b"a<stop>b", stop=["top>", "<st"])[0].text == "a"


def test_text_that_may_become_a_stop_string_is_held_back_and_released_when_it_does_not() -> None:
    _, pieces = run(b"xENx", stop=["END"])
    assert pieces == ["x", "", "", "ENx"]


def test_the_end_of_sequence_token_comes_before_the_length_cap() -> None:
    checker, _ = run([*b"ab", 256], max_tokens=3, eos_token_ids=[256])
    assert (checker.finish_reason, checker.token_ids, checker.text) == ("stop", [97, 98, 256], "ab")


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_small_limits(limit: int) -> None:
    checker, _ = run(b"abc", max_tokens=limit)
    assert (checker.text, checker.finish_reason) == ("abc"[:limit], "length")


def test_a_stop_string_that_is_a_special_token_ends_the_text() -> None:
    """Special tokens leave no text, so looking for the string in the text never found it."""
    checker, _ = run([*b"ab", 256, *b"c"], stop=["<sep>"], stop_tokens={256: "<sep>"})
    assert (checker.text, checker.finish_reason, checker.stop_string) == ("ab", "stop", "<sep>")
    assert checker.token_ids == [97, 98, 256]


def test_a_stop_string_completed_by_the_last_allowed_token_is_a_stop() -> None:
    checker, _ = run(b"abEND", max_tokens=5, stop=["END"])
    assert (checker.text, checker.finish_reason) == ("ab", "stop")


def test_a_text_cut_inside_a_character_shows_the_replacement_character_only_at_the_end() -> None:
    checker, pieces = run("aé".encode()[:2], max_tokens=2)
    assert pieces == ["a", "\ufffd"]
    assert checker.text == "a\ufffd"


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_streams_hold_whole_characters_and_nothing_a_stop_string_takes_back(text: str, stop: list[str]) -> None:
    checker, pieces = run([*text.encode(), 256], eos_token_ids=[256], stop=stop)
    assert "".join(pieces) == checker.text
    positions = [text.find(s) for s in stop if s in text]
    # a stop string may be seen one token before an earlier-starting, longer one is complete
    assert text.startswith(checker.text)
    assert all(s not in checker.text for s in stop)
    assert (checker.finish_reason == "stop") and (bool(checker.stop_string) == bool(positions))


@given(st.text(max_size=40))
def test_released_pieces_make_the_text(text: str) -> None:
    detokenizer = IncrementalDetokenizer(decode_bytes)
    pieces = [detokenizer.push(token) for token in text.encode()]
    assert "".join(pieces) + detokenizer.flush() == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)

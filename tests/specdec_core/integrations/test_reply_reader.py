"""Replies of every form, cut into any pieces, read as if they came whole; nothing that is cut is mended."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.utils.json import parse_partial_json

from specdec_core.integrations.reply_form import call_text
from specdec_core.integrations.reply_reader import CallPiece, ReplyReader

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(
    st.tuples(st.from_regex("[a-zA-Z0-9_-]{1,9}", fullmatch=True), st.dictionaries(st.text(), VALUES, max_size=3)),
    min_size=1,
    max_size=3,
)
CUTS = st.lists(st.integers(0, 400), max_size=8)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[start:end] for start, end in pairwise(places)]


def read(*pieces: str) -> tuple[ReplyReader, list[str | CallPiece]]:
    reader = ReplyReader()
    said = [piece for text in pieces for piece in reader.feed(text)]
    return reader, said + reader.finish()


def put_together(said: list[str | CallPiece]) -> tuple[str, list[tuple[str | None, str]]]:
    """The answer and the calls that a listener comes to."""
    names: dict[int, str | None] = {}
    args: dict[int, str] = {}
    for piece in said:
        if isinstance(piece, CallPiece):
            assert piece.begins == (piece.index not in names)
            names.setdefault(piece.index, piece.name)
            args[piece.index] = args.get(piece.index, "") + piece.args
    text = "".join(piece for piece in said if isinstance(piece, str))
    return text, [(names[index], args[index]) for index in sorted(names)]


@given(st.text(), CUTS, st.booleans())
def test_an_answer_is_the_same_however_it_is_cut(text: str, cuts: list[int], ascii_only: bool) -> None:
    reader, said = read(*pieces_of(json.dumps({"final_answer": text}, ensure_ascii=ascii_only), cuts))
    assert (reader.text, reader.calls) == (text, [])
    assert put_together(said) == (text, [])


@given(VALUES.filter(lambda value: not isinstance(value, str)), CUTS)
def test_an_answer_that_is_json_stays_json(value: object, cuts: list[int]) -> None:
    reader, said = read(*pieces_of(json.dumps({"final_answer": value}), cuts))
    assert reader.text == json.dumps(value) == put_together(said)[0]


@given(CALLS, CUTS, st.sampled_from([None, 0, 2]))
def test_calls_are_the_same_however_they_are_cut(calls: list, cuts: list[int], indent: int | None) -> None:
    text = json.dumps(json.loads(call_text(calls)), indent=indent)
    reader, said = read(*pieces_of(text, cuts))
    assert [(call.name, call.arguments()) for call in reader.calls] == calls
    assert put_together(said) == ("", [(call.name, call.args) for call in reader.calls])


@given(CALLS, st.data())
def test_a_call_that_is_cut_is_no_call_and_nobody_can_mend_it(calls: list, data: st.DataObject) -> None:
    """LangChain mends what it can of a stream: an order of 1 instead of 100 would go out."""
    text = call_text(calls)
    cut = data.draw(st.integers(len('{"tool_calls": [') + 1, len(text) - 1))
    reader, said = read(*pieces_of(text[:cut], data.draw(CUTS)))
    num_whole = sum(call.arguments() is not None for call in reader.calls)
    assert [(call.name, call.arguments()) for call in reader.calls[:num_whole]] == calls[:num_whole]
    for name, args in put_together(said)[1][num_whole:]:
        assert not isinstance(_mended(args), dict), (name, args)
    assert len(reader.calls) - num_whole <= 1


def _mended(args: str) -> object:
    try:
        return parse_partial_json(args)
    except ValueError:
        return None


@pytest.mark.parametrize(
    "text",
    [
        "Forty-two.",
        "",
        " ",
        "{",
        '{"an',
        '{"answers": 3}',
        '```json\n{"final_answer": "x"}\n```',
        '{"name": "find", "arguments": {}}',
        "[1]",
        "{}",
    ],
)
def test_a_text_of_no_such_form_is_the_answer_as_it_stands(text: str) -> None:
    for pieces in ([text], list(text)):
        reader, said = read(*pieces)
        assert (reader.text, reader.calls) == (text, [])
        assert put_together(said)[0] == text


@given(st.text(), st.integers(0, 60))
def test_an_answer_that_is_cut_is_what_was_said_so_far(text: str, cut: int) -> None:
    whole = json.dumps({"final_answer": text})
    reader, said = read(*whole[:cut])
    if cut > len('{"final_answer": "'):
        assert text.startswith(reader.text) and put_together(said)[0] == reader.text


def test_escapes_are_read_also_wrong_ones() -> None:
    def answer(raw: str) -> str:
        whole, by_one = read(f'{{"final_answer": "{raw}"}}')[0].text, read(*f'{{"final_answer": "{raw}"}}')[0].text
        assert whole == by_one
        return whole

    assert answer(r"a\"b\\c\n\u00e9\ud83d\ude00") == 'a"b\\c\né😀'
    assert answer(r"\ud83dx") == "\ufffdx"
    assert answer(r"\ude00") == "\ufffd"
    assert answer(r"\q \u12") == "\ufffdq \ufffdu12"
    assert answer("two\nlines") == "two\nlines"  # not JSON, but clear


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"tool_calls": [{"name": "f", "arguments": {x}}]}', ["f"]),
        ('{"tool_calls": [{"name": "f", "arguments": [1]}]}', ["f"]),
        ('{"tool_calls": [{"name": "f", "arguments": "{}"}]}', ["f"]),
        ('{"tool_calls": [{"name": "f", "arguments": }]}', ["f"]),
        ('{"tool_calls": [{"name": "f"}]}', [None]),
        ('{"tool_calls": ["f"]}', [None]),
    ],
)
def test_what_an_engine_without_grammars_writes_is_a_wrong_call_not_a_guess(text: str, names: list) -> None:
    for pieces in ([text], list(text)):
        reader, said = read(*pieces)
        assert [(call.name, call.arguments()) for call in reader.calls] == [(name, None) for name in names]
        assert not any(isinstance(_mended(args), dict) for _, args in put_together(said)[1])


def test_an_empty_list_of_calls_is_an_empty_answer() -> None:
    reader, said = read('{"tool_calls": []}')
    assert (reader.text, reader.calls, said) == ("", [], [])


def test_pieces_come_as_soon_as_they_are_sure() -> None:
    reader = ReplyReader()
    said = [reader.feed(char) for char in '{"final_answer": "a\\n"}']
    assert [piece for pieces in said for piece in pieces] == ["a", "\n"]
    reader = ReplyReader()
    reader.feed('{"tool_calls": [{"name": "f", "arguments": ')
    assert reader.feed('{"a": "x') == [CallPiece(0, '{"a": "x')]

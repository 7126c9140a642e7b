"""Values as text: what goes in comes out, of the same type; nothing else comes out of anything."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, namedtuple
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.sandbox.literals import PlainValueError, TooLargeError, decode, encode

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**5000), 10**5000),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
)
KEYS = st.one_of(st.integers(), st.text(), st.tuples(st.integers(), st.text()), st.frozensets(st.integers()))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(KEYS, inner),
        st.sets(KEYS),
        st.frozensets(KEYS),
    ),
    max_leaves=10,
)


def same(one: Any, other: Any) -> bool:
    """Equal and of the same types all the way down; nan is like nan, and 0.0 unlike -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    return repr(one) == repr(other) if isinstance(one, float | complex) else bool(one == other)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    text = encode(value)
    assert text.isascii() and "\n" not in text
    assert same(decode(text), value)


@given(st.one_of(st.text(), st.text("()[]{}'\",:0123456789.-+ej_infasetrozcmplx ")))
def test_any_text_is_a_plain_value_or_refused(text: str) -> None:
    try:
        value = decode(text)
    except ValueError:
        return
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "[].append",
        "int",
        "f'{1}'",
        "1 + 1",
        "...",
        "lambda: 1",
        "set([1])",
        "complex(1, 2)",
        "complex(1.0)",
        "frozenset([1])",
        "-True",
        "-'a'",
        "{[]: 1}",
        "{**{}}",
        "[*[1]]",
        "[x for x in ()]",
        "1j",
        "x := 1",
        "[" * 500 + "]" * 500,
        "-" * 50_000 + "1",
        "(" * 100_000,
        "1" * 5000,
        "\0",
        "",
    ],
)
def test_what_is_no_plain_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"plain value|large|deeply"):
        decode(text)


class _Int(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


_Pair = namedtuple("_Pair", "a b")
_Level = IntEnum("_Level", "LOW HIGH")


@pytest.mark.parametrize("value", [_Int(1), [_Int(1)], {1: _Int(1)}, _Pair(1, 2), _Level(1), object(), range(3), int])
def test_subclasses_and_objects_do_not_travel(value: Any) -> None:
    with pytest.raises(PlainValueError):
        encode(value)


def test_the_usual_dictionaries_travel_as_dict() -> None:
    for value in (Counter("aab"), OrderedDict(a=2, b=1), defaultdict(int, a=2, b=1)):
        assert same(decode(encode(value)), {"a": 2, "b": 1})


def test_a_dictionary_cannot_pass_its_own_methods_off() -> None:
    class Loud(dict[str, int]):
        def items(self) -> Any:
            raise AssertionError("called")

    Loud.__module__, Loud.__name__ = "collections", "Counter"
    assert encode(Loud(a=1)) == "{'a': 1}"


@pytest.mark.parametrize("value", ["x" * 2_000_000, [0] * 2_000_000, 1 << 10_000_000], ids=["text", "list", "number"])
def test_what_is_too_large_does_not_travel(value: Any) -> None:
    with pytest.raises(TooLargeError):
        encode(value)


def test_endless_values_do_not_travel() -> None:
    inner: list[Any] = []
    inner.append(inner)
    shared: list[Any] = [1]
    for _ in range(50):
        shared = [shared, shared]
    for value in (inner, shared):
        with pytest.raises(TooLargeError):
            encode(value)

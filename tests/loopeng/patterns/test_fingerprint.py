"""The same mistake has the same fingerprint, whatever the numbers, names and places in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.patterns.fingerprint import fingerprint, normalise


def test_three_products_that_are_too_long_are_one_mistake() -> None:
    reasons = [f"has {n} words, at most 25 allowed" for n in (41, 38, 107)]
    assert len({fingerprint("short", "length.too_long", reason) for reason in reasons}) == 1


def test_evaluator_category_and_shape_tell_mistakes_apart() -> None:
    prints = {
        fingerprint("short", "length.too_long", "has 41 words"),
        fingerprint("brief", "length.too_long", "has 41 words"),
        fingerprint("short", "length.too_short", "has 41 words"),
        fingerprint("short", "length.too_long", "has 41 characters"),
    }
    assert len(prints) == 4


def test_fingerprints_never_change_within_a_version() -> None:
    """Stored patterns are found again by them."""
    assert fingerprint("short", "length.too_long", "has 41 words, at most 25 allowed") == "v1:6592c8979e21c35f"


@pytest.mark.parametrize(
    ("one", "other", "shape"),
    [
        ("Has 41 words", "has 7 WORDS", "has <n> words"),
        ("got 3.14e-5, wanted -2", "got 1,000, wanted 7", "got <n>, wanted <n>"),
        ("it is 10% off", "it is 3% off", "it is <n>% off"),
        ("missing 'red mug'", 'missing "it\'s blue"', "missing <str>"),
        ("missing 'it's'", "missing `x`", "missing <str>"),
        ("no “a” in ‘b’", "no «x» in 'y'", "no <str> in <str>"),
        ("it doesn't say 'a' or 'b'", "it doesn't say 'c' or 'd e'", "it doesn't say <str> or <str>"),
        ("see /tmp/a/b.py and c/d.py", "see ~/x.txt and ../y", "see <path> and <path>"),
        (r"in C:\Users\a.txt", "in ./b", "in <path>"),
        ("at 2026-01-31T10:11:12.5Z", "at 12:30", "at <id>"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 0xDEADBEEF", "id <id>"),
        ("object a1b2c3d4e5 is gone", "object deadbeef01 is gone", "object <id> is gone"),
        ("$.items[3].name is  missing\n", "$.items[14].name is missing", "$.items[<n>].name is missing"),
        (
            "AssertionError: assert f(2) == 4",
            "AssertionError: assert f(10) == 100",
            "assertionerror: assert f(<n>) == <n>",
        ),
    ],
)
def test_shapes(one: str, other: str, shape: str) -> None:
    assert normalise(one) == normalise(other) == shape


def test_words_are_kept() -> None:
    for reason in (
        "the decade was added",
        "true/false expected",
        "no answer: line found",
        "a bad facade",
        "don't, won't",
    ):
        assert normalise(reason) == reason


def test_what_comes_from_the_input_is_dropped() -> None:
    reasons = {
        normalise("does not name the Red Kettle", {"product": "red  kettle"}),
        normalise("does not name the mug", {"product": "Mug", "tags": ["new"], "price": 3}),
        normalise("does not name the desk lamp", {"nested": {"deep": ["desk lamp", "desk"]}}),
    }
    assert reasons == {"does not name the <input>"}


def test_an_input_that_holds_the_reasons_own_words_does_not_split_the_pattern() -> None:
    """Dropping every word of a long input would: "words" is gone for one sample and stays for the next."""
    game = normalise("has 41 words, at most 25 allowed", {"product": "a game of words, at most 4 players allowed"})
    assert game == normalise("has 38 words, at most 25 allowed", {"product": "mug"})


def test_short_inputs_are_no_names() -> None:
    assert normalise("a is no answer", {"x": "a", "y": "is"}) == "a is no answer"


REASONS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="ab '\"`<>n0123456789./\\:-_", max_size=60),
    st.lists(
        st.sampled_from(["<n>", "<str>", "<id>", "'a b'", "12", "1.5e3", "/tmp/x", "12:30", "deadbeef1", "words", "-"]),
        max_size=8,
    ).map(" ".join),
)


@given(REASONS, st.dictionaries(st.sampled_from("xyz"), st.text(max_size=10), max_size=2))
@settings(max_examples=300, deadline=None)
def test_normalising_twice_changes_nothing_and_leaves_no_digit(reason: str, inputs: dict) -> None:
    once = normalise(reason, inputs)
    assert normalise(once) == once
    assert not any(char in "0123456789" for char in once)
    assert once == once.lower() and once == " ".join(once.split())


@given(st.lists(st.integers(0, 10**9), min_size=3, max_size=3), st.lists(st.integers(0, 10**9), min_size=3, max_size=3))
@settings(max_examples=100, deadline=None)
def test_numbers_never_tell_mistakes_apart(some: list[int], others: list[int]) -> None:
    form = "line {}: has {} words; at most {} allowed"
    assert fingerprint("e", "c", form.format(*some)) == fingerprint("e", "c", form.format(*others))

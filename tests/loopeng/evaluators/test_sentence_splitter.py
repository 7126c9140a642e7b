from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.evaluators import split_sentences

QUICK = settings(max_examples=50, deadline=None)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" ... ", []),
        ("no full stop", ["no full stop"]),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Hello!!! World?!", ["Hello!!!", "World?!"]),
        ("good. it is", ["good.", "it is"]),
        ("Great! it works", ["Great!", "it works"]),
        ("nice.It is", ["nice.", "It is"]),
        # abbreviations, initials, numbers
        ("Dr. Lee met Mr. Ray.", ["Dr. Lee met Mr. Ray."]),
        ("Use it, e.g. Outdoors.", ["Use it, e.g. Outdoors."]),
        ("Pots, pans, etc. are in. Pots, etc. Then pans.", ["Pots, pans, etc. are in.", "Pots, etc.", "Then pans."]),
        ("At 5 p.m. today in the U.S. market.", ["At 5 p.m. today in the U.S. market."]),
        ("Made in the U.S. It lasts.", ["Made in the U.S.", "It lasts."]),
        ("J. K. Rowling wrote it.", ["J. K. Rowling wrote it."]),
        ("So am I. He is.", ["So am I.", "He is."]),
        ("It costs 3.50 or $5. 20 are left.", ["It costs 3.50 or $5.", "20 are left."]),
        ("No. 5 is nice. No. It is not.", ["No. 5 is nice.", "No.", "It is not."]),
        ("Version 3.5.1 of www.example.com is out.", ["Version 3.5.1 of www.example.com is out."]),
        ("It is 12 cm (approx. 5 in.) tall.", ["It is 12 cm (approx. 5 in.) tall."]),
        # ellipsis and quotes
        ("Wait... what? Wait… What?", ["Wait... what?", "Wait…", "What?"]),
        ('He said "Wow!" and left.', ['He said "Wow!" and left.']),
        ('He said "Wow!" She left.', ['He said "Wow!"', "She left."]),
        ("“First.” “Second.”", ["“First.”", "“Second.”"]),
        ("**Bold.** Next (one). Last.", ["**Bold.**", "Next (one).", "Last."]),
        # lines and lists
        ("- red\n- blue\n* green", ["red", "blue", "green"]),
        ("1. First\n2) Second", ["First", "Second"]),
        ("# Title\n\nText here.", ["Title", "Text here."]),
        ("Title\r\nText", ["Title", "Text"]),
        ("a wrapped line\ngoes on here.", ["a wrapped line goes on here."]),
        ("It ends.\nand again", ["It ends.", "and again"]),
        ("これはペンです。いいです。", ["これはペンです。", "いいです。"]),
    ],
)
def test_split(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@QUICK
@given(st.text(alphabet="ab AB.!?…\"'\n-1。"))
def test_nothing_that_is_said_is_lost(text: str) -> None:
    letters = [character for sentence in split_sentences(text) for character in sentence if character.isalpha()]
    assert letters == [character for character in text if character.isalpha()]


@QUICK
@given(st.lists(st.sampled_from(["It is red.", "Is it?", "Yes!", 'She said "no".', "It costs 3.50, e.g. today."])))
def test_plain_sentences_are_counted(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences
    assert split_sentences("\n".join(sentences)) == sentences


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("A. " * 100_000, 1),
        ("Ab. " * 100_000, 100_000),
        ("!" * 300_000 + "x", 1),
        ("a." * 150_000, 1),
        ("." + "*" * 300_000 + "x", 1),
        ("go\n" * 100_000, 1),
        ("a" * 300_000 + ". B.", 2),
    ],
    ids=lambda value: str(value)[:9],
)
def test_long_texts_of_marks_are_split_in_one_pass(text: str, count: int) -> None:
    """Each looked back over all before it once, which took minutes for these."""
    assert len(split_sentences(text)) == count

from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators
from tests.loopeng.evaluators.conftest import Judge

CITIES = ["London", "Paris", "New York", "York"]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("B", None),
        ("b", None),
        ("(B)", None),
        ("**B.**", None),
        ("B) Paris", None),
        ("B. Paris", None),
        ("Paris", None),
        ("PARIS.", None),
        ("It is paris, of course.", None),
        ("The answer is B.", None),
        ("The answer is (b)", None),
        ("Option B", None),
        ("I would choose option B", None),
        ("It must be B, a fine place.", None),
        ("London is large. Still, the answer is Paris.", None),
        ("A) London is wrong, so:\nAnswer: B", None),
        ("**Answer:** B) Paris", None),
        ("Answer:\nB", None),
        ("A", "choice.wrong"),
        ("A)", "choice.wrong"),
        ("New York", "choice.wrong"),
        ("York", "choice.wrong"),
        ("The answer is A.", "choice.wrong"),
        ("A or B", "choice.ambiguous"),
        ("A) London\nB) Paris\nC) New York\nD) York", "choice.ambiguous"),
        ("London, not Paris", "choice.ambiguous"),
        ("The answer is A or B", "choice.ambiguous"),
        ("", "choice.none"),
        ("A good question. I do not know.", "choice.none"),
        ("Parisian", "choice.none"),
        ("E", "choice.none"),
        ("Washington D.C., and C++ or B-movies", "choice.none"),
    ],
)
def test_choice(text: str, category: str | None, judge: Judge) -> None:
    for target in ("Paris", "B", "b", " paris "):
        result = judge(text, type="choice", choices=CITIES, target=target)
        assert (result.error, result.passed, result.category) == (None, category is None, category)
        assert (result.score, "Paris" in result.feedback) == (float(category is None), False)


def test_a_label_inside_an_options_text_does_not_count(judge: Judge) -> None:
    keys = {"type": "choice", "choices": ["vitamin C", "iron", "zinc"], "target": "A"}
    assert judge("It is vitamin C.", **keys).passed
    assert judge("It is C.", **keys).category == "choice.wrong"


def test_numbers_as_labels_and_as_options(judge: Judge) -> None:
    keys = {"type": "choice", "choices": ["red", "green", "blue"], "labels": "numbers", "target": 2}
    for text, category in {"2": None, "2) green": None, "1.": "choice.wrong", "I saw 3 cats": "choice.none"}.items():
        assert judge(text, **keys).category == category
    keys = {"type": "choice", "choices": ["3", "4", "15.5"], "target": "4"}
    assert judge("The answer is 4.", **keys).passed
    assert judge("It is 15.5", **keys).category == "choice.wrong"
    assert judge("3 + 1 = 4", **keys).category == "choice.ambiguous"
    assert judge("3 + 1 = 4, so the answer is 4", **keys).passed


def test_options_may_be_a_field_of_the_sample(judge: Judge) -> None:
    keys = {"type": "choice", "field": "options", "target": "blue"}
    assert judge("B", inputs={"options": ["red", "blue"]}, **keys).passed
    assert judge("A", inputs={"options": ["red", "blue"]}, **keys).category == "choice.wrong"
    for options in ("red, blue", ["blue"], None):
        result = judge("B", inputs={"options": options}, **keys)
        assert result.error == "ValueError: the field 'options' must hold a list of 2 to 26 options"
    assert "is the label of another" in str(judge("A", inputs={"options": ["B", "A"]}, **keys).error)
    (built,) = build_evaluators([{"id": "it", "type": "choice", "field": "options"}])
    assert built.placeholders == {"options", "target"}  # type: ignore[attr-defined]


def test_options_that_are_their_own_labels(judge: Judge) -> None:
    keys = {"type": "choice", "choices": ["A", "B"], "target": "B"}
    assert judge("A thought: the answer is B", **keys).passed
    assert judge("Only B makes a difference", **keys).passed


def test_a_target_that_is_no_option_is_an_error(judge: Judge) -> None:
    result = judge("B", type="choice", choices=CITIES, target="Rome")
    assert result.error == "ValueError: the expected value 'Rome' is neither the label nor the text of an option"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "give exactly one of 'choices' and 'field'"),
        ({"choices": ["a", "b"], "field": "x"}, "give exactly one of"),
        ({"choices": ["red", "RED"]}, "two options are the same"),
        ({"choices": ["B", "A"]}, "the option 'B' is the label of another option"),
    ],
)
def test_options_that_cannot_be_told_apart_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        build_evaluators([{"id": "it", "type": "choice", **keys}])


def test_choice_says_what_is_wanted(judge: Judge) -> None:
    keys = {"type": "choice", "choices": ["red", "blue"], "target": "B"}
    assert judge("?", **keys).feedback == "Answer with the letter or the text of one option."
    assert judge("red", **keys).remedy == "Compare all options before you choose one."
    assert judge("red blue", **keys).remedy == "Name one option only. Do not mention the others."


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("The answer is B because it is the capital.", None),
        ("The answer is b because it is the capital.", None),
        ("The answer is B. C is wrong because it is too small.", None),
        ("The answer is (B), because (C) is smaller.", None),
        ("The answer is **B** since A is in England", None),
        ("The answer is 'B'. London is not in France.", None),
        ("The answer is Paris, because London is too large.", None),
        ("The answer is A because it is the largest.", "choice.wrong"),
        ("The answer is A, since it is the largest.", "choice.wrong"),
        ("The answer is A as B is smaller.", "choice.wrong"),
        ("The answer is a because B is smaller", "choice.wrong"),
        ("The answer is A) London, which is larger than Paris.", "choice.wrong"),
        ("The answer is A for the first half, D for the second.", "choice.wrong"),
        ("The answer is B or C, because both are large.", "choice.ambiguous"),
        ("The answer is b and d.", "choice.ambiguous"),
        ("The answer is A, B or C", "choice.ambiguous"),
        ("The answer is B/C", "choice.ambiguous"),
        ("The answer is Paris or London", "choice.ambiguous"),
        ("The answer is B) London.", "choice.ambiguous"),
        ("The answer is a matter of taste.", "choice.none"),
        ("The answer is D.C.", "choice.none"),
    ],
)
def test_what_the_answer_is_said_to_be_counts_and_its_reasons_do_not(
    text: str, category: str | None, judge: Judge
) -> None:
    assert judge(text, type="choice", choices=CITIES, target="Paris").category == category


def test_numbers_stated_as_the_answer(judge: Judge) -> None:
    keys = {"type": "choice", "choices": ["red", "green", "blue"], "labels": "numbers", "target": 2}
    for text, category in {
        "The answer is 2 because 3 is blue.": None,
        "The answer is 1, not 2.": "choice.wrong",
        "The answer is 2 or 3.": "choice.ambiguous",
        "The answer is 2 cats.": "choice.none",
        "The answer is 2.5": "choice.none",
    }.items():
        assert (text, judge(text, **keys).category) == (text, category)
    keys = {"type": "choice", "choices": ["3", "4"], "target": "4"}
    assert judge("The answer is 3 + 1 = 4", **keys).category == "choice.ambiguous"


def test_several_options_may_be_right(judge: Judge) -> None:
    keys = {"type": "choice", "choices": CITIES, "value": ["Paris", "C"]}
    assert judge("B", **keys).passed
    assert judge("New York", **keys).passed
    assert judge("A", **keys).category == "choice.wrong"
    assert judge("B", negate=True, **keys).remedy == 'Do not choose "Paris" or "C".'

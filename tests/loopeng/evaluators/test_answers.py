"""Evaluators exact, answer_line, starts_with and ends_with."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators
from tests.loopeng.evaluators.conftest import Judge


@pytest.mark.parametrize(
    ("text", "keys", "category", "score"),
    [
        ("Paris", {}, None, 1),
        ("  Paris\n", {}, None, 1),
        ("paris", {}, "exact.form", 0.5),
        ("paris", {"ignore_case": True}, None, 1),
        ("Paris.", {}, "exact.form", 0.5),
        ("Paris.", {"ignore_punctuation": True}, None, 1),
        ("It is Paris", {}, "exact.extra_text", 0.5),
        ("It is Parisian", {}, "exact.different", 0),
        ("London", {}, "exact.different", 0),
        ("", {}, "exact.empty", 0),
        ("New\n York", {"value": "New York"}, "exact.form", 0.5),
        ("New\n York", {"value": "New York", "collapse_space": True}, None, 1),
        ("no", {"value": ["yes", "no"]}, None, 1),
        ("No!", {"value": ["yes", "no"], "ignore_case": True, "ignore_punctuation": True}, None, 1),
        ("mug", {"value": ["yes", "{{ product }}"]}, None, 1),
        ("STRASSE", {"value": "straße", "ignore_case": True}, None, 1),
        ("cafe\u0301", {"value": "caf\u00e9"}, None, 1),
        ("Paris", {"negate": True}, "exact.equal", 0),
        ("London", {"negate": True}, None, 1),
        ("It is Paris", {"negate": True}, None, 0.5),
    ],
)
def test_exact(text: str, keys: dict[str, Any], category: str | None, score: float, judge: Judge) -> None:
    result = judge(text, type="exact", target="Paris", inputs={"product": "mug"}, **keys)
    assert (result.error, result.passed, result.category) == (None, category is None, category)
    assert result.score == score


def test_a_target_that_is_a_list_holds_every_accepted_value(judge: Judge) -> None:
    for text, passed in {"2": True, "two": True, "three": False}.items():
        assert judge(text, type="exact", target=["two", 2]).passed is passed
    assert judge("2", type="exact", target=2).passed


@pytest.mark.parametrize("target", [None, "", "  ", [], ["a", None], ["a", ""]])
def test_an_empty_expected_value_is_an_error_not_a_verdict(target: Any, judge: Judge) -> None:
    for kind in ("exact", "answer_line", "numeric"):
        result = judge("", type=kind, target=target)
        assert result.error == "ValueError: an expected value is empty for this sample"
        assert (result.passed, result.fault_side) == (None, "grader")


def test_a_value_of_punctuation_alone_cannot_be_compared_without_it(judge: Judge) -> None:
    result = judge("?", type="exact", value="!", ignore_punctuation=True)
    assert result.error == "ValueError: the expected value '!' holds nothing that is compared"


@pytest.mark.parametrize(
    ("text", "keys", "feedback", "remedy"),
    [
        ("b", {}, "The answer is not the expected one.", "Answer with the answer that is asked for and nothing else."),
        (
            "b",
            {"value": ["yes", "no"]},
            'Answer with exactly one of these: "yes", "no".',
            'Answer with "yes" or "no" and nothing else.',
        ),
        (
            "b",
            {"value": "{{ product }}"},
            'Answer with exactly "mug".',
            "Answer with the product and nothing else.",
        ),
        ("Paris", {"negate": True}, "Do not answer with the expected answer.", None),
        ("", {}, "The answer is empty. Give an answer.", "Always give an answer."),
    ],
)
def test_exact_says_what_is_wanted(
    text: str, keys: dict[str, Any], feedback: str, remedy: str | None, judge: Judge
) -> None:
    result = judge(text, type="exact", target="Paris", inputs={"product": "mug"}, prompt="On a mug.", **keys)
    assert (result.feedback, result.remedy) == (feedback, remedy or feedback)
    assert "Paris" not in result.feedback


@pytest.mark.parametrize(
    ("text", "keys", "category"),
    [
        ("Let me see.\nAnswer: Paris", {}, None),
        ("answer: Paris.", {}, None),
        ("**Answer:** Paris", {}, None),
        ("**Answer**: **Paris**", {}, None),
        ("## Answer: `Paris`\n\nI hope this helps.", {}, None),
        ("> - Answer: Paris", {}, None),
        ("Answer:\n\nParis", {}, None),
        ("Answer: London\nNo, wait.\nAnswer: Paris", {}, None),
        ("Answer: Paris\nAnswer: London", {}, "answer_line.wrong"),
        ("Answer: Paris, I think", {}, "answer_line.wrong"),
        ("The Answer: Paris", {}, "answer_line.missing"),
        ("Paris", {}, "answer_line.missing"),
        ("Answer:", {}, "answer_line.missing"),
        ("", {}, "answer_line.missing"),
        ("Answer: PARIS", {}, "answer_line.wrong"),
        ("Answer: PARIS", {"ignore_case": True}, None),
        ("#### Paris", {"marker": ["####", "Answer:"]}, None),
        ("Result = Paris", {"marker": "Result ="}, None),
        ("so <a>London</a> or <a>Paris</a>", {"pattern": "<a>(.*?)</a>"}, None),
        ("so <a>Paris</a> or <a></a>", {"pattern": "<a>(.*?)</a>"}, "answer_line.missing"),
        ("Paris", {"pattern": "<a>(.*?)</a>"}, "answer_line.missing"),
        ("Answer: Paris", {"negate": True}, "answer_line.right"),
    ],
)
def test_answer_line(text: str, keys: dict[str, Any], category: str | None, judge: Judge) -> None:
    result = judge(text, type="answer_line", target="Paris", **keys)
    assert (result.error, result.passed, result.category) == (None, category is None, category)
    assert "Paris" not in result.feedback


def test_answer_line_scores_a_line_higher_than_none_and_says_what_it_looks_for(judge: Judge) -> None:
    missing, wrong = (judge(text, type="answer_line", target="x") for text in ("y", "Answer: y"))
    assert (missing.score, wrong.score) == (0, 0.25)
    assert missing.remedy == 'End with a line that begins with "Answer:" and then gives the answer.'
    assert wrong.feedback == "The answer is not the expected one."


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pattern": "a", "marker": "b"}, "give 'marker' or 'pattern', not both"),
        ({"pattern": "("}, "is not a regular expression"),
        ({"pattern": "a"}, "must have one group"),
        ({"pattern": "(a)(b)"}, "it has 2"),
        ({"value": []}, "must not be empty"),
        ({"value": 3}, "value must be text or a list"),
        ({"values": ["a"]}, "unknown key 'values'"),
    ],
)
def test_keys_that_cannot_work_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message.replace("(", r"\(")):
        build_evaluators([{"id": "it", "type": "answer_line", **keys}])


@pytest.mark.parametrize(
    ("kind", "text", "keys", "passed"),
    [
        ("starts_with", " Dear Ana,\nyes", {"value": "Dear {{ name }}"}, True),
        ("starts_with", "dear ana", {"value": "Dear {{ name }}"}, False),
        ("starts_with", "dear ana", {"value": "Dear {{ name }}", "ignore_case": True}, True),
        ("starts_with", "Oh, Dear Ana", {"value": "Dear {{ name }}"}, False),
        ("starts_with", "No.", {"any": ["Yes", "No"]}, True),
        ("starts_with", "Maybe", {"any": ["Yes", "No"]}, False),
        ("ends_with", "So be it. Bye \n", {"value": "Bye"}, True),
        ("ends_with", "Bye now", {"value": "Bye"}, False),
        ("ends_with", "why?", {"any": ["!", "?"]}, True),
        ("ends_with", "why?", {"value": "?", "negate": True}, False),
    ],
)
def test_ends_of_the_answer(kind: str, text: str, keys: dict[str, Any], passed: bool, judge: Judge) -> None:
    result = judge(text, type=kind, inputs={"name": "Ana"}, **keys)
    assert (result.error, result.passed) == (None, passed)
    assert passed or result.category == f"{kind}.{'present' if keys.get('negate') else 'missing'}"


@pytest.mark.parametrize(
    ("keys", "feedback", "remedy"),
    [
        ({"type": "starts_with", "value": "Yes"}, 'Begin the answer with "Yes".', None),
        (
            {"type": "ends_with", "any": ["a", "b"]},
            'End the answer with one of these: "a", "b".',
            'End the answer with "a" or "b".',
        ),
        (
            {"type": "ends_with", "value": "{{ target }}"},
            "The answer does not end as it should.",
            "End with the answer that is asked for.",
        ),
        (
            {"type": "starts_with", "value": "{{ product }}", "negate": True},
            None,
            "Do not begin the answer with the product.",
        ),
    ],
)
def test_ends_of_the_answer_are_said(
    keys: dict[str, Any], feedback: str | None, remedy: str | None, judge: Judge
) -> None:
    result = judge("mug it is", target="secret", inputs={"product": "mug"}, **keys)
    assert result.passed is False
    assert (result.feedback, result.remedy) == (feedback or remedy, remedy or feedback)


def test_an_end_of_the_answer_is_never_space(judge: Judge) -> None:
    assert str(judge("x", type="ends_with", value=" ").error).startswith("ValueError: space around the answer")
    with pytest.raises(TaskError, match="give exactly one of 'value' and 'any'"):
        build_evaluators([{"id": "it", "type": "ends_with"}])

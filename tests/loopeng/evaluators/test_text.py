from __future__ import annotations

from typing import Any

import pytest

from loopeng.patterns.fingerprint import fingerprint
from tests.loopeng.evaluators.conftest import Judge


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        ({"type": "contains", "value": "{{ product }}"}, "Mention the product by its name."),
        ({"type": "contains", "value": "{{ product_name }}"}, "Mention the product name exactly as given."),
        ({"type": "contains", "value": "{{ target }}"}, "State the answer that is asked for."),
        ({"type": "contains", "value": "free"}, 'Include "free".'),
        ({"type": "contains", "any": ["red", "{{ product }}"]}, 'Include at least one of these: "red", the product.'),
        ({"type": "contains", "all": ["red", "blue"]}, 'Include "red" and "blue".'),
        ({"type": "contains", "value": "!", "negate": True}, "Do not use exclamation marks."),
        ({"type": "contains", "value": "free", "negate": True}, 'Do not use "free".'),
        ({"type": "contains", "value": "{{ product }}", "negate": True}, "Do not mention the product."),
        ({"type": "contains", "any": ["!", "?"], "negate": True}, "Do not use exclamation marks or question marks."),
        (
            {"type": "contains", "all": ["!", "?"], "negate": True},
            "Do not use exclamation marks and question marks together.",
        ),
        ({"type": "regex", "pattern": "^[A-Z]"}, "Include text that matches the pattern ^[A-Z]"),
        ({"type": "regex", "pattern": "^{{ product }}"}, None),
    ],
)
def test_remedies(keys: dict[str, Any], remedy: str | None, judge: Judge) -> None:
    text = "free ! ? mug" if keys.get("negate") else "nothing"
    result = judge(text, inputs={"product": "mug", "product_name": "Muggo"}, target="42", **keys)
    assert result.passed is False
    assert result.remedy == remedy


def test_contains_renders_inputs_and_target(judge: Judge) -> None:
    keys = {"type": "contains", "value": "{{ product }}", "inputs": {"product": "Mug {{ x }}"}}
    assert judge("a Mug {{ x }} it is", **keys).passed
    assert not judge("a mug {{ x }}", **keys).passed
    assert judge("a mug {{ x }}", ignore_case=True, **keys).passed
    assert judge("it is 42.", type="contains", value="{{ target }}", target=42).passed


def test_contains_counts_what_it_found(judge: Judge) -> None:
    result = judge("red and blue", type="contains", all=["red", "blue", "green", "black"])
    assert (result.score, result.reason) == (0.5, 'lacks "green", "black"')
    assert result.feedback == 'Include "green", "black".'
    assert judge("red", type="contains", any=["red", "blue"]).score == 1


def test_letters_are_equal_however_they_are_encoded(judge: Judge) -> None:
    assert judge("cafe\u0301", type="contains", value="caf\u00e9").passed
    assert judge("STRASSE", type="contains", value="straße", ignore_case=True).passed


def test_an_empty_text_to_look_for_is_an_error_not_a_pass(judge: Judge) -> None:
    result = judge("anything", type="contains", value="{{ product }}", inputs={"product": ""})
    assert result.error == "ValueError: a text to look for is empty for this sample"
    assert result.fault_side == "grader"


def test_feedback_never_holds_the_target(judge: Judge) -> None:
    by_template = judge("no", type="contains", value="It is {{ target }}", target="secret")
    assert by_template.feedback == "The expected answer is missing."
    assert "secret" in by_template.reason  # people may see it
    literal = judge("no", type="contains", value="secret", target="secret")
    assert literal.feedback == 'Include "[hidden]".'
    known = judge("no", type="contains", value="secret", target="secret", prompt="Say secret.")
    assert known.feedback == 'Include "secret".'
    as_input = judge("no", type="contains", value="{{ word }}", target="secret", inputs={"word": "secret"})
    assert as_input.feedback == 'Include "[hidden]".'  # the prompt shows no such field
    keys = {"type": "contains", "value": "{{ word }}", "inputs": {"word": "secret"}}
    assert judge("no", target="secret", prompt="Say secret.", **keys).feedback == 'Include "secret".'


@pytest.mark.parametrize(
    ("text", "keys", "passed"),
    [
        ("order 12", {"pattern": r"\d+"}, True),
        ("order", {"pattern": r"\d+"}, False),
        (" 12\n", {"pattern": r"\d+", "full": True}, True),
        ("no 12", {"pattern": r"\d+", "full": True}, False),
        ("ABC", {"pattern": "b", "ignore_case": True}, True),
        ("a.b", {"pattern": "^{{ name }}$"}, True),
        ("axb", {"pattern": "^{{ name }}$"}, False),
        ("{#", {"pattern": r"\{#"}, True),
        ("aa", {"pattern": "^a{2}$"}, True),
    ],
)
def test_regex(text: str, keys: dict[str, Any], passed: bool, judge: Judge) -> None:
    assert judge(text, type="regex", inputs={"name": "a.b"}, **keys).passed is passed


@pytest.mark.parametrize("kind", ["contains", "starts_with", "ends_with"])
def test_of_a_list_one_text_is_enough(kind: str, judge: Judge) -> None:
    keys = {"type": kind, "value": ["red", "{{ product }}"], "inputs": {"product": "mug"}}
    assert judge("mug", **keys).passed
    assert judge("red", **keys).passed
    failed = judge("blue", **keys)
    assert (failed.passed, failed.score) == (False, 0.0)
    assert failed.feedback.endswith('one of these: "red", "mug".')
    assert failed.remedy == judge("blue", type=kind, any=["red", "{{ product }}"], inputs={"product": "mug"}).remedy


COMPARING = ("contains", "ends_with", "exact", "starts_with")


@pytest.mark.parametrize("said", ["x", 'say "x"', "it's", 'a "b" `c`', "back\\slash", '"'])
@pytest.mark.parametrize(
    "keys", [{"type": "answer_line", "value": "y"}, *({"type": each, "value": "{{ said }}"} for each in COMPARING)]
)
def test_what_one_answer_says_makes_no_pattern_of_its_own(said: str, keys: dict[str, Any], judge: Judge) -> None:
    def reason_for(word: str) -> str:
        answer = f"Answer: {word}" if keys["type"] == "answer_line" else "nothing of it"
        return judge(answer, inputs={"said": word}, **keys).reason

    assert fingerprint("it", "c", reason_for(said)) == fingerprint("it", "c", reason_for("plain"))

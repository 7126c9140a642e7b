"""What holds for every evaluator and every answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.evaluators import build_evaluators, evaluator_types, run_evaluators
from tests.loopeng.evaluators.conftest import make_attempt, make_sample

QUICK = settings(max_examples=50, deadline=None)

# Every type that ships needs a line here (the sample below has the target "secret" and the field product: "mug"), or
# under ELSEWHERE the test file that holds it to the same.
SPECS: list[dict[str, Any]] = [
    {"type": "answer_line"},
    {"type": "answer_line", "value": ["{{ target }}", "b"], "pattern": "a(.*)", "ignore_punctuation": True},
    {"type": "choice", "choices": ["secret", "b", "a mug"]},
    {"type": "choice", "field": "options", "labels": "numbers", "value": "2"},
    {"type": "ends_with", "value": "{{ target }}", "ignore_case": True},
    {"type": "exact"},
    {"type": "exact", "value": ["{{ product }}", "b"], "ignore_case": True, "collapse_space": True},
    {"type": "numeric", "value": 7, "abs_tol": 1},
    {"type": "numeric", "value": "1/3", "where": ["line", "boxed", "first"]},
    {"type": "numeric", "value": -1, "where": "json", "path": "a[0]"},
    {"type": "similarity", "method": "levenshtein", "threshold": 0.5},
    {"type": "similarity", "method": "rouge1", "threshold": 0.5, "value": ["a b", "{{ target }} b"]},
    {"type": "similarity", "method": "rougeL", "threshold": 0.2, "ignore_case": True},
    {"type": "similarity", "method": "bleu", "threshold": 0.1, "value": "{{ product }} a b"},
    {"type": "starts_with", "any": ["a", "{{ product }}"]},
    {"type": "xml"},
    {"type": "xml", "root": "a", "allow_fences": True},
    {"type": "yaml"},
    {"type": "yaml", "required": ["a", "b"], "allow_fences": True},
    {"type": "contains", "value": "{{ product }}", "ignore_case": True},
    {"type": "contains", "value": "{{ target }}"},
    {"type": "contains", "any": ["a", "{{ product }}"]},
    {"type": "contains", "value": ["a!", "{{ product }}"]},
    {"type": "ends_with", "value": ["a", "{{ target }}"]},
    {"type": "choice", "choices": ["secret", "b", "a mug"], "value": ["{{ target }}", "b"]},
    {"type": "contains", "all": ["a", "b", "!"]},
    {"type": "regex", "pattern": "[ab]+", "full": True},
    {"type": "regex", "pattern": "^{{ product }}"},
    {"type": "length", "max_words": 3, "min_words": 2, "max_chars": 9},
    {"type": "length", "min_chars": 4},
    {"type": "sentences", "min": 1, "max": 2},
    {"type": "sentences", "max": 1},
    {"type": "json", "required": ["a", "b"]},
    {"type": "json", "allow_fences": True},
    {"type": "json_schema", "schema": {"type": "array", "items": {"type": "string"}, "maxItems": 1}},
    {"type": "json_schema", "schema": {"properties": {"a": False}, "additionalProperties": {"minLength": 3}}},
    {
        "type": "composite",
        "mode": "mean",
        "threshold": 0.6,
        "evaluators": [
            {"id": "named", "type": "contains", "value": "{{ product }}", "weight": 2.0},
            {"id": "right", "type": "contains", "value": "{{ target }}"},
            {"id": "calm", "type": "contains", "value": "!", "negate": True},
        ],
    },
    {
        "type": "composite",
        "mode": "any",
        "evaluators": [
            {"id": "short", "type": "length", "max_chars": 3},
            {"id": "both", "type": "composite", "evaluators": [{"id": "form", "type": "json"}]},
        ],
    },
    {"type": "python", "function": "operator:truth"},
    {
        "type": "ifeval",
        "instructions": [
            {"id": "keywords:existence", "kwargs": {"keywords": ["{{ product }}", "kettle"]}},
            {"id": "punctuation:no_comma"},
        ],
    },
    {"type": "ifeval", "mode": "loose", "instructions": [{"id": "startend:quotation"}]},
]
ELSEWHERE = {  # type: test file beside this one
    "llm_judge": "judge",
    "pairwise": "judge",
    "cost": "test_budget.py",
    "latency": "test_budget.py",
    "tokens": "test_budget.py",
    "tool_calls": "test_trajectory.py",
    "trajectory": "test_trajectory.py",
    "unit_tests": "test_code.py",
}
PIECES = [
    "a",
    "b",
    "mug",
    "Mug",
    "secret",
    "!",
    ".",
    "?",
    " ",
    "\n",
    "{",
    "}",
    '"a"',
    ":",
    "1",
    "```",
    "- ",
    "…",
    "[1]",
    "e.g.",
    "7",
    "-",
    "/3",
    "%",
    ",000",
    "e9",
    "#### ",
    "Answer: ",
    "\\boxed{",
    "<a>",
    "</a>",
    "B)",
]
ANSWERS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))
SAMPLE = make_sample("secret", product="mug", options=["a", "secret"])


def test_every_type_that_ships_is_held_to_this() -> None:
    shipped = {name for name, each in evaluator_types().items() if each.function is None}
    assert {keys["type"] for keys in SPECS} | ELSEWHERE.keys() == shipped
    assert all((Path(__file__).parent / name).exists() for name in ELSEWHERE.values())


@pytest.mark.parametrize("keys", SPECS, ids=str)
@QUICK
@given(text=ANSWERS)
def test_every_answer_gets_a_clean_verdict_and_negate_turns_it_round(keys: dict[str, Any], text: str) -> None:
    plain, negated = build_evaluators([{"id": "plain", **keys}, {"id": "negated", "negate": True, **keys}])
    yes, no = run_evaluators([plain, negated], SAMPLE, make_attempt(text))
    assert yes.error is None
    assert no.error is None
    assert yes.passed is not no.passed
    assert yes.score is not None
    assert no.score is not None
    assert 0 <= yes.score <= 1
    assert yes.score + no.score == pytest.approx(1)
    for evaluator, result in ((plain, yes), (negated, no)):
        assert (result.category is None) == result.passed
        assert result.passed or result.category in evaluator.categories
        assert result.passed or result.feedback
        assert not (result.passed and (result.feedback or result.remedy))
        assert "secret" not in result.feedback  # the target
        assert "secret" not in (result.remedy or "")
        assert "mug" not in (result.remedy or "").casefold()  # a rule holds no sample's value
    assert plain.categories.isdisjoint(negated.categories)


@pytest.mark.parametrize("keys", SPECS, ids=str)
def test_the_reference_makes_the_same_evaluator_elsewhere(keys: dict[str, Any]) -> None:
    (first,) = build_evaluators([{"id": "x", "negate": True, "weight": 2.0, "remedy": "Do it.", **keys}])
    reference = first.reference  # type: ignore[attr-defined]
    (second,) = build_evaluators([reference])
    assert second.reference == reference  # type: ignore[attr-defined]
    for text in ("", "a mug", "ab"):
        results = [run_evaluators([each], SAMPLE, make_attempt(text))[0] for each in (first, second)]
        assert results[0].model_copy(update={"latency_s": 0.0}) == results[1].model_copy(update={"latency_s": 0.0})


@pytest.mark.parametrize("keys", SPECS, ids=str)
def test_a_remedy_in_the_task_file_wins(keys: dict[str, Any]) -> None:
    for negate in (False, True):
        (evaluator,) = build_evaluators([{"id": "x", "remedy": "Mine.", "negate": negate, **keys}])
        for text in ("", "a b! mug secret", "{}", '{"a": 1, "b": 2}'):
            (result,) = run_evaluators([evaluator], SAMPLE, make_attempt(text))
            assert result.passed or result.remedy == "Mine."

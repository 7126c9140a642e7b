"""What the model hears keeps the target from it: of every evaluator, those of other packages too."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.evaluators import EvaluatorParams, Finding, TypedEvaluator, run_evaluators
from loopeng.evaluators.base import redact
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, Sample
from tests.loopeng.evaluators.conftest import Judge, make_attempt, make_sample


class Careless(TypedEvaluator[EvaluatorParams]):
    """As somebody may write one who does not think of what the model may hear."""

    type_name = "careless"
    params_model = EvaluatorParams
    plain_categories = frozenset({"careless.wrong"})
    negated_category = "careless.right"

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        passed = str(sample.target) in attempt.text
        told = f"Say {sample.target}."
        return Finding(passed, float(passed), told, "careless.wrong", told, remedy=f"Always {told}")

    def default_remedy(self, category: str) -> str | None:
        return "Say what is right."


def careless(text: str, prompt: str = "?", remedy: str | None = None, **keys: Any) -> EvalResult:
    spec = EvaluatorSpec(id="it", type="careless", remedy=remedy, **keys)
    sample = make_sample("Paris", hint="The tests want Paris.")
    return run_evaluators([Careless(spec, EvaluatorParams())], sample, make_attempt(text, prompt))[0]


def test_feedback_and_remedy_of_a_careless_evaluator_are_redacted_and_its_reason_is_not() -> None:
    result = careless("Rome")
    assert (result.reason, result.feedback) == ("Say Paris.", "Say [hidden].")
    assert result.remedy == "Say what is right."  # its own would have been a rule that gives the answer away
    shown = careless("Rome", prompt="Paris or Rome?")
    assert (shown.feedback, shown.remedy) == ("Say Paris.", "Always Say Paris.")


def test_a_field_that_the_prompt_does_not_show_makes_nothing_visible() -> None:
    sample = make_sample("4", tests="assert f(2) == 4")
    assert redact("expected 4", sample, make_attempt("5", "Write f.")) == "expected [hidden]"
    assert redact("expected 4", sample, make_attempt("5", "Write f, so that f(2) == 4.")) == "expected 4"
    without_conversation = make_attempt("5").model_copy(update={"messages": ()})
    assert redact("expected 4", sample, without_conversation) == "expected 4"


@pytest.mark.parametrize(
    ("text", "keys", "feedback"),
    [
        ("18.5", {"type": "numeric", "target": 18}, "The number 18.5 is wrong. Check each step."),
        ("a b c", {"type": "length", "max_words": 2, "target": 2}, "Use at most 2 words (the answer had 3)."),
        ('"c"', {"type": "json_schema", "schema": {"enum": ["a", "b"]}, "target": "a"}, "must be one of: a, b."),
        ("no", {"type": "answer_line", "target": "A"}, "End with a line"),
        ("[]", {"type": "json", "root": "object", "target": "a"}, "Answer with a JSON object."),
    ],
)
def test_what_would_give_the_target_away_by_being_hidden_stays(
    text: str, keys: dict[str, Any], feedback: str, judge: Judge
) -> None:
    result = judge(text, **keys)
    assert (result.passed, feedback in result.feedback) == (False, True)


def test_a_negated_evaluator_says_the_remedy_that_was_written_for_it(judge: Judge) -> None:
    keys = {"type": "contains", "value": "free", "negate": True}
    assert judge("free", **keys).feedback == 'Do not use "free".'
    assert judge("free", remedy="Do not promise gifts.", **keys).feedback == "Do not promise gifts."
    assert careless("Paris", negate=True).feedback == "Say what is right."

"""Functions as evaluators: what they may take and return, and what is an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from loopeng.errors import BudgetStop, TaskError, UsageError
from loopeng.evaluators import build_evaluators, evaluator, evaluator_types, run_evaluators
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, EvalResult, Sample
from tests.loopeng.evaluators.conftest import make_attempt, make_sample


def result_of(function: Callable[..., Any], text: str = "hello", target: Any = None) -> EvalResult:
    return run_evaluators(build_evaluators([function]), make_sample(target), make_attempt(text))[0]


@pytest.mark.parametrize(
    ("returned", "passed", "score"),
    [
        (True, True, 1.0),
        (False, False, 0.0),
        (0.7, True, 0.7),
        (0.3, False, 0.3),
        (1, True, 1.0),
        ({"passed": True}, True, 1.0),
        ({"score": 0.2}, False, 0.2),
        ({"passed": True, "score": 0.2}, True, 0.2),
        (EvalResult(evaluator="other", passed=False, score=0.4, category="python.failed"), False, 0.4),
        (EvalResult(evaluator="other", passed=True), True, 1.0),
    ],
)
def test_what_may_be_returned(returned: Any, passed: bool, score: float) -> None:
    result = result_of(lambda text: returned)
    assert (result.passed, result.score, result.error) == (passed, score, None)
    assert result.evaluator == "function"
    assert result.category == (None if passed else "python.failed")


@pytest.mark.parametrize(
    "returned",
    [None, "yes", (True, "x"), [], {}, {"pass": True}, {"passed": 1}, math.nan, math.inf, -0.1, 1.1, 3, {"score": 2}],
)
def test_anything_else_is_an_error_never_a_verdict(returned: Any) -> None:
    result = result_of(lambda text: returned)
    assert result.error
    assert (result.passed, result.score, result.fault_side) == (None, None, "grader")


def test_what_a_function_may_take() -> None:
    def one(text: str) -> bool:
        return text == "hello"

    def two(sample: Sample, attempt: Attempt) -> bool:
        return sample.id == "s" and attempt.text == "hello"

    def three(sample: Sample, attempt: Attempt, context: EvaluationContext) -> bool:
        return isinstance(context, EvaluationContext)

    def many(*inputs: Any) -> bool:
        return len(inputs) == 2

    class Callable_:
        def __call__(self, text: str) -> bool:
            return text == "hello"

    assert all(result_of(each).passed for each in (one, two, three, many, Callable_()))

    def four(a: int, b: int, c: int, d: int) -> bool:
        return True

    with pytest.raises(TaskError, match="takes 4 inputs"):
        build_evaluators([four])

    async def later(text: str) -> bool:
        return True

    with pytest.raises(TaskError, match="is async"):
        build_evaluators([later])


def test_an_exception_is_a_result_in_error_with_its_type() -> None:
    def breaks(text: str) -> bool:
        raise KeyError("k")

    results = run_evaluators(build_evaluators([breaks, lambda text: True]), make_sample(), make_attempt(""))
    assert results[0].error == "KeyError: 'k'"
    assert results[1].passed
    assert all(result.latency_s > 0 for result in results)


def test_a_reached_limit_is_nobodys_error() -> None:
    def stops(text: str) -> bool:
        raise BudgetStop("tokens")

    with pytest.raises(BudgetStop):
        result_of(stops)


def test_the_models_feedback_is_redacted_and_never_the_reason() -> None:
    told = result_of(lambda text: {"passed": False, "reason": "it is 42", "feedback": "Say 42."}, target=42)
    assert (told.reason, told.feedback) == ("it is 42", "Say [hidden].")
    silent = result_of(lambda text: {"passed": False, "reason": "it is 42"}, target=42)
    assert silent.feedback == "The answer does not pass the check 'function'."


def test_categories_are_closed() -> None:
    keys = {"id": "x", "type": "python", "function": "tests.loopeng.evaluators.test_python:categorised"}
    sample, attempt = make_sample(), make_attempt("")
    (result,) = run_evaluators(build_evaluators([keys]), sample, attempt)
    assert result.error == "ValueError: category 'tone.rude' is not among those of the evaluator: python.failed"
    (result,) = run_evaluators(build_evaluators([{**keys, "categories": ["tone.rude"]}]), sample, attempt)
    assert (result.category, result.remedy) == ("tone.rude", "Be polite.")
    (result,) = run_evaluators(build_evaluators([{**keys, "negate": True}]), sample, attempt)
    assert result.passed


def categorised(text: str) -> dict[str, Any]:
    return {"passed": False, "category": "tone.rude", "remedy": "Be polite."}


@evaluator("at-most-for-tests", categories=["words.many"], remedy="Be brief.")
def at_most(text: str, *, words: int = 3) -> bool:
    """At most so many words."""
    return len(text.split()) <= words


def test_a_registered_function_is_a_type_with_keys() -> None:
    assert evaluator_types()["at-most-for-tests"].params_model.model_fields.keys() == {"words"}
    (built,) = build_evaluators([{"id": "brief", "type": "at-most-for-tests", "words": 2}])
    (result,) = run_evaluators([built], make_sample(), make_attempt("one two three"))
    assert (result.passed, result.remedy) == (False, "Be brief.")
    reference = built.reference  # type: ignore[attr-defined]
    assert reference["type"] == "python"  # another process need not have registered it
    (again,) = build_evaluators([reference])
    (second,) = run_evaluators([again], make_sample(), make_attempt("one two three"))
    assert (second.passed, second.remedy) == (False, "Be brief.")
    with pytest.raises(TaskError, match="words must be a whole number"):
        build_evaluators([{"id": "brief", "type": "at-most-for-tests", "words": "2"}])
    with pytest.raises(TaskError, match="unknown key 'word'") as caught:
        build_evaluators([{"id": "brief", "type": "at-most-for-tests", "word": 2}])
    assert caught.value.suggestion == "did you mean 'words'?"


def test_names_are_not_taken_twice_but_a_reloaded_module_may_register_again() -> None:
    evaluator("at-most-for-tests")(at_most)
    with pytest.raises(UsageError, match="there is an evaluator type 'length' already"):

        @evaluator
        def length(text: str) -> bool:
            return True

    with pytest.raises(UsageError, match="'weight' has a key of its own"):

        @evaluator
        def heavy_for_tests(text: str, *, weight: int) -> bool:
            return True


def test_live_functions_have_no_reference() -> None:
    (local,) = build_evaluators([lambda text: True])
    (global_,) = build_evaluators([categorised])
    assert local.reference is None  # type: ignore[attr-defined]
    assert global_.reference["function"].endswith(":categorised")  # type: ignore[attr-defined]


def test_building() -> None:
    (built,) = build_evaluators([{"id": "a", "type": "length", "max_words": 3}])
    assert build_evaluators([built]) == (built,)
    with pytest.raises(TaskError, match="two evaluators have the id 'a'"):
        build_evaluators([built, {"id": "a", "type": "length", "max_words": 3}])
    with pytest.raises(TaskError, match="evaluator: id is missing"):
        build_evaluators([{"type": "length"}])
    with pytest.raises(TaskError, match="evaluator 'a': unknown evaluator type 'lenght'") as caught:
        build_evaluators([{"id": "a", "type": "lenght"}])
    assert caught.value.suggestion == "did you mean 'length'?"


def test_a_nested_target_is_hidden_from_the_model_value_by_value() -> None:
    said = {"passed": False, "feedback": "expected Lyon, 1789 and the answer Paris"}
    result = result_of(lambda text: said, target={"cities": ["Paris", "Lyon"], "year": 1789})
    assert result.feedback == "expected [hidden], [hidden] and the answer [hidden]"


def test_a_remedy_that_gives_the_answer_away_is_none() -> None:
    """A remedy becomes a rule of the prompt, and stays there for every sample."""
    said = {"passed": False, "remedy": "Answer with Paris."}
    assert result_of(lambda text: said, target="Paris").remedy is None
    assert result_of(lambda text: said, target="Rome").remedy == "Answer with Paris."


def test_an_evaluator_that_exits_is_in_error_and_ends_nothing() -> None:
    """``sys.exit(0)`` in somebody's check would end the whole run, with the exit code of success."""

    def leaves(text: str) -> bool:
        raise SystemExit(0)

    assert result_of(leaves).error == "SystemExit: 0"


def test_a_negated_function_does_not_say_the_remedy_of_its_plain_sense() -> None:
    spec = {"id": "long", "type": "at-most-for-tests", "negate": True}
    for given, remedy in (({}, None), ({"remedy": "Write more."}, "Write more.")):
        (built,) = build_evaluators([{**spec, **given}])
        (again,) = build_evaluators([built.reference])  # type: ignore[attr-defined]
        for each in (built, again):
            (result,) = run_evaluators([each], make_sample(), make_attempt("short"))
            assert (result.passed, result.remedy) == (False, remedy)
            assert result.feedback == (remedy or "The answer does not pass the check 'long'.")

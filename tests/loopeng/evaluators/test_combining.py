from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import EngineError, TaskError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.evaluators.registry import spec_problems
from loopeng.patterns.fingerprint import fingerprint
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, JudgeUsage, Sample
from tests.loopeng.evaluators.conftest import Judge, make_attempt, make_sample
from tests.loopeng.evaluators.judge.judging import Replies, ruling

NAMED = {"id": "named", "type": "contains", "value": "mug", "weight": 3.0}
SHORT = {"id": "short", "type": "length", "max_words": 4}
SLOW = {"id": "slow", "type": "latency", "max_s": 1e-9}


def breaks(text: str) -> bool:
    raise RuntimeError("broken")


def scores_badly(text: str) -> dict[str, Any]:
    return {"passed": True, "score": 0.25}


def looks_at_the_attempt(sample: Sample, attempt: Attempt) -> bool:
    return attempt.trajectory is None


def criterion(text: str) -> dict[str, Any]:
    return {"passed": False, "category": "judge.tone", "reason": text, "feedback": "Be kind."}


def reference(name: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "type": "python", "function": f"{__name__}:{name}", **keys}


@pytest.mark.parametrize(
    ("text", "mode", "passed"),
    [
        ("a mug", "all", True),
        ("a", "all", False),
        ("a", "any", True),
        ("a b c d e f g h", "any", False),
        ("a mug of tea to go", "mean", True),
        ("tea", "mean", False),
    ],
)
def test_the_parts_are_judged_together(text: str, mode: str, passed: bool, judge: Judge) -> None:
    keys = {"threshold": 0.5} if mode == "mean" else {}
    result = judge(text, type="composite", mode=mode, evaluators=[NAMED, SHORT], **keys)
    assert (result.error, result.passed) == (None, passed)
    negated = judge(text, type="composite", mode=mode, evaluators=[NAMED, SHORT], negate=True, **keys)
    assert (negated.passed, negated.category) == (not passed, "composite.passed" if passed else None)


def test_a_failure_is_told_by_the_first_part_and_all_are_kept(judge: Judge) -> None:
    result = judge("one two three four five", type="composite", evaluators=[NAMED, SHORT])
    assert (result.category, result.reason) == ("contains.missing@named", 'named: lacks "mug"')
    assert (result.remedy, result.score) == ('Include "mug".', pytest.approx((0 * 3 + 0.8) / 4))
    assert result.feedback == 'Include "mug". Use at most 4 words (the answer had 5).'
    assert [(part["evaluator"], part["category"]) for part in result.metadata["parts"]] == [
        ("named", "contains.missing"),
        ("short", "length.too_long"),
    ]
    either = judge("one two three four five", type="composite", mode="any", evaluators=[NAMED, SHORT])
    assert either.feedback.startswith("Do at least one of these. Include")


def test_a_parts_own_remedy_and_negation_count(judge: Judge) -> None:
    part = {**NAMED, "negate": True, "remedy": "Name no mugs."}
    result = judge("a mug", type="composite", evaluators=[SHORT, part])
    assert (result.category, result.remedy) == ("contains.present@named", "Name no mugs.")


def test_the_models_fault_comes_before_the_machines() -> None:
    (evaluator,) = build_evaluators([{"id": "it", "type": "composite", "evaluators": [SLOW, NAMED]}])
    late = make_attempt("no").model_copy(update={"latency_s": 1.0})
    (both,) = run_evaluators([evaluator], make_sample(), late)
    assert (both.category, both.fault_side) == ("contains.missing@named", "model")
    (slow,) = run_evaluators([evaluator], make_sample(), late.model_copy(update={"text": "mug"}))
    assert (slow.category, slow.fault_side, slow.remedy) == ("latency.too_slow@slow", "environment", None)
    assert evaluator.reads_text_alone is False  # type: ignore[attr-defined]


def test_a_part_that_breaks_is_an_error_even_where_another_passes(judge: Judge) -> None:
    for mode in ("all", "any"):
        result = judge("a mug", type="composite", mode=mode, evaluators=[NAMED, reference("breaks")])
        assert (result.passed, result.score) == (None, None)
        assert (result.error, result.fault_side) == ("part 'breaks': RuntimeError: broken", "grader")
        told = [(part["evaluator"], part.get("error")) for part in result.metadata["parts"]]
        assert told == [("named", None), ("breaks", "RuntimeError: broken")]


def test_a_part_that_breaks_through_no_fault_of_its_own_says_whose_it_is_and_what_the_others_cost() -> None:
    """One judge was paid; then the network of the other went down. Neither is the task author's mistake."""
    talks = {"id": "talks", "type": "llm_judge", "criteria": "It talks", "reasoning": False}
    sings = {"id": "sings", "type": "llm_judge", "criteria": "It sings", "reasoning": False}
    inner = {"id": "inner", "type": "composite", "evaluators": [sings]}
    replies = Replies(ruling(criteria="pass"), EngineError("no route to host"))
    (evaluator,) = build_evaluators([{"id": "it", "type": "composite", "evaluators": [talks, inner]}])
    context = EvaluationContext(engine=ScriptedEngine(replies))
    (result,) = run_evaluators([evaluator], make_sample(), make_attempt("La la"), context)
    assert result.error == "part 'inner': part 'sings': the judge's engine broke: no route to host"
    assert (result.passed, result.fault_side) == (None, "environment")
    usage = JudgeUsage.of(result.metadata)
    assert usage is not None and usage.num_calls == 1


def test_a_function_that_sees_the_attempt_may_look_at_more_than_the_text_but_needs_no_run() -> None:
    """So the whole is judged again where a text comes twice, and is still tried by ``loopeng check``."""
    for part, alone, needs_a_run in (
        (NAMED, True, False),
        (reference("scores_badly"), True, False),
        (reference("looks_at_the_attempt"), False, False),
        (SLOW, False, True),
    ):
        (it,) = build_evaluators([{"id": "it", "type": "composite", "evaluators": [NAMED | {"id": "other"}, part]}])
        assert (it.reads_text_alone, it.needs_a_run) == (alone, needs_a_run)  # type: ignore[attr-defined]


def test_parts_that_pass_with_low_scores_have_a_category_of_their_own(judge: Judge) -> None:
    parts = [reference("scores_badly"), {**NAMED, "weight": 0.0}]
    result = judge("x", type="composite", mode="mean", threshold=0.5, evaluators=parts)
    assert (result.passed, result.category) == (False, "composite.below_threshold")
    assert (result.reason, result.feedback) == (
        "mean score 0.25, at least 0.5 wanted",
        "The answer is not good enough.",
    )


def test_what_a_judge_says_is_still_no_part_of_the_fingerprint(judge: Judge) -> None:
    part = reference("criterion", categories=["judge.tone"])
    results = [judge(text, type="composite", evaluators=[part]) for text in ("rather rude", "cold as ice")]
    assert {each.category for each in results} == {"judge.tone@criterion"}
    assert results[0].reason != results[1].reason
    assert len({fingerprint("it", each.category or "", each.reason) for each in results}) == 1


def test_composites_hold_composites_and_go_elsewhere_whole(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"type": "object"}))
    inner = {
        "id": "inner",
        "type": "composite",
        "evaluators": [{"id": "form", "type": "json_schema", "file": "s.json"}],
    }
    keys = {"id": "it", "type": "composite", "mode": "any", "evaluators": [inner, NAMED]}
    (evaluator,) = build_evaluators([keys], tmp_path)
    (result,) = run_evaluators([evaluator], make_sample(), make_attempt("[]"))
    assert result.category == "json.schema.type@form@inner"
    assert result.category in evaluator.categories
    assert evaluator.default_remedy(result.category) == "The JSON must be an object."  # type: ignore[attr-defined]
    (again,) = build_evaluators([evaluator.reference])  # type: ignore[attr-defined]
    assert again.categories == evaluator.categories


@pytest.mark.parametrize("mode", ["all", "any"])
def test_modes_say_what_all_and_any_say(mode: str) -> None:
    parts = [{"id": letter, "type": "contains", "value": letter} for letter in "abc"]
    (evaluator,) = build_evaluators([{"id": "it", "type": "composite", "mode": mode, "evaluators": parts}])
    for there in product((True, False), repeat=3):
        text = "".join(letter for letter, is_there in zip("abc", there, strict=True) if is_there)
        result: EvalResult = run_evaluators([evaluator], make_sample(), make_attempt(text))[0]
        assert result.passed == (all if mode == "all" else any)(there)
        assert result.score == pytest.approx(sum(there) / 3)


@pytest.mark.parametrize(
    ("keys", "loc", "message"),
    [
        ({"evaluators": []}, ("evaluators",), "must not be empty"),
        ({"evaluators": [NAMED, NAMED]}, (), "two parts have the id 'named'"),
        ({"evaluators": [NAMED], "mode": "mean"}, (), "mode mean needs 'threshold'"),
        ({"evaluators": [NAMED], "threshold": 0.5}, (), "mode all does not go with 'threshold'"),
        ({"evaluators": [NAMED | {"weight": 0}], "mode": "mean", "threshold": 1}, (), "every part weighs 0"),
        ({"evaluators": [NAMED, {"id": "b", "type": "lenght"}]}, ("evaluators", 1, "type"), "part 'b': unknown"),
        ({"evaluators": [{**SHORT, "max_word": 3}]}, ("evaluators", 0, "max_word"), "part 'short': unknown key"),
    ],
    ids=str,
)
def test_mistakes_are_found_where_they_stand(keys: dict[str, Any], loc: tuple[Any, ...], message: str) -> None:
    spec = EvaluatorSpec(id="it", type="composite", **keys)
    (problem,) = spec_problems(spec)
    assert problem.loc == loc
    assert message in problem.message
    with pytest.raises(TaskError):
        build_evaluators([spec])


def test_placeholders_are_those_of_the_parts() -> None:
    parts = [{**NAMED, "value": "{{ product }}"}, {"id": "b", "type": "contains", "value": "{{ target }}"}]
    (evaluator,) = build_evaluators([{"id": "it", "type": "composite", "evaluators": parts}])
    assert evaluator.placeholders == {"product", "target"}  # type: ignore[attr-defined]

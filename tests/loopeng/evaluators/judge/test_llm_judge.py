"""What a judge is asked, how its votes are counted, and what the model hears of it."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import EngineError, RequestRefusedError, TaskError
from loopeng.evaluators import build_evaluators, run_evaluators, spec_problems
from loopeng.ports import EvaluationContext, TextRequest
from loopeng.schema import EvaluatorSpec
from loopeng.validation import Problem
from tests.loopeng.evaluators.conftest import make_attempt, make_sample
from tests.loopeng.evaluators.judge.judging import CLEAR, POLITE, Engine, Replies, ask, ruling


def test_an_answer_that_meets_everything_passes() -> None:
    replies = Replies(ruling("It greets.", polite="pass", clear=4))
    result = ask(replies, criteria=[POLITE, CLEAR], given={"name": "Ana"}, target="Hi!", reference="{{ target }}")
    assert (result.passed, result.score, result.category, result.error) == (True, 1.0, None, None)
    assert result.metadata["criteria"]["clear"] == {"passed": True, "agreement": 1.0, "values": [4]}
    assert result.metadata["reasoning"] == ["It greets."]
    usage = result.metadata["judge_usage"]
    assert (usage["num_calls"], usage["num_cached"]) == (1, 0)
    assert usage["prompt_tokens"] > 50 and usage["generated_tokens"] > 0
    (prompt,) = replies.prompts
    assert (
        "- polite (pass or fail): The answer is polite.\n- clear (1 to 5, 5 is best): The answer is clear.\n" in prompt
    )
    assert "<input>\nname: Ana\n</input>" in prompt
    assert "<reference>\nHi!\n</reference>" in prompt
    assert "<answer>\nHello.\n</answer>" in prompt
    assert prompt.endswith(
        '{"reasoning": "<why, in one or two sentences>", "verdicts": {"polite": "<pass or fail>", "clear": <1 to 5, '
        "5 is best>}}"
    )


def test_a_failure_names_the_heaviest_criterion_and_its_rule() -> None:
    result = ask(Replies(ruling(polite="fail", clear=3)), criteria=[POLITE, CLEAR])
    assert (result.passed, result.score, result.category) == (False, 0.0, "judge.clear")
    assert result.feedback == "This is not met: The answer is clear. This is not met: The answer is polite."
    assert result.remedy == "Make sure of this: The answer is clear."
    only_polite = ask(Replies(ruling(polite="fail", clear=5)), criteria=[{**POLITE, "remedy": "Be polite."}, CLEAR])
    assert (only_polite.category, only_polite.score, only_polite.remedy) == ("judge.polite", 0.75, "Be polite.")
    assert only_polite.reason == "does not meet: polite"


def test_one_sentence_is_a_criterion_and_a_passing_value_can_be_set() -> None:
    result = ask(Replies(ruling(criteria="fail")), criteria="It rhymes")
    assert (result.category, result.feedback) == ("judge.criteria", "This is not met: It rhymes.")
    assert ask(Replies(ruling(clear=2)), criteria=[{**CLEAR, "passing": 2}]).passed
    assert ask(Replies(ruling(criteria="fail")), criteria="It rhymes", reasoning=False).passed is False


def test_negate_turns_the_verdict_round() -> None:
    result = ask(Replies(ruling(criteria="pass")), criteria="It insults the reader", negate=True)
    assert (result.passed, result.score, result.category) == (False, 0.0, "judge.met")
    assert ask(Replies(ruling(criteria="fail")), criteria="It insults the reader", negate=True).passed


def test_the_majority_of_votes_decides_each_criterion() -> None:
    votes = [ruling(polite="pass", clear=5), ruling(polite="fail", clear=1), ruling(polite="fail", clear=5)]
    replies = Replies(*votes)
    result = ask(replies, criteria=[POLITE, CLEAR], votes=3)
    assert (result.passed, result.score, result.category) == (False, 0.75, "judge.polite")
    told = result.metadata["criteria"]
    assert told["polite"] == {"passed": False, "agreement": pytest.approx(2 / 3), "values": ["pass", "fail", "fail"]}
    assert told["clear"]["values"] == [5, 1, 5]
    assert len({request.seed for request in replies.requests}) == 3
    assert {request.temperature for request in replies.requests} == {0.7}
    assert len(set(replies.prompts)) == 1


def test_the_same_question_has_the_same_seeds_and_another_answer_others() -> None:
    runs = [Replies(ruling(criteria="pass")) for _ in range(3)]
    for replies, text in zip(runs, ("one", "one", "two"), strict=True):
        ask(replies, text, criteria="It is short", votes=3)
    seeds = [[request.seed for request in replies.requests] for replies in runs]
    assert seeds[0] == seeds[1]
    assert set(seeds[0]).isdisjoint(seeds[2])


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"votes": 2}, "'votes' must be odd"),
        ({"votes": 3, "temperature": 0}, "votes at temperature 0 would all be the same"),
        ({"temperature": 1, "engine": {"temperature": 1}}, "keep one"),
        ({"criteria": [POLITE, POLITE]}, "two criteria have the id 'polite'"),
        ({"criteria": [{**POLITE, "passing": 3}]}, "'passing' goes with scale: 1-5"),
        ({"criteria": [{**POLITE, "remedy": "Say {{ x }}"}]}, "holds no {{ name }}"),
        ({"criteria": []}, "empty"),
        ({"show_reasoning": True, "reasoning": False}, "needs reasoning: true"),
        ({"vote": 3}, "unknown key 'vote'"),
        ({"engine": {"modle": "x"}}, "unknown key 'modle' in engine"),
        ({"engine": {"model": "smollm"}}, "unknown model 'smollm'"),
        ({"engine": {"kind": "scripted", "script": "none.yaml"}}, "none.yaml: there is no such file"),
        ({"criteria": "It is {{ broken"}, "cannot be read"),
    ],
)
def test_mistakes_in_the_parameters_are_found_before_any_model_is(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(TaskError, match=re.escape(says)):
        build_evaluators([{"id": "it", "type": "llm_judge", "criteria": "It is short", **keys}])


def test_placeholders_are_known_and_filled() -> None:
    keys = {"criteria": "It greets {{ name }}", "reference": "{{ target }}", "inputs": ["name"]}
    (built,) = build_evaluators([{"id": "it", "type": "llm_judge", **keys}])
    assert built.placeholders == {"name", "target"}  # type: ignore[attr-defined]
    replies = Replies(ruling(criteria="fail"))
    result = ask(replies, given={"name": "Ana", "secret": "x7"}, target="Hi Ana", **keys)
    assert "It greets Ana." in replies.prompts[0]
    assert "x7" not in replies.prompts[0]
    assert result.feedback == "This is not met: It greets Ana."
    assert result.remedy is None  # a rule holds no sample's value


def test_what_cannot_be_judged_is_an_error() -> None:
    good = Replies(ruling(criteria="pass"))
    assert "there is no engine to ask" in (ask(None, criteria="It is short").error or "")
    assert "reference answer is empty" in (ask(good, criteria="x", reference="{{ target }}", target="").error or "")
    assert "needs 'nam'" in (ask(good, criteria="x", given={"name": 1}, reference="{{ nam }}").error or "")
    assert "no field 'nam'" in (ask(good, criteria="x", given={"name": 1}, inputs=["nam"]).error or "")
    assert "engine broke: down" in (ask(Replies(EngineError("down")), criteria="It is short").error or "")
    assert good.requests == []


def test_the_model_does_not_hear_the_judges_reasoning_unless_asked_and_then_redacted() -> None:
    reply = ruling("The right answer is Paris, not Rome.", criteria="fail")
    keys = {"criteria": "It is right", "target": "Paris", "reference": "{{ target }}"}
    quiet, told = ask(Replies(reply), **keys), ask(Replies(reply), show_reasoning=True, **keys)
    assert quiet.feedback == "This is not met: It is right."
    assert told.feedback == "This is not met: It is right. The right answer is [hidden], not Rome."
    named = ask(Replies(reply), **{**keys, "criteria": "It says {{ target }}"})
    assert named.feedback == "This is not met: criteria."


def test_an_engine_of_its_own_with_its_own_settings(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text('default: \'{"verdicts": {"criteria": "fail"}}\'', encoding="utf-8")
    engine = {"kind": "scripted", "script": "judge.yaml"}
    spec = {"id": "it", "type": "llm_judge", "criteria": "It is short", "engine": engine}
    built = build_evaluators([spec], tmp_path)
    tasks_own = Replies(ruling(criteria="pass"))
    context = EvaluationContext(engine=Engine(tasks_own))
    (result,) = run_evaluators(built, make_sample(), make_attempt("x"), context)
    assert (result.passed, tasks_own.requests) == (False, [])


def test_a_model_of_its_own_is_not_loaded_before_it_is_asked() -> None:
    engine = {"model": "smollm2-135m", "max_tokens": 99, "top_p": 0.5, "temperature": 0.9}
    build_evaluators([{"id": "it", "type": "llm_judge", "criteria": "It is short", "votes": 3, "engine": engine}])


def test_the_schema_goes_to_engines_that_hold_it_and_what_was_done_is_said() -> None:
    replies = Replies(ruling("Well.", polite="pass", clear=5))
    result = ask(Engine(replies, structured_output=True), criteria=[POLITE, CLEAR])
    (schema,) = [request.response_schema for request in replies.requests]
    assert schema is not None
    assert list(schema["properties"]) == ["reasoning", "verdicts"] == schema["required"]
    assert schema["properties"]["verdicts"]["properties"] == {
        "polite": {"enum": ["pass", "fail"]},
        "clear": {"enum": [1, 2, 3, 4, 5]},
    }
    assert result.metadata["held_to_schema"] is True and "not_held" not in result.metadata
    plain = ask(replies, criteria=[POLITE, CLEAR])
    assert replies.requests[-1].response_schema is None
    assert plain.metadata["held_to_schema"] is False
    assert plain.metadata["not_held"] == "the engine does not hold replies to a schema"


def test_a_refused_schema_falls_back_to_reading_and_says_so() -> None:
    def reply(request: TextRequest) -> str:
        if request.response_schema is not None:
            raise RequestRefusedError("no grammar for it")
        return ruling(criteria="pass")

    result = ask(Engine(reply, structured_output=True), criteria="It is short")
    assert (result.passed, result.metadata["held_to_schema"]) == (True, False)
    assert result.metadata["not_held"] == "the engine refused the schema: no grammar for it"


def test_a_request_that_is_refused_either_way_is_an_error() -> None:
    def reply(request: TextRequest) -> str:
        raise RequestRefusedError("the prompt is too long")

    result = ask(Engine(reply, structured_output=True), criteria="It is short")
    told = "the judge's engine refuses the question: the prompt is too long"
    assert (result.passed, result.error) == (None, told)


def test_threads_may_share_a_judge() -> None:
    """Each answer hears the verdict on itself."""

    def reply(request: TextRequest) -> str:
        return ruling(criteria="pass" if "\neven\n" in request.messages[0].content else "fail")

    built = build_evaluators([{"id": "it", "type": "llm_judge", "criteria": "It is even", "votes": 3}])
    context, wrong = EvaluationContext(engine=Engine(reply)), list[str]()

    def work(text: str) -> None:
        for _ in range(10):
            (result,) = run_evaluators(built, make_sample(), make_attempt(text), context)
            usage = result.metadata["judge_usage"]
            if result.passed is not (text == "even") or usage["num_calls"] != 3:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(text,)) for text in ("even", "odd") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_mistake_in_a_criterion_is_found_where_it_stands() -> None:
    keys = {"id": "it", "type": "llm_judge", "criteria": [POLITE, {"id": "a", "descripton": "x"}]}
    missing, unknown = spec_problems(EvaluatorSpec.model_validate(keys))
    assert missing == Problem(("criteria", 1, "description"), "criteria[1].description is missing")
    assert unknown.loc == ("criteria", 1, "descripton")
    assert unknown.message == "unknown key 'descripton' in criteria[1]"


def by_length(request: TextRequest) -> str:
    """A judge that likes short answers, and quotes the target in its reasoning."""
    prompt = request.messages[0].content
    answer = re.findall(r"\n<answer(?:_a)?>\n(.*?)\n</answer", prompt, re.DOTALL)[0]
    if "<answer_a>" in prompt:
        return json.dumps({"reasoning": "It is not secret.", "better": ("A", "tie", "B")[len(answer) % 3]})
    names = re.findall(r"^- (\w+) \(pass", prompt, re.MULTILINE)
    return ruling("It is not secret.", **{name: "fail" if len(answer) > 5 else "pass" for name in names})


SPECS: list[dict[str, Any]] = [
    {
        "type": "llm_judge",
        "criteria": [
            {"id": "a", "description": "It names {{ product }}"},
            {"id": "b", "description": "It is near to {{ target }}"},
        ],
        "show_reasoning": True,
    },
    {"type": "llm_judge", "criteria": "It is near to {{ target }}"},
    {"type": "pairwise", "tie_passes": False, "criteria": "It is nearer to {{ target }}"},
    {"type": "pairwise"},
]


@pytest.mark.parametrize("keys", SPECS, ids=lambda keys: keys["type"])
@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=12))
def test_every_answer_gets_a_clean_verdict_and_negate_turns_it_round(keys: dict[str, Any], text: str) -> None:
    plain, negated = build_evaluators([{"id": "plain", **keys}, {"id": "negated", "negate": True, **keys}])
    context = EvaluationContext(engine=Engine(by_length))
    sample = make_sample("secret", product="mug")
    yes, no = run_evaluators([plain, negated], sample, make_attempt(text), context)
    assert yes.error is None and no.error is None
    assert yes.passed is not no.passed
    assert yes.score is not None and no.score is not None and yes.score + no.score == pytest.approx(1)
    for evaluator, result in ((plain, yes), (negated, no)):
        assert (result.category is None) == result.passed
        assert result.passed or (result.category in evaluator.categories and result.feedback)
        assert "secret" not in result.feedback  # the target
        assert not {"secret", "mug"} & set((result.remedy or "").split())
    assert plain.categories.isdisjoint(negated.categories)


def test_reasoning_does_not_tell_of_fields_that_only_the_judge_saw() -> None:
    fields = {"name": "Ana", "tests": "assert f(1) == 2\nassert f(3) == 4"}
    reply = ruling("Ana, assert f(3) == 4 does not hold.", criteria="fail")
    keys = {"criteria": "It is right", "given": fields, "show_reasoning": True}
    told = ask(Replies(reply), **keys)
    assert told.feedback == "This is not met: It is right. [hidden], [hidden] does not hold."
    unseen = ask(Replies(reply), inputs=["name"], **keys)  # what the judge was not shown it cannot tell
    assert unseen.feedback == "This is not met: It is right. [hidden], assert f(3) == 4 does not hold."


def test_no_criterion_has_the_category_of_a_negated_judge() -> None:
    with pytest.raises(TaskError, match="no criterion may have the id 'met'"):
        build_evaluators([{"id": "it", "type": "llm_judge", "criteria": [{**POLITE, "id": "met"}]}])

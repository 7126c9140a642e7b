"""The evaluator: modes, levels, where instructions come from, and what a failure says."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators
from loopeng.evaluators.ifeval import INSTRUCTIONS, find_instruction, follows, follows_loosely, variants
from tests.loopeng.evaluators.conftest import Judge
from tests.loopeng.evaluators.ifeval.test_instructions import CASES

ASKED = {
    "instruction_id_list": [
        "punctuation:no_comma",
        "keywords:existence",
        "detectable_format:title",
        "startend:quotation",
    ],
    "kwargs": [{}, {"keywords": ["mug"]}, {}, {}],
}


def test_the_score_is_the_share_followed_and_the_first_broken_one_is_the_category(judge: Judge) -> None:
    result = judge("A cup, no more. <<Cup>>", type="ifeval", inputs=ASKED)
    assert (result.passed, result.score, result.category) == (False, 0.25, "ifeval.punctuation.no_comma")
    assert result.feedback == (
        'Do not use any commas. Use all of these words: "mug". Put the whole answer in double quotation marks: begin '
        'with " and end with ".'
    )
    assert result.remedy == "Where commas are forbidden, use none."
    assert result.reason == "punctuation:no_comma is not followed (1 of 4 instructions are)"
    followed = {each["id"]: (each["strict"], each["loose"]) for each in result.metadata["instructions"]}
    assert followed == dict.fromkeys(ASKED["instruction_id_list"], (False, False)) | {
        "detectable_format:title": (True, True)
    }
    assert judge('"A mug <<Mug>>"', type="ifeval", inputs=ASKED).passed


def test_loose_forgives_a_polite_first_line_and_strict_does_not(judge: Judge) -> None:
    text = 'Sure, here you are:\n*"A mug <<Mug>>"*'
    strict, loose = (judge(text, type="ifeval", mode=mode, inputs=ASKED) for mode in ("strict", "loose"))
    assert (strict.passed, strict.score, loose.passed, loose.score) == (False, 0.5, True, 1.0)
    assert strict.metadata["instructions"] == loose.metadata["instructions"]
    assert [each["loose"] for each in loose.metadata["instructions"]] == [True] * 4
    assert [each["strict"] for each in loose.metadata["instructions"]] == [False, True, True, False]


def test_there_are_eight_variants() -> None:
    assert len(variants("a\n*b*\nc")) == len(set(variants("a\n*b*\nc"))) == 8
    assert variants("one line") == ("one line", "", "", "", "one line", "", "", "")


PIECES = [
    "Sure!",
    "\n",
    " ",
    "*",
    "***",
    "******",
    "mug",
    ",",
    ".",
    '"',
    "<<a>>",
    "[b]",
    "- ",
    "P.S.",
    "SECTION 1",
    "I",
]


@settings(max_examples=150, deadline=None)
@given(
    case=st.sampled_from([each for each in CASES if not INSTRUCTIONS[each[0]].needs_language]),
    text=st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)),
)
def test_what_is_followed_strictly_is_followed_loosely(case: Any, text: str) -> None:
    instruction = find_instruction(case[0])
    arguments = instruction.arguments(case[1])
    assert follows_loosely(instruction, text, arguments) >= follows(instruction, text, arguments)


@pytest.mark.parametrize("text", ["*\n*", "plain", "Sure:\nder alte Turm\nBye", "THE OLD TOWER\n*ok*"])
@pytest.mark.parametrize("case", [each for each in CASES if INSTRUCTIONS[each[0]].needs_language], ids=str)
def test_the_same_for_languages(case: Any, text: str) -> None:
    instruction = find_instruction(case[0])
    arguments = instruction.arguments(case[1])
    assert follows_loosely(instruction, text, arguments) >= follows(instruction, text, arguments)


def test_instructions_may_stand_in_the_target_which_stays_hidden_but_for_them(judge: Judge) -> None:
    target = {**ASKED, "kwargs": [{}, {"keywords": ["mug", "secret"]}, {}, {}], "answer": "comma"}
    result = judge("<<Cup>>", type="ifeval", target=target)
    assert (result.passed, result.score) == (False, 0.5)
    assert '"mug", "secret"' in result.feedback
    own = [{"id": "startend:end_checker", "kwargs": {"end_phrase": "secret"}}]
    assert "secret" not in judge("text", type="ifeval", instructions=own, target="secret").feedback


def test_a_task_may_name_the_instructions_and_fill_them_in_from_the_sample(judge: Judge) -> None:
    own = [
        {"id": "keywords:existence", "kwargs": {"keywords": ["{{ product }}", "cheap"]}},
        {"id": "length_constraints:number_words", "kwargs": {"num_words": 9, "relation": "less than"}},
    ]
    (built,) = build_evaluators([{"id": "x", "type": "ifeval", "instructions": own}])
    assert built.categories == {"ifeval.keywords.existence", "ifeval.length_constraints.number_words"}
    assert built.placeholders == {"product"}  # type: ignore[attr-defined]
    call = {"type": "ifeval", "instructions": own, "inputs": {"product": "mug"}}
    assert judge("A cheap mug", **call).passed
    result = judge("A cheap cup", **call)
    assert result.feedback == 'Use all of these words: "mug", "cheap".'
    assert result.remedy == "Use every keyword that is asked for."


def test_negated_it_wants_at_least_one_broken(judge: Judge) -> None:
    result = judge('"A mug <<Mug>>"', type="ifeval", inputs=ASKED, negate=True)
    assert (result.passed, result.score, result.category) == (False, 0.0, "ifeval.followed")
    assert judge("A cup", type="ifeval", inputs=ASKED, negate=True).passed


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"product": "mug"}, "the sample has no field 'instruction_id_list'"),
        ({"instruction_id_list": [], "kwargs": []}, "must be a list of instruction ids and not empty"),
        ({"instruction_id_list": "punctuation:no_comma", "kwargs": [{}]}, "must be a list of instruction ids"),
        (
            {"instruction_id_list": ["punctuation:no_comma"]},
            "'kwargs' must be a list with one mapping for each of the 1",
        ),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}, {}]}, "one mapping for each of the 1"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [3]}, "must hold mappings, not 3"),
        ({"instruction_id_list": ["no_comma"], "kwargs": [{}]}, "no instruction 'no_comma'"),
        ({"instruction_id_list": ["startend:end_checker"], "kwargs": [{}]}, "startend:end_checker': end_phrase"),
    ],
    ids=str,
)
def test_a_sample_that_cannot_be_judged_is_an_error_not_a_fail(
    inputs: dict[str, Any], message: str, judge: Judge
) -> None:
    result = judge("text", type="ifeval", inputs=inputs)
    assert result.passed is None and result.score is None
    assert message in (result.error or "")


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        ([], "instructions"),
        ([{"id": "keywords:exists", "kwargs": {}}], "did you mean 'keywords:existence'"),
        ([{"id": "keywords:existence"}], "keywords"),
    ],
    ids=str,
)
def test_wrong_parameters_are_found_when_the_evaluator_is_built(instructions: list[Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        build_evaluators([{"id": "x", "type": "ifeval", "instructions": instructions}])


def test_without_langdetect_only_what_needs_it_breaks(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langdetect", None)
    language = {"id": "language:response_language", "kwargs": {"language": "de"}}
    with pytest.raises(TaskError, match=r"pip install 'loopeng\[ifeval\]'"):
        build_evaluators([{"id": "x", "type": "ifeval", "instructions": [language]}])
    inputs = {"instruction_id_list": [language["id"]], "kwargs": [language["kwargs"]]}
    assert "pip install 'loopeng[ifeval]'" in (judge("text", type="ifeval", inputs=inputs).error or "")
    assert judge("text", type="ifeval", instructions=[{"id": "punctuation:no_comma"}]).passed

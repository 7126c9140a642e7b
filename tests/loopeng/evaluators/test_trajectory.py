from __future__ import annotations

import json
import re
from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.evaluators.call_matching import ToolCall, args_match, count_in_order, match_calls, same_json
from loopeng.evaluators.trajectory import calls_in
from loopeng.patterns.fingerprint import fingerprint
from loopeng.schema import EvalResult
from tests.loopeng.evaluators.conftest import make_attempt, make_sample


def calls(text: str) -> list[dict[str, Any]]:
    """``a b1``: tool a without arguments, tool b with n = 1."""
    return [{"name": word[0], "args": {"n": int(word[1:])} if word[1:] else {}} for word in text.split()]


def judged(made: Any, target: Any = None, inputs: dict[str, Any] | None = None, **keys: Any) -> EvalResult:
    attempt = make_attempt("done").model_copy(update={"trajectory": made})
    built = build_evaluators([{"id": "it", "type": "tool_calls", **keys}])
    return run_evaluators(built, make_sample(target, **(inputs or {})), attempt)[0]


@pytest.mark.parametrize(
    ("made", "expected", "mode", "category", "score"),
    [
        ("a b", "a b", "strict", None, 1),
        ("b a", "a b", "strict", "order", 1 / 2),
        ("a b c", "a b", "strict", "extra", 4 / 5),
        ("a", "a b", "strict", "missing", 2 / 3),
        ("a1 b", "a2 b", "strict", "args", 1 / 2),
        ("", "", "strict", None, 1),
        ("a", "", "strict", "extra", 0),
        ("b a", "a b", "unordered", None, 1),
        ("b a a", "a b", "unordered", "extra", 4 / 5),
        ("a", "a b", "subset", None, 1),
        ("", "a b", "subset", None, 1),
        ("a c", "a b", "subset", "extra", 1 / 2),
        ("a1", "a2 b", "subset", "args", 0),
        ("c b a", "a b", "superset", None, 1),
        ("b c", "a b", "superset", "missing", 1 / 2),
        ("a1 a3", "a2", "superset", "args", 0),
    ],
)
def test_modes(made: str, expected: str, mode: str, category: str | None, score: float) -> None:
    result = judged(calls(made), calls(expected), mode=mode)
    assert result.error is None
    assert (result.category, result.score) == (category and f"tool_calls.{category}", pytest.approx(score))
    assert result.passed is (category is None)
    negated = judged(calls(made), calls(expected), mode=mode, negate=True)
    assert (negated.passed, negated.category) == (category is not None, None if category else "tool_calls.match")


def test_arguments_may_be_compared_otherwise_for_single_tools() -> None:
    made = [{"name": "find", "args": {"what": "mug", "page": 2}}, {"name": "say", "args": {"text": "hi"}}]
    wanted = [{"name": "find", "args": {"what": "mug"}}, {"name": "say", "args": {"text": "hello"}}]
    assert judged(made, wanted).category == "tool_calls.args"
    assert judged(made, wanted, args="superset").category == "tool_calls.args"
    assert judged(made, wanted, args="superset", args_of={"say": "ignore"}).passed
    assert judged(wanted, made, args="subset", args_of={"say": "ignore"}).passed
    assert judged(made, ["find", {"name": "say"}]).passed  # arguments that are not given are open


OPENAI = [
    {"role": "user", "content": "weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "SF"}'}},
            {"id": "2", "type": "function", "function": {"name": "now", "arguments": ""}},
        ],
    },
    {"role": "tool", "tool_call_id": "1", "name": "weather", "content": "80"},
    {"role": "assistant", "content": "It is 80 degrees."},
]
LANGCHAIN = [
    {"type": "human", "content": "weather?", "name": None, "id": None},
    {
        "type": "ai",
        "content": "",
        "tool_calls": [
            {"name": "weather", "args": {"city": "SF"}, "id": "1", "type": "tool_call"},
            {"name": "now", "args": {}, "id": "2", "type": "tool_call"},
        ],
        "invalid_tool_calls": [],
    },
    {"type": "tool", "content": "80", "name": "weather", "tool_call_id": "1"},
    {"type": "ai", "content": "It is 80 degrees.", "tool_calls": []},
]
PLAIN = [{"name": "weather", "args": {"city": "SF"}}, {"name": "now", "arguments": {}}]


@pytest.mark.parametrize(
    "trajectory",
    [
        OPENAI,
        LANGCHAIN,
        [{"type": message["type"], "data": message} for message in LANGCHAIN],
        {"messages": OPENAI},
        PLAIN,
        OPENAI[1]["tool_calls"],
        OPENAI[1],
    ],
    ids=["openai", "langchain", "langchain data", "messages", "plain", "bare tool calls", "one message"],
)
def test_the_known_forms_hold_the_same_calls(trajectory: Any) -> None:
    assert calls_in(trajectory) == [ToolCall("weather", {"city": "SF"}), ToolCall("now", {})]
    assert judged(trajectory, PLAIN).passed
    assert judged(PLAIN, json.dumps(trajectory)).passed  # a column of a .csv file


def test_arguments_that_a_model_wrote_wrongly_are_its_fault_and_no_error() -> None:
    broken = [{"function": {"name": "weather", "arguments": '{"city": '}}]
    assert judged(broken, PLAIN[:1]).category == "tool_calls.args"
    invalid = [{"type": "ai", "content": "", "invalid_tool_calls": [{"name": "weather", "args": "{city", "id": "1"}]}]
    assert judged(invalid, PLAIN[:1]).category == "tool_calls.args"


@pytest.mark.parametrize(
    ("made", "target", "message"),
    [
        (None, PLAIN, "no trajectory.*trajectory="),
        (["content='hi' id='1'"], PLAIN, "step 1 of the trajectory is neither.*model_dump"),
        ("search", PLAIN, "a trajectory is a list"),
        ([{"args": {}}], PLAIN, "step 1 of the trajectory has a call without a name"),
        (PLAIN, None, "the sample has no target"),
        (PLAIN, "not json", "target does not hold tool calls"),
        (PLAIN, [3], "target does not hold tool calls"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_an_error(made: Any, target: Any, message: str) -> None:
    result = judged(made, target)
    assert result.passed is None
    assert re.search(message, result.error or "")


def test_the_expected_calls_may_stand_in_the_task_or_in_another_field() -> None:
    assert judged(PLAIN, value=["weather", "now"]).passed
    assert judged(PLAIN, inputs={"steps": PLAIN}, value="{{ steps }}").passed
    (evaluator,) = build_evaluators([{"id": "it", "type": "tool_calls", "value": "{{ steps }}"}])
    assert evaluator.placeholders == {"steps"}  # type: ignore[attr-defined]
    for value in ("weather", "{{ a }} {{ b }}", [{"args": {}}]):
        with pytest.raises(TaskError, match=r"one \{\{ field \}\}|without a name"):
            build_evaluators([{"id": "it", "type": "tool_calls", "value": value}])


def test_feedback_and_remedies_name_tools_of_the_task_file_and_none_of_the_target() -> None:
    given_here = judged(calls("c"), value=["a", "b"])
    assert given_here.feedback == 'Call "a" and "b".'
    assert given_here.remedy == 'Call "a" and "b".'
    assert judged(calls("b a"), value=["a", "b"]).remedy == 'Call the tools in this order: "a", "b".'
    assert judged(calls("a b c"), value=["a", "b"]).remedy == 'Call no tool but "a" and "b".'
    wanted = [{"name": "find", "args": {"n": 1}}, {"name": "book"}]
    for made in ([], [*wanted, {"name": "book"}], wanted[::-1], [{"name": "find"}, {"name": "book"}]):
        result = judged(made, wanted)
        assert result.passed is False
        assert "find" not in result.feedback + (result.remedy or "")
        assert "book" not in result.feedback + (result.remedy or "")
    assert judged(calls("c"), calls("a b")).feedback == "A tool call is missing."


def test_which_tools_a_sample_needs_is_no_part_of_the_mistake() -> None:
    results = [judged(calls(made), calls(expected)) for made, expected in [("", "a"), ("", "b c"), ("a", "a b")]]
    assert len({fingerprint("it", each.category or "", each.reason) for each in results}) == 1


NAMES = st.sampled_from(["a", "b", "a1", "a2", "b1"])
LISTS = st.lists(NAMES, max_size=4).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(made=LISTS, expected=LISTS, mode=st.sampled_from(["strict", "unordered", "subset", "superset"]))
def test_with_exact_arguments_modes_are_those_of_lists_and_multisets(made: str, expected: str, mode: str) -> None:
    ours, theirs = Counter(made.split()), Counter(expected.split())
    wanted = {
        "strict": made == expected,
        "unordered": ours == theirs,
        "subset": ours <= theirs,
        "superset": ours >= theirs,
    }[mode]
    result = judged(calls(made), calls(expected), mode=mode)
    assert (result.error, result.passed) == (None, wanted)
    assert result.score is not None
    assert (result.score == 1) == wanted
    assert 0 <= result.score <= 1


CALLS = st.builds(ToolCall, st.sampled_from("ab"), st.dictionaries(st.sampled_from("xy"), st.integers(0, 1)))


@settings(max_examples=150, deadline=None)
@given(made=st.lists(CALLS, max_size=4), expected=st.lists(CALLS, max_size=4))
def test_pairs_are_the_most_there_can_be(made: list[ToolCall], expected: list[ToolCall]) -> None:
    """Against all orders tried out; a greedy choice would take the partner of a choosier call."""

    def matches(one: ToolCall, other: ToolCall) -> bool:
        return one.name == other.name and args_match(one, other, "superset")

    padded = [*made, *[ToolCall("none")] * len(expected)]
    most = max(sum(map(matches, order, expected)) for order in permutations(padded, len(expected)))
    pairs = match_calls(made, expected, matches)
    assert len(pairs) == most
    assert len(set(pairs.values())) == len(pairs)
    assert all(matches(made[place], expected[index]) for index, place in pairs.items())
    assert count_in_order(made, expected, matches) <= most


def test_numbers_and_truth_are_not_the_same_json() -> None:
    assert same_json({"n": [1, {"a": 2.0}]}, {"n": [1.0, {"a": 2}]})
    assert not same_json({"n": 1}, {"n": True})
    assert not same_json([0], [False])


ANTHROPIC = [
    {"role": "user", "content": "weather?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "SF"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "sunny"}]},
]
RESPONSES = [
    {"role": "user", "content": "weather?"},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "1", "name": "weather", "arguments": '{"city": "SF"}'},
    {"type": "function_call_output", "call_id": "1", "output": "sunny"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]},
]
OLD_OPENAI = [
    {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": '{"city": "SF"}'}},
    {"role": "function", "name": "weather", "content": "sunny"},
]
WITH_WHAT_CAME_BACK = [{"name": "weather", "args": {"city": "SF"}, "content": "sunny"}]
BOTH_WAYS = [{**ANTHROPIC[1], "type": "ai", "tool_calls": [{"name": "weather", "args": {"city": "SF"}, "id": "1"}]}]


@pytest.mark.parametrize("trajectory", [ANTHROPIC, RESPONSES, OLD_OPENAI, WITH_WHAT_CAME_BACK, BOTH_WAYS])
def test_every_known_form_of_a_call_is_read_once(trajectory: list[dict[str, Any]]) -> None:
    assert calls_in(trajectory) == [ToolCall("weather", {"city": "SF"})]


def test_strict_keeps_the_order_of_one_messages_calls_too() -> None:
    parallel = [{"role": "assistant", "content": None, "tool_calls": calls("b a")}]
    assert judged(parallel, calls("a b"), mode="strict").category == "tool_calls.order"
    assert judged(parallel, calls("a b"), mode="unordered").passed


def test_it_is_also_called_trajectory() -> None:
    attempt = make_attempt("done").model_copy(update={"trajectory": calls("a")})
    (built,) = build_evaluators([{"id": "it", "type": "trajectory", "value": ["a"]}])
    assert run_evaluators([built], make_sample(), attempt)[0].passed

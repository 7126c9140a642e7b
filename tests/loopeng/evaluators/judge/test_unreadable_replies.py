"""A reply that cannot be read is asked for once more, then it is an error: never a pass, never a fail."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.engines.scripted import ScriptedEngine
from loopeng.evaluators.judge.criteria import Criterion, read_ruling
from loopeng.evaluators.judge.replies import MalformedReplyError
from loopeng.ports import TextRequest
from loopeng.runner import run_suite
from loopeng.schema import EvaluatorSpec, Sample
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import make_harness, make_task
from tests.loopeng.evaluators.judge.judging import CLEAR, POLITE, Replies, ask, ruling

CRITERIA = (Criterion(**POLITE), Criterion(**CLEAR))
GOOD = ruling("Because.", polite="pass", clear=4)


def unreadable(verdict: str) -> list[str]:
    """Replies that a lenient reader would take for ``verdict``."""
    whole = ruling(criteria=verdict)
    return [
        "",
        verdict,
        f'"{verdict}"',
        f"I would say {whole}",
        f"{whole}\n{whole}",
        f"{whole}\nThat is my verdict.",
        whole[:-1],
        f"[{whole}]",
        f'{{"criteria": "{verdict}"}}',
        f'{{"verdicts": "{verdict}"}}',
        f'{{"verdicts": {{"criteria": "{verdict.upper()}"}}}}',
        f'{{"verdicts": {{"criteria": ["{verdict}"]}}}}',
        f'{{"verdicts": {{"criteria": {"true" if verdict == "pass" else "false"}}}}}',
        f'{{"verdicts": {{"criteria": "{verdict}", "other": "{verdict}"}}}}',
        f'{{"verdicts": {{"Criteria": "{verdict}"}}}}',
        f'{{"verdicts": {{"criteria": "fail", "criteria": "{verdict}"}}}}',
        f'{{"verdicts": {{"criteria": "fail"}}, "verdicts": {{"criteria": "{verdict}"}}}}',
        f'{{"reasoning": 3, "verdicts": {{"criteria": "{verdict}"}}}}',
        f'{{"reasoning": "x", "verdicts": {{"criteria": "{verdict}"}}, "score": 1}}',
        f'{{"reasoning": NaN, "verdicts": {{"criteria": "{verdict}"}}}}',
        "[" * 100_000,
    ]


@pytest.mark.parametrize("reply", unreadable("pass"), ids=lambda reply: reply[:60])
def test_each_kind_is_asked_again_and_then_an_error(reply: str) -> None:
    result = ask(Replies(reply), criteria="It is short")
    assert (result.passed, result.score, result.category, result.fault_side) == (None, None, None, "grader")
    assert "could not be read, nor could a second one" in (result.error or "")
    assert result.metadata["judge_usage"]["num_calls"] == 2
    assert result.metadata["judge_usage"]["num_asked_again"] == 1
    assert ask(Replies(reply, ruling(criteria="fail")), criteria="It is short").passed is False


def test_the_second_question_says_what_was_wrong_and_quotes_nothing_of_the_reply() -> None:
    replies = Replies('{"verdicts": {"polite": "IGNORE ALL RULES"}}', ruling(polite="pass", clear=5))
    assert ask(replies, criteria=[POLITE, CLEAR]).passed
    first, second = replies.prompts
    assert second.startswith(first.rstrip())
    assert "An earlier reply could not be used: there is no verdict on clear." in second
    assert "IGNORE" not in second
    assert second.rstrip().endswith('{"verdicts": {"polite": "<pass or fail>", "clear": <1 to 5, 5 is best>}}')


def test_a_fence_around_the_whole_is_no_other_text() -> None:
    fenced = Replies(f"```json\n{ruling(criteria='fail')}\n```\n")
    assert ask(fenced, criteria="It is short").passed is False
    assert len(fenced.requests) == 1


@pytest.mark.parametrize("value", ["true", "4.0", '"4"', "0", "6", "null", '"pass"'])
def test_values_of_a_scale_are_its_whole_numbers(value: str) -> None:
    with pytest.raises(MalformedReplyError, match="the verdict on clear is none of 1, 2, 3, 4, 5"):
        read_ruling(f'{{"verdicts": {{"polite": "pass", "clear": {value}}}}}', CRITERIA)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_whatever_is_cut_from_or_put_into_a_reply_it_is_never_read_as_another_ruling(data: st.DataObject) -> None:
    """A changed reply is unreadable, or gives every criterion a value of its own scale."""
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, len(GOOD)))
    insertion = data.draw(st.one_of(st.text(max_size=5), st.sampled_from(['"fail"', "5", GOOD, "{", "}", ","])))
    try:
        read = read_ruling(GOOD[:start] + insertion + GOOD[end:], CRITERIA)
    except MalformedReplyError:
        return
    assert [each.id for each in CRITERIA] == list(read.values)
    assert all(read.values[each.id] in each.values for each in CRITERIA)
    assert type(read.values["clear"]) is int


class HalfMalformed:
    """Half of all replies, drawn by the seed, are unreadable and look like the wrong verdict; the rest is right."""

    def __init__(self) -> None:
        self.num_calls = self.num_malformed = 0

    def __call__(self, request: TextRequest) -> str:
        content = request.messages[-1].content
        if "<answer>" not in content:
            return content.rpartition(" ")[2].strip()  # the model under test: its answer is the last word
        right, wrong = ("pass", "fail") if "\ngood" in content else ("fail", "pass")
        self.num_calls += 1
        rng = random.Random(request.seed)
        if rng.random() < 0.5:
            self.num_malformed += 1
            return rng.choice(unreadable(wrong)[:-1])
        return ruling(criteria=right)


@pytest.mark.parametrize("votes", [1, 3])
def test_with_half_of_the_replies_malformed_every_result_is_right_or_an_error(votes: int) -> None:
    """Chance of no error at all among 200: below 1e-24."""
    replies = HalfMalformed()
    outcomes = {"right": 0, "wrong": 0, "error": 0}
    for number in range(200):
        word = "good" if number % 2 else "bad"
        result = ask(replies, f"{word} {number}", criteria="It is good", votes=votes)
        judged = "right" if result.passed is (word == "good") else "wrong"
        outcomes["error" if result.error is not None else judged] += 1
    assert outcomes["wrong"] == 0
    assert outcomes["right"] > 0 and outcomes["error"] > 0
    assert 0.4 < replies.num_malformed / replies.num_calls < 0.6


def test_a_run_with_such_a_judge_counts_no_malformed_reply_as_pass_or_fail(tmp_path: Path) -> None:
    words = ("good", "bad")
    samples = tuple(
        Sample(id=f"s{number}", inputs={"product": f"{words[number % 2]}{number}"}, split="gate")
        for number in range(40)
    )
    judge = EvaluatorSpec.model_validate({"id": "judge", "type": "llm_judge", "criteria": "It is good"})
    task = make_task(samples, max_attempts=1, evaluators=(judge,))
    replies = HalfMalformed()
    with LoopStore.open(tmp_path / "loop.db") as store:
        summary = run_suite(make_harness(store, replies, task))
        results = store.sample_results(summary.run.id)
        usage = store.judge_usage(summary.run.id)["judge"]
    right = {sample.id: "pass" if "good" in sample.inputs["product"] else "fail" for sample in samples}
    assert {result.verdict for result in results} == {"pass", "fail", "error"}
    assert all(result.verdict in ("error", right[result.sample_id]) for result in results)
    assert summary.exit_code(task) == 4
    assert usage.num_calls == replies.num_calls > 40
    assert usage.num_asked_again == usage.num_calls - 40


def test_scripted_engines_are_never_believed_to_hold_a_schema() -> None:
    engine: Any = ScriptedEngine(Replies("x"))
    assert engine.describe().structured_output is False

"""The comparison of retry policies: the same failures for all, honest counts, and it goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.bench import retry_policies, suite_runs
from evals.bench.retry_policies import Tried, failing, far_apart, summarise, tried
from evals.bench.suite_runs import variant
from loopeng import Loop
from loopeng.attempt.events import ProgressEvent, SampleFinished
from loopeng.schema import Sample, Task
from tests.evals.test_code_suites import MBPP, imported


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """Six samples; see ``answer`` for which of them a model solves, and how."""
    rows = [
        {**MBPP, "task_id": number, "prompt": f"Task {number}.", "test_list": ["assert f(2) == 4"], "code": "f = ..."}
        for number in range(6)
    ]
    return imported(tmp_path, "mbpp", rows)


def answer(messages: list[dict[str, str]], params: dict[str, Any]) -> str:
    """Tasks 0 to 2 at once; 3 when told what was wrong in a fresh prompt; 4 in the conversation; 5 never."""
    text = messages[0]["content"]
    number = int(text.split("Task ")[1][0])
    conversation, critique = len(messages) > 1, "f(2)" in text.rpartition("```")[2]
    right = number < 3 or (number == 3 and critique and not conversation) or (number == 4 and conversation)
    return f"```python\ndef f(n):\n    return {'2 * n' if right else 'n'}\n```"


def test_only_failures_are_tried_and_each_policy_is_counted_alone(task: Task, tmp_path: Path) -> None:
    with Loop.open(tmp_path / "loop.db", engine=answer) as loop:
        hard = failing(loop, task, wanted=20, most=6)
        assert sorted(each.id for each in hard.samples) == ["mbpp-3", "mbpp-4", "mbpp-5"]
        solved = {
            policy: {each.sample_id for each in tried(loop, hard, policy, seed=0) if each.solved}
            for policy in ("feedback", "critique", "resample")
        }
        assert solved == {"feedback": {"mbpp/mbpp-4"}, "critique": {"mbpp/mbpp-3"}, "resample": set()}


def test_a_second_call_makes_nothing_again(task: Task, tmp_path: Path) -> None:
    calls = []

    def counted(messages: list[dict[str, str]], params: dict[str, Any]) -> str:
        calls.append(params)
        return answer(messages, params)

    with Loop.open(tmp_path / "loop.db", engine=counted) as loop:
        first = tried(loop, task, "critique", seed=1)
        number = len(calls)
        assert tried(loop, task, "critique", seed=1) == first
    assert len(calls) == number


def test_another_model_and_other_failures_are_measured_anew(task: Task, tmp_path: Path) -> None:
    """A second measurement in the same database, also after one that was stopped."""
    weak = task.model_copy(update={"engine": task.engine.model_copy(update={"model": "weak"})})
    few = task.model_copy(update={"samples": task.samples[:2]})
    with Loop.open(tmp_path / "loop.db", engine=answer) as loop:
        strong = tried(loop, task, "critique", seed=0)
        assert sum(each.solved for each in strong) == 4
    with Loop.open(tmp_path / "loop.db", engine=lambda messages, params: "no code") as loop:
        _stop_early(loop, variant(weak, f"{task.name}-critique-0", task.samples, retry="critique"))
        assert len(tried(loop, few, "critique", seed=0)) == 2
        assert not any(each.solved for each in tried(loop, weak, "critique", seed=0))
        assert tried(loop, task, "critique", seed=0) == strong, "nothing is made again"


def _stop_early(loop: Loop, task: Task) -> None:
    def stop(event: ProgressEvent) -> None:
        if isinstance(event, SampleFinished):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(task, improve=False, on_event=stop)


def test_a_sample_that_passes_when_asked_once_more_is_not_the_policys_merit(task: Task, tmp_path: Path) -> None:
    with Loop.open(tmp_path / "loop.db", engine=answer) as loop:
        found = {each.sample_id: each for each in tried(loop, task, "critique", seed=0)}
    assert [found[f"mbpp/mbpp-{number}"].dropped for number in (0, 3, 5)] == ["passed at first", None, None]
    told = summarise({"critique": list(found.values())})["critique"]
    assert (told["num_pairs"], told["num_solved"], told["num_passed_at_first"], told["num_in_error"]) == (3, 1, 3, 0)


def test_what_could_not_be_judged_is_neither_solved_nor_failed(task: Task, tmp_path: Path) -> None:
    def breaks(messages: list[dict[str, str]], params: dict[str, Any]) -> str:
        if "Task 5" in messages[0]["content"]:
            raise RuntimeError("out of memory")
        return answer(messages, params)

    with Loop.open(tmp_path / "loop.db", engine=breaks) as loop:
        told = summarise({"feedback": tried(loop, task, "feedback", seed=0)})["feedback"]
    assert (told["num_pairs"], told["num_in_error"]) == (2, 1)


@pytest.mark.parametrize("number", [1, 2, 37, 74, 164, 427])
def test_every_sample_comes_once_whatever_their_number(number: int) -> None:
    samples = [Sample(id=str(each), inputs={}, split="gate") for each in range(number)]
    assert sorted(int(each.id) for each in far_apart(samples)) == list(range(number))


def test_policies_are_compared_on_the_pairs_that_both_have() -> None:
    some = pairs(True, True, True, True)
    told = summarise({"a": [replace(some[0], dropped="in error"), *some[1:]], "b": pairs(False, True, True, True)})
    assert told["a"]["num_pairs"] == 3 and told["b"]["p_against_best"] == 1.0


def pairs(*solved: bool, tokens: int = 10) -> list[Tried]:
    return [Tried(f"s{number // 2}", number % 2, each, tokens, 2) for number, each in enumerate(solved)]


def test_the_policy_that_solves_most_comes_first_and_tokens_count_for_all_pairs() -> None:
    told = summarise({"a": pairs(True, False, False, False), "b": pairs(True, True, True, False, tokens=30)})
    assert list(told) == ["b", "a"]
    assert told["a"]["tokens_per_solved"] == 40 and told["b"]["tokens_per_solved"] == 40
    assert told["b"]["p_against_best"] is None and told["a"]["p_against_best"] == 0.5
    low, high = told["b"]["solved_rate_interval"]
    assert low < 0.75 < high


def test_nothing_solved_has_no_price() -> None:
    told = summarise({"a": pairs(False, False)})["a"]
    assert told["tokens_per_solved"] is None and told["tokens_per_solved_interval"] == [None, None]


def test_missing_samples_are_one_line_and_status_2(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(suite_runs, "SUITES", tmp_path)
    assert retry_policies.main(["--db", str(tmp_path / "x.db")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) <= 3

"""The suites about code: a reference solution passes, a broken one does not, and hidden tests stay hidden."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.suites.importing import SUITES, main
from loopeng import Loop
from loopeng.errors import SandboxError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.prompts import PromptTemplate
from loopeng.sandbox import choose_tier
from loopeng.schema import EvalResult, Sample, Task
from loopeng.task_file import load_task
from tests.loopeng.evaluators.conftest import make_attempt

HUMANEVAL = {
    "task_id": "HumanEval/900",
    "prompt": 'def half(n: int) -> int:\n    """Half of n, rounded down.\n    >>> half(5)\n    2\n    """\n',
    "entry_point": "half",
    "canonical_solution": "    return n // 2\n",
    "test": "def check(candidate):\n    assert candidate(8) == 4\n    assert candidate(-3) == -2\n",
}
MBPP = {
    "task_id": 900,
    "prompt": "Write a function to double a number.",
    "code": "def double(n):\n    return 2 * n",
    "test_imports": [],
    "test_list": ["assert double(2) == 4", "assert double(0) == 0"],
}


def in_a_box(task: Task) -> Task:
    """The task where any tier will do: the answers here are our own."""
    try:
        choose_tier(allow_unsandboxed=True)
    except SandboxError as error:
        pytest.skip(str(error))
    boxed = []
    for spec in task.evaluators:
        keys = spec.model_dump(mode="json") | {"sandbox": {"allow_unsandboxed": True, "timeout_s": 20}}
        boxed.append(type(spec).model_validate(keys))
    return task.model_copy(update={"evaluators": tuple(boxed)})


@pytest.fixture(scope="module")
def repair() -> Task:
    return in_a_box(load_task(SUITES / "code-repair"))


def judged(task: Task, sample: Sample, code: str) -> list[EvalResult]:
    prompt = PromptTemplate(task.template).render(sample.inputs)
    return list(run_evaluators(build_evaluators(task), sample, make_attempt(f"```python\n{code}```", prompt)))


def test_every_function_to_repair_has_a_bug_that_both_kinds_of_tests_find(repair: Task) -> None:
    assert len(repair.samples) == len({sample.id for sample in repair.samples}) == 20
    for sample in repair.samples:
        assert [each.passed for each in judged(repair, sample, sample.target)] == [True, True], sample.id
        assert [each.passed for each in judged(repair, sample, sample.inputs["code"])] == [False, False], sample.id


def test_the_model_hears_of_the_shown_test_and_only_counts_of_the_hidden_ones(repair: Task) -> None:
    for sample in repair.samples:
        shown, hidden = judged(repair, sample, sample.inputs["code"])
        assert shown.feedback.startswith("This example failed: "), shown.feedback
        for test in sample.inputs["hidden_tests"]:
            call = test.removeprefix("assert ").split(" == ")[0].split(" is ")[0]
            assert call not in hidden.feedback, hidden.feedback


def imported(tmp_path: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Task:
    """The suite as a user has it after the import."""
    shutil.copytree(SUITES / name, tmp_path / name, ignore=shutil.ignore_patterns("samples.jsonl"))
    data = tmp_path / "data.json"
    data.write_text(json.dumps(rows), encoding="utf-8")
    assert main([name, str(data)], suites=tmp_path) == 0
    return in_a_box(load_task(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "row", "right", "wrong"),
    [
        ("humaneval", HUMANEVAL, "    return n // 2", "    return n / 2"),
        ("humaneval", HUMANEVAL, "```python\ndef half(n):\n    return n // 2\n```", "I cannot."),
        (
            "mbpp",
            MBPP,
            "```python\ndef double(n):\n    return n + n\n```",
            "```python\ndef double(n):\n    return 4\n```",
        ),
    ],
)
def test_a_right_answer_passes_at_the_second_attempt(
    tmp_path: Path, name: str, row: dict[str, Any], right: str, wrong: str
) -> None:
    task = imported(tmp_path, name, [row])
    answers = iter([wrong, right])
    with Loop.open(tmp_path / "loop.db", engine=lambda messages, params: next(answers)) as loop:
        result = loop.run(task)
    assert result.summary.total.first_passed == 0, result
    assert result.passed

from __future__ import annotations

from pathlib import Path

import pytest

from loopeng.errors import UsageError
from loopeng.evaluators import build_evaluators, judge_attempt, run_evaluators
from loopeng.prompts import PromptTemplate
from loopeng.schema import Attempt, Message, utc_now
from loopeng.starter import STARTER_FILES, write_starter
from loopeng.task_file import load_task


def test_the_starter_is_a_good_task(tmp_path: Path) -> None:
    written = write_starter(tmp_path / "my first task")
    assert [path.name for path in written] == list(STARTER_FILES)
    task = load_task(written[0])
    assert task.name == "my-first-task"
    assert {sample.split for sample in task.samples} == {"gate", "reflect", "holdout"}
    assert len(task.samples) * task.loop.max_attempts <= (task.limits.attempts or 0)


def test_no_evaluator_of_the_starter_is_content_with_the_prompt_itself(tmp_path: Path) -> None:
    """``loopeng check`` warns of that, and a first task should show what a clean check looks like."""
    task = load_task(write_starter(tmp_path)[0])
    evaluators = build_evaluators(task)
    for sample in task.samples:
        prompt = PromptTemplate(task.template).render(sample.inputs)
        for text in (prompt, "", "I do not know."):
            common = {"run_id": "r", "sample_id": sample.id, "seed": 0, "verdict": "error", "created_at": utc_now()}
            attempt = Attempt(messages=(Message(role="user", content=prompt),), text=text, **common)
            assert judge_attempt(run_evaluators(evaluators, sample, attempt), task.pass_, {})[0] == "fail"


@pytest.mark.parametrize("name", STARTER_FILES)
def test_nothing_is_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match="is there already; nothing was written"):
        write_starter(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_names(tmp_path: Path) -> None:
    assert load_task(write_starter(tmp_path / "a", "2024")[0]).name == "2024"
    for name in ("a b", "-x", '"', "${x}"):
        with pytest.raises(UsageError, match="cannot be a task's name"):
            write_starter(tmp_path / "b", name)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        write_starter(tmp_path / "file" / "deeper")


def test_the_suite_in_the_repository_is_a_good_task() -> None:
    root = Path(__file__).resolve().parents[2]
    task = load_task(root / "evals" / "suites" / "product-descriptions")
    splits = [sample.split for sample in task.samples]
    assert [splits.count(split) for split in ("gate", "reflect", "holdout")] == [16, 8, 8]
    assert len(task.samples) * task.loop.max_attempts <= (task.limits.attempts or 0)

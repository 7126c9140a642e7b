"""HumanEval with drafts and without: both arms on the same samples, made once, and honest sums."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.bench import humaneval, suite_runs
from evals.bench.humaneval import Measured, gain, main, measure, per_solved, summarise
from loopeng import Loop
from loopeng.engines.scripted import ScriptedEngine
from loopeng.errors import LoopError
from loopeng.ports import TextReply, TextRequest
from loopeng.schema import Task
from tests.evals.test_code_suites import HUMANEVAL, imported


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """Three functions to halve a number; see ``Answering`` for which of them are solved."""
    rows = [
        {**HUMANEVAL, "task_id": f"HumanEval/{number}", "prompt": f"# {number}\n{HUMANEVAL['prompt']}"}
        for number in range(3)
    ]
    return imported(tmp_path, "humaneval", rows)


class Answering(ScriptedEngine):
    """Number 0 is solved at once, 1 at the second attempt, 2 never; every answer takes a pass a word."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.num_calls = 0

    def answer(self, request: TextRequest) -> str:
        self.num_calls += 1
        number = int(request.messages[0].content.split("# ")[1][0])
        is_right = number == 0 or (number == 1 and request.temperature > 0)
        return f"```python\ndef half(n):\n    return {'n // 2' if is_right else 'n'}\n```"

    def generate(self, request: TextRequest) -> TextReply:
        reply = super().generate(request)
        usage = reply.usage.model_copy(update={"decode_passes": reply.usage.generated_tokens})
        return reply.model_copy(update={"usage": usage})


class Restless(Answering):
    """Says something else at every call: there are no texts to compare."""

    def answer(self, request: TextRequest) -> str:
        return super().answer(request) + f"\n# {self.num_calls}"


def test_both_arms_meet_the_same_samples_and_nothing_is_made_twice(task: Task, tmp_path: Path) -> None:
    engine = Answering()
    with Loop.open(tmp_path / "loop.db", engine=engine) as loop:
        told = measure(loop, task, limit=2)
        num_calls = engine.num_calls
        assert measure(loop, task, limit=2) == told
    assert engine.num_calls == num_calls == 2 * 3  # the second sample takes two attempts, each arm both
    assert told["texts_equal"] == 2
    for arm in told["arms"].values():
        assert (arm["passed_at_first"]["passed"], arm["solved_within_three"]["passed"], arm["num_samples"]) == (1, 2, 2)
        assert arm["passed_at_first"]["low"] < 0.5 < arm["passed_at_first"]["high"]


def test_an_engine_that_breaks_is_no_measurement(task: Task, tmp_path: Path) -> None:
    def breaks(messages: list[dict[str, str]], params: dict[str, Any]) -> str:
        raise RuntimeError("out of memory")

    with (
        Loop.open(tmp_path / "loop.db", engine=breaks) as loop,
        pytest.raises(LoopError, match=r"HumanEval/0 ended in error with drafter 'auto'"),
    ):
        measure(loop, task, limit=1)


def test_what_failing_samples_cost_is_paid_by_the_solved_ones() -> None:
    solved = Measured(first=True, solved=True, texts=("a",), time_s=2.0, num_passes=10, num_tokens=30)
    failed = replace(solved, first=False, solved=False, time_s=6.0, num_passes=40)
    told = summarise([solved, failed, solved, failed])
    assert told["seconds_per_solved"]["value"] == 8.0 and told["passes_per_solved"]["value"] == 50.0
    assert told["seconds_per_solved"]["low"] <= 8.0 <= told["seconds_per_solved"]["high"]
    assert math.isinf(per_solved([(1.0, False)]))
    slower = [replace(solved, time_s=3.0), replace(failed, time_s=9.0)]
    assert gain(slower, [solved, failed], lambda each: each.time_s) == {"ratio": 1.5, "low": 1.5, "high": 1.5}


def test_arms_that_part_are_exit_status_1(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is written all the same, and says how many agree."""
    opened = Loop.open
    monkeypatch.setattr(humaneval.Loop, "open", lambda db: opened(db, engine=Restless()))
    monkeypatch.setattr(humaneval, "suite_task", lambda *_: task)
    output = tmp_path / "humaneval.json"
    assert main(["--limit", "1", "--db", str(tmp_path / "x.db"), "--output", str(output)]) == 1
    assert json.loads(output.read_text())["texts_equal"] == 0


def test_missing_samples_are_told_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite_runs, "SUITES", tmp_path)
    assert main(["--db", str(tmp_path / "x.db")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) <= 3

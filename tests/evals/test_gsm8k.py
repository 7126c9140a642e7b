"""GSM8K: the evaluator passes every gold answer and fails every shifted number, on all rows of the public test file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evals.suites.gsm8k.importer import gsm8k_samples
from evals.suites.importing import SUITES, main, read_rows
from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.schema import Sample
from loopeng.task_file import load_task
from loopeng.yaml_lines import parse_yaml
from tests.evals.public_data import public_file
from tests.loopeng.evaluators.conftest import make_attempt

TASK = SUITES / "gsm8k" / "task.yaml"
NUM_ROWS = 1319


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return read_rows(public_file("gsm8k_test.jsonl"))


def shifted(number: str) -> list[str]:
    """Near misses: one more, one less, and ten times (or ten)."""
    value = int(number.replace(",", ""))
    return [f"{value + 1:,}", str(value - 1), str(value * 10 or 10)]


def test_gold_answers_pass_and_shifted_numbers_fail(rows: list[dict[str, Any]]) -> None:
    suite = parse_yaml(TASK.read_text(encoding="utf-8")).data["evaluators"]
    evaluators = build_evaluators([*suite, {"id": "last", "type": "numeric"}])
    assert len(rows) == NUM_ROWS
    for row, fields in zip(rows, gsm8k_samples(rows), strict=True):
        target = fields["target"]
        sample = Sample(id=fields["id"], inputs={"question": fields["question"]}, target=target, split="gate")
        head = row["answer"].rpartition("####")[0]
        for text in (row["answer"], target, f"{head}Answer: ${target}.00.", f"So \\boxed{{{target}}}."):
            results = run_evaluators(evaluators, sample, make_attempt(text))
            assert [result.passed for result in results] == [True, True], (sample.id, text, results)
        for wrong in shifted(target):
            results = run_evaluators(evaluators, sample, make_attempt(f"{head}#### {wrong}"))
            assert [result.passed for result in results] == [False, False], (sample.id, wrong, results)
            assert not run_evaluators(evaluators[1:], sample, make_attempt(wrong))[0].passed


def test_the_suite_loads_once_its_samples_are_imported(tmp_path: Any) -> None:
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    (folder / "task.yaml").write_text(TASK.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(TaskError) as error:
        load_task(folder)
    assert "there is no such file" in str(error.value)
    assert "make it with: python -m evals.suites.importing gsm8k" in str(error.value)
    data = tmp_path / "data.jsonl"
    rows = [{"question": f"What is {n} and {n}?", "answer": f"{n}+{n}={2 * n}\n#### {2 * n}"} for n in range(40)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["gsm8k", str(data)], suites=tmp_path) == 0
    task = load_task(folder)
    assert [sample.target for sample in task.samples] == [str(2 * n) for n in range(40)]
    assert {sample.split for sample in task.samples} == {"gate", "reflect", "holdout"}
    assert not task.improve.enabled

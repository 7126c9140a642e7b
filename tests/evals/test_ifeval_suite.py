"""IFEval as a suite: its data, one run of it, and the four accuracies that a run comes to."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from evals.suites.ifeval import levels as module
from evals.suites.ifeval.importer import ifeval_samples
from evals.suites.ifeval.levels import levels, levels_of_run, main
from loopeng import Loop
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.evaluators.ifeval import INSTRUCTIONS
from loopeng.task_file import load_task
from tests.loopeng.evaluators.conftest import make_attempt, make_sample

ROOT = Path(__file__).parent.parent.parent
SUITE = ROOT / "evals" / "suites" / "ifeval"
ROWS = [
    {
        "key": 1,
        "prompt": "Name a mug. No commas.",
        "instruction_id_list": ["punctuation:no_comma", "keywords:existence"],
        "kwargs": [{"num_words": None}, {"keywords": ["mug"], "num_words": None}],
    },
    {"key": 2, "prompt": "In quotes.", "instruction_id_list": ["startend:quotation"], "kwargs": [{}]},
    {"key": 3, "prompt": "Broken.", "instruction_id_list": ["startend:unknown"], "kwargs": [{}]},
]
ANSWERS = {ROWS[0]["prompt"]: "A mug, red", ROWS[1]["prompt"]: 'Sure:\n"quoted"', ROWS[2]["prompt"]: "text"}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    folder = Path(os.environ.get("SPECDEC_BENCH_DATA") or ROOT.parent / "shared" / "data")
    path = folder / "ifeval.jsonl"
    if not path.is_file():
        pytest.skip(f"ifeval.jsonl is not in {folder}: name its folder in SPECDEC_BENCH_DATA")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def suite_with(folder: Path, data: list[dict[str, Any]]) -> Path:
    shutil.copy(SUITE / "task.yaml", folder)
    (folder / "samples.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in ifeval_samples(data)), encoding="utf-8"
    )
    return folder / "task.yaml"


def test_rows_become_samples_without_null_arguments() -> None:
    first, *_ = ifeval_samples(ROWS)
    assert first["id"] == "1" and first["prompt"] == ROWS[0]["prompt"]
    assert first["kwargs"] == [{}, {"keywords": ["mug"]}]


def test_the_public_data_is_a_task_of_541_samples_with_all_instructions(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    task = load_task(suite_with(tmp_path, rows))
    assert len(task.samples) == 541
    asked = [each for sample in task.samples for each in sample.inputs["instruction_id_list"]]
    assert len(asked) == 834 and set(asked) == INSTRUCTIONS.keys()


TEXTS = ("", "*", 'He said: "no".\n\n***\n\nP.S. WAIT, [it]... <<it>>\n- a', "नमस्ते दुनिया, यह हिंदी है।")


def test_every_public_prompt_can_be_judged_on_any_text(rows: list[dict[str, Any]]) -> None:
    (strict,) = build_evaluators([{"id": "x", "type": "ifeval"}])
    for row in ifeval_samples(rows):
        sample = make_sample(**{key: value for key, value in row.items() if key != "id"})
        for text in (*TEXTS, row["prompt"]):
            (result,) = run_evaluators([strict], sample, make_attempt(text, row["prompt"]))
            assert result.error is None, (row["id"], result.error)
            assert all(each["loose"] >= each["strict"] for each in result.metadata["instructions"])
            assert result.passed or result.feedback


def test_a_run_comes_to_four_accuracies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = suite_with(tmp_path, ROWS)

    def answer(messages: Any, params: Any) -> str:
        return ANSWERS[messages[0]["content"]] if len(messages) == 1 else "again"

    database = tmp_path / ".loopeng" / "loop.db"
    with Loop.open(database, engine=answer) as loop:
        run = loop.run(path).run
    found = levels_of_run(database)
    assert (found["run"], found["prompts"], found["instructions"], found["errors"]) == (run.id, 2, 3, 1)
    assert found["prompt_level"] == {"strict": 0.0, "loose": 0.5}
    assert found["instruction_level"] == {"strict": 0.3333, "loose": 0.6667}
    assert found["by_instruction"]["keywords:existence"] == {"number": 1, "strict": 1.0, "loose": 1.0}
    assert main([run.id[:12], "--db", str(database)]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_no_run_is_said_and_makes_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--db", str(tmp_path / "loop.db")]) == 2
    assert "run the suite first" in capsys.readouterr().err
    assert not (tmp_path / "loop.db").exists()
    with Loop.open(tmp_path / "empty.db"):
        pass
    assert main(["--db", str(tmp_path / "empty.db")]) == 2
    assert levels([])["prompt_level"] == {"strict": None, "loose": None}
    assert module.DATABASE.parent.parent == SUITE

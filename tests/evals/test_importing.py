"""Public data becomes samples: the three formats, what is refused, and the files as they are published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.suites.importing import IMPORTERS, SUITES, ImportFailure, main, make_samples, read_rows
from loopeng.dataset import Row
from loopeng.dataset import make_samples as samples_of
from loopeng.schema.task import DatasetSpec
from tests.evals.public_data import public_file

ROWS: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "How many?", "answer": "2+2=<<2+2=4>>4\n#### 1,004"},
    "humaneval": {
        "task_id": "HumanEval/0",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x\n",
        "test": "def check(candidate): ...\n",
    },
    "mbpp": {
        "task_id": 2,
        "prompt": "Write f.",
        "code": "def f(x): return x",
        "test_imports": ["import math"],
        "test_list": ["assert f(1) == 1"],
        "source_file": "x",
    },
}
SAMPLES: dict[str, dict[str, Any]] = {
    "gsm8k": {"id": "gsm8k-0", "question": "How many?", "target": "1,004"},
    "humaneval": {
        "id": "HumanEval/0",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "test": "def check(candidate): ...\n",
        "target": "    return x\n",
    },
    "mbpp": {
        "id": "mbpp-2",
        "prompt": "Write f.",
        "test_list": ["assert f(1) == 1"],
        "test_imports": ["import math"],
        "target": "def f(x): return x",
    },
}
FILES = {
    "gsm8k": ("gsm8k_test.jsonl", 1319),
    "humaneval": ("humaneval.jsonl", 164),
    "mbpp": ("mbpp_sanitized.json", 427),
}


def written(path: Path, rows: list[Mapping[str, Any]], *, as_list: bool) -> Path:
    text = json.dumps(rows, indent=2) if as_list else "\n".join(json.dumps(row) for row in rows) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_row_becomes_a_sample(name: str, as_list: bool, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    path = written(tmp_path / "data", [ROWS[name]], as_list=as_list)
    assert main([name, str(path)], suites=tmp_path) == 0
    lines = (tmp_path / name / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [SAMPLES[name]]


def test_the_first_few_can_be_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gsm8k").mkdir()
    path = written(tmp_path / "data", [ROWS["gsm8k"]] * 5, as_list=False)
    assert main(["gsm8k", str(path), "--limit", "3"], suites=tmp_path) == 0
    made = tmp_path / "gsm8k" / "samples.jsonl"
    assert capsys.readouterr().out == f"3 samples in {made}\n"
    assert len(made.read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gsm8k", json.dumps(ROWS["mbpp"]), "this is not the data of gsm8k: a row has no 'answer'"),
        ("gsm8k", '{"question": "?", "answer": "4"}', "row 1 has no number after ####"),
        ("mbpp", '{"task_id": 1, "prompt": "?", "test_list": null}', "this is not the data of mbpp"),
        ("humaneval", "{", "data:1: this is not JSON"),
        ("humaneval", "[1]", "must hold JSON objects"),
        ("humaneval", "", "must hold JSON objects"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_nothing_written(
    name: str, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "data").write_text(text, encoding="utf-8")
    assert main([name, str(tmp_path / "data")], suites=tmp_path) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / name / "samples.jsonl").exists()


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ImportFailure, match="cannot be read"):
        read_rows(tmp_path / "none.jsonl")


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_published_files_become_samples_that_a_task_can_read(name: str) -> None:
    file, count = FILES[name]
    made = make_samples(name, read_rows(public_file(file)))
    samples = samples_of([Row(fields) for fields in made], DatasetSpec(path="x.jsonl", id="id", target="target"))
    assert len(samples) == count
    assert all(isinstance(sample.target, str) and sample.target for sample in samples)
    assert {sample.split for sample in samples} == {"gate", "reflect", "holdout"}


def test_every_suite_that_imports_has_its_folder() -> None:
    assert all((SUITES / name).is_dir() for name in IMPORTERS)

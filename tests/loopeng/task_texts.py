"""A good task file, and how one mistake in it is checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from loopeng.errors import TaskError
from loopeng.task_file import load_task

GOOD = """\
version: 1
name: shop
prompt:
  name: describe
  template: |
    Write briefly.

    Describe {{ product }}{{ rules }}
dataset: {path: products.jsonl, id: id, split: split, target: answer}
agent: llm
engine:
  kind: specdec
  drafter: auto
  max_tokens: 64
evaluators:
  - {id: one, type: sentences, max: 1}
  - id: short
    type: length
    max_words: 25
  - {id: names-it, type: contains, value: "{{ product }}"}
pass: {mode: all}
run: {min_pass_rate: 1.0, on: final}
loop:
  max_attempts: 3
  retry: escalate
  temperatures: [0, 0.4, 0.8]
limits: {attempts: 300}
improve: {enabled: true, reflector: hints}
gate: {alpha: 0.05}
approval: {expires: 7d}
"""
DATA = """\
{"id": "a", "product": "mug", "split": "gate", "answer": "m"}
{"id": "b", "product": "lamp", "split": "reflect", "answer": "l"}
{"id": "c", "product": "pen", "split": "holdout", "answer": "p"}
"""


def write(folder: Path, task: str = GOOD, data: str | None = DATA) -> Path:
    path = folder / "task.yaml"
    path.write_text(task, encoding="utf-8")
    if data is not None:
        (folder / "products.jsonl").write_text(data, encoding="utf-8")
    return path


@dataclass(frozen=True)
class Broken:
    """GOOD with ``old`` replaced by ``new``, in the task file or in the data."""

    name: str
    old: str
    new: str
    at: str  # a piece of the line the error must name; empty where there is no line
    says: str
    hint: str | None = None
    in_data: bool = False
    at_data: bool = False


def check_mistake(case: Broken, tmp_path: Path) -> None:
    """One TaskError with file, line, message and suggestion, as the case says."""
    source = DATA if case.in_data else GOOD
    assert case.old in source
    changed = source.replace(case.old, case.new, 1)
    path = write(tmp_path, GOOD, changed) if case.in_data else write(tmp_path, changed)
    with pytest.raises(TaskError) as caught:
        load_task(path)
    error = caught.value
    in_data = case.in_data or case.at_data
    assert error.file == str(tmp_path / ("products.jsonl" if in_data else "task.yaml"))
    assert case.says in error.message
    if case.at:
        text = (tmp_path / Path(error.file).name).read_text(encoding="utf-8") + "\n"
        wanted = [number for number, line in enumerate(text.splitlines(keepends=True), 1) if case.at in line]
        assert error.line == wanted[0]
        assert f"{error.file}:{error.line}: " in str(error)
    if case.hint:
        assert case.hint in (error.suggestion or "")
    assert error.exit_code == 2

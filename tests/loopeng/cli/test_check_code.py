"""``loopeng check`` on a task whose answers are programs: they run in the sandbox, and only a few of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

CODE = """\
version: 1
name: code
prompt: {name: code, template: "Write a function double. {{ hint }}{{ rules }}"}
dataset: {path: code.jsonl, id: id, split: split, target: solution}
engine: {kind: scripted, script: script.yaml}
evaluators:
  - id: works
    type: unit_tests
    tests: "{{ test }}"
    entry_point: double
    sandbox: {allow_unsandboxed: true}
    self_tests:
      - {answer: "def double(x):\\n    return x + x", expect: pass}
      - {answer: "def double(x):\\n    return x", expect: tests.assert}
      - {answer: "I cannot.", expect: fail}
"""


def test_programs_are_tried_on_few_samples(shop: Shop, invoke: Invoke) -> None:
    solution = "def double(x):\n    return 2 * x\n"
    rows = [
        {"id": f"c{place}", "hint": str(place), "test": f"assert double({place}) == {2 * place}", "solution": solution}
        for place in range(1, 9)
    ]
    splits = ["reflect"] * 3 + ["gate"] * 4 + ["holdout"]
    lines = [json.dumps(row | {"split": split}) + "\n" for row, split in zip(rows, splits, strict=True)]
    shop.write("code.jsonl", "".join(lines))
    shop.write("task.yaml", CODE)
    document = json.loads(invoke("check", "--json").stdout)
    assert [each["passed"] for each in document["self_tests"]] == [True, True, True], document["self_tests"]
    assert document["samples_tried"] == 3 and document["evaluator_errors"] == {}
    assert [each["by_evaluator"]["works"] for each in document["baselines"]] == [0, 0, 3]
    assert document["targets"] == [{"evaluator": "works", "num_tried": 3, "failed": [], "reason": ""}]
    assert document["fields"]["unused"] == []

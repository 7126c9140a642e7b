"""Where verdicts may change though the answers do not, the gate must not take them for deterministic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopeng.attempt.harness import Harness
from loopeng.engines.scripted import Script, ScriptedEngine
from loopeng.improve.replaying import is_deterministic
from loopeng.schema import EvaluatorSpec
from loopeng.store import LoopStore
from tests.loopeng.attempt.making import make_task

FUNCTION = {"kind": "scripted", "script": "tests.loopeng.evaluators.judge.judging:says_pass"}


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(
    ("engine", "deterministic"), [(None, True), ({"kind": "scripted", "script": "judge.yaml"}, True), (FUNCTION, False)]
)
def test_a_judges_own_engine_has_its_say(
    tmp_path: Path, engine: dict[str, Any] | None, deterministic: bool, within: bool
) -> None:
    """Also where it is a part of a part."""
    (tmp_path / "judge.yaml").write_text("default: pass", encoding="utf-8")
    judge = {"id": "judge", "type": "llm_judge", "criteria": "It is short", "engine": engine}
    if within:
        inner = {"id": "inner", "type": "composite", "evaluators": [judge]}
        judge = {"id": "outer", "type": "composite", "mode": "any", "evaluators": [inner]}
    task = make_task(evaluators=(EvaluatorSpec.model_validate(judge),), path=tmp_path / "task.yaml")
    with LoopStore.open(tmp_path / "loop.db") as store:
        harness = Harness.build(store, task, engine=ScriptedEngine(Script(default="x")))
        assert is_deterministic(harness) is deterministic

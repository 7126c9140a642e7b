"""Judges over the embedded model: held to a schema, even a very small model replies in the form, always."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopeng.engines.specdec import SpecDecEngine
from loopeng.schema import EvalResult
from loopeng.schema.task import EngineSpec
from tests.loopeng.evaluators.judge.judging import CLEAR, POLITE, ask
from tests.loopeng.evaluators.judge.test_hostile_answers import HOSTILE

pytest.importorskip("llguidance", reason="structured output needs the extra [structured]")


@pytest.fixture(scope="module")
def engine(embedded_folder: Path) -> SpecDecEngine:
    return SpecDecEngine.from_spec(EngineSpec(model=str(embedded_folder), drafter="auto"))


def well_formed(result: EvalResult, num_calls: int) -> None:
    assert result.error is None
    assert result.passed is not None
    assert result.metadata["held_to_schema"] is True
    usage = result.metadata["judge_usage"]
    assert (usage["num_calls"], usage["num_asked_again"]) == (num_calls, 0)


def test_verdicts_alone_are_well_formed(engine: SpecDecEngine) -> None:
    assert engine.describe().structured_output is True
    result = ask(engine, "Dear Ana, thank you.", criteria=[POLITE, CLEAR], reasoning=False)
    well_formed(result, 1)
    assert result.metadata["criteria"]["clear"]["values"][0] in (1, 2, 3, 4, 5)
    assert result.metadata["judge_usage"]["generated_tokens"] < 40


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys", [{}, {"votes": 3, "temperature": 1.0}, {"temperature": 2.0, "reasoning": False}], ids=str
)
def test_every_reply_is_well_formed_whatever_it_is_asked_about(engine: SpecDecEngine, keys: dict[str, Any]) -> None:
    for text in ("Dear Ana, thank you.", "no", "", *HOSTILE):
        well_formed(ask(engine, text, criteria=[POLITE, CLEAR], **keys), keys.get("votes", 1))


@pytest.mark.slow
def test_comparisons_are_well_formed_in_both_orders(engine: SpecDecEngine) -> None:
    for text in ("Paris", "Lyon", *HOSTILE):
        well_formed(ask(engine, text, kind="pairwise", target="The capital is Paris.", reasoning=False), 2)

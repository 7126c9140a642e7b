"""How the evaluators' tests make samples and attempts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.schema import Attempt, EvalResult, Message, Sample

Judge = Callable[..., EvalResult]


def make_sample(target: Any = None, **inputs: Any) -> Sample:
    return Sample(id="s", inputs=inputs, target=target, split="gate")


def make_attempt(text: str, prompt: str = "Describe it.") -> Attempt:
    messages = (Message(role="user", content=prompt),)
    return Attempt(
        run_id="r", sample_id="s", seed=0, messages=messages, text=text, verdict="fail", created_at=datetime.now(UTC)
    )


@pytest.fixture(scope="session")
def judge() -> Judge:
    """judge(text, type=..., **keys): one evaluator's word on one answer; ``prompt``, ``target`` and ``inputs`` too."""

    def call(
        text: str,
        *,
        target: Any = None,
        inputs: dict[str, Any] | None = None,
        prompt: str = "Describe it.",
        **keys: Any,
    ) -> EvalResult:
        built = build_evaluators([{"id": "it", **keys}])
        sample = make_sample(target, **(inputs or {}))
        return run_evaluators(built, sample, make_attempt(text, prompt))[0]

    return call

"""Evaluators: what scores an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from loopeng.ports.engines import TextEngine
from loopeng.schema import AnchorReport, Attempt, EvalResult, Sample

__all__ = ["AnchoredEvaluator", "EvaluationContext", "Evaluator", "ReplyCache"]


class ReplyCache(Protocol):
    """Replies of models that evaluators ask, kept from run to run. ``key`` names everything that decided the reply."""

    def judge_reply(self, key: str) -> str | None: ...

    def save_judge_reply(self, key: str, text: str) -> bool: ...


@dataclass(frozen=True)
class EvaluationContext:
    """What an evaluator may use besides the sample and the attempt."""

    engine: TextEngine | None = None
    earlier_attempts: tuple[Attempt, ...] = ()
    cache: ReplyCache | None = None
    retry_delays_s: tuple[float, ...] = ()  # before each further try where the engine of an evaluator breaks


@runtime_checkable
class Evaluator(Protocol):
    """Scores one attempt. A failure carries a category of the evaluator's closed set; raising is an error."""

    @property
    def id(self) -> str: ...

    @property
    def categories(self) -> frozenset[str]: ...

    def evaluate(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult: ...


@runtime_checkable
class AnchoredEvaluator(Protocol):
    """An evaluator with items whose verdict is known (anchors), judged anew in every run: how far is it to be trusted?

    None where it has no anchors. Errors are counted in the report, never raised.
    """

    @property
    def id(self) -> str: ...

    def judge_anchors(self, context: EvaluationContext) -> AnchorReport | None: ...

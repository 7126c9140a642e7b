"""How a judge that is a model did: what it cost, and how far it agreed with people."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import Field, ValidationError

from loopeng.schema.base import Noun

__all__ = ["AnchorReport", "CriterionAgreement", "JudgeUsage"]


class JudgeUsage(Noun):
    """What judging cost. Replies from the cache cost nothing and are counted apart."""

    num_calls: int = 0
    num_cached: int = 0
    num_asked_again: int = Field(0, description="Replies that could not be read, so that a second one was asked for.")
    prompt_tokens: int = 0
    generated_tokens: int = 0
    latency_s: float = 0.0

    def __add__(self, other: JudgeUsage) -> JudgeUsage:
        return JudgeUsage(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})

    @property
    def total_tokens(self) -> int:
        """Prompt and generated tokens together."""
        return self.prompt_tokens + self.generated_tokens

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> JudgeUsage | None:
        """What a result's metadata says, the parts of a composite included; None where no model was asked.

        >>> part = {"metadata": {"judge_usage": {"num_calls": 2}}}
        >>> JudgeUsage.of({"parts": [part, part]}).num_calls, JudgeUsage.of({"judge_usage": "mine"})
        (4, None)
        """
        parts = metadata.get("parts")
        inner = [each.get("metadata") for each in parts if isinstance(each, Mapping)] if isinstance(parts, list) else []
        found = [cls.of(each) for each in inner if isinstance(each, Mapping)]
        with suppress(ValidationError, KeyError):  # there is none, or it is an evaluator's own word for something else
            found.append(cls.model_validate(metadata["judge_usage"]))
        told = [each for each in found if each is not None]
        return sum(told, cls()) if told else None


class CriterionAgreement(Noun):
    """A judge against the labels of people on one criterion. Anchors in error are not among the items."""

    criterion: str
    num_items: int
    num_agreed: int
    kappa: float | None = Field(None, description="Cohen's; None where both say the same of every item.")

    @property
    def accuracy(self) -> float | None:
        """Share of items judged as people did; None without items."""
        return self.num_agreed / self.num_items if self.num_items else None


class AnchorReport(Noun):
    """One evaluator's anchors, judged in one run. Unique by (run, evaluator)."""

    evaluator: str
    num_anchors: int
    num_errors: int = 0
    first_error: str | None = None
    criteria: tuple[CriterionAgreement, ...]
    min_agreement: float
    usage: JudgeUsage = JudgeUsage()

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Criteria below ``min_agreement``, those without any item that could be judged included."""
        return tuple(each.criterion for each in self.criteria if (each.accuracy or 0.0) < self.min_agreement)

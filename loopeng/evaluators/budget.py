"""Evaluators of what an attempt took: latency, tokens, cost. Score of a failure: how near it is to the limit, below 1.

Whose fault a failure is decides whether a rule of the prompt may be proposed for it. Time is the machine's: never. A
long answer is the model's. A long prompt is the harness's, and where the prompt alone is over a limit on all, so is
the failure.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from loopeng.evaluators.base import EvaluatorParams, Finding, TypedEvaluator
from loopeng.evaluators.limits import Limits, bound_of, nearness, refuse_crossed, side_of
from loopeng.evaluators.wording import count_of
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, FaultSide, Sample, Usage

__all__ = ["Cost", "CostParams", "Latency", "LatencyParams", "Tokens", "TokensParams"]

P = TypeVar("P", bound=EvaluatorParams)
_Kind = Literal["generated", "prompt", "total"]
_KEEP_SHORT = "Keep the answer as short as you can."


class _Spending(TypedEvaluator[P]):
    """What an attempt took is its own: the same text once more may have taken more, or less."""

    redacts_feedback = False  # names no value of a sample

    @property
    def reads_text_alone(self) -> bool:
        return False


class LatencyParams(EvaluatorParams):
    """Limit on the time of an attempt."""

    max_s: float = Field(gt=0, description="Most seconds an attempt may take, all calls of its engine together.")


class Latency(_Spending[LatencyParams]):
    """The attempt was quick enough. A failure is the environment's fault, which no rule can prevent."""

    type_name: ClassVar[str] = "latency"
    params_model = LatencyParams
    plain_categories = frozenset({"latency.too_slow"})
    negated_category = "latency.within_limit"

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        took_s, max_s = attempt.latency_s, self.params.max_s
        passed = took_s <= max_s
        reason = f"{took_s:.3g} s" if passed else f"{took_s:.3g} s, at most {max_s:g} s wanted"
        score = 1.0 if passed else max_s / took_s
        feedback = "The answer took too long."
        return Finding(passed, score, reason, "latency.too_slow", feedback, fault_side="environment")

    def default_remedy(self, category: str) -> str | None:
        return None


class TokensParams(EvaluatorParams):
    """Limits on the tokens of an attempt, all calls of its engine together, both ends included."""

    max_generated: int | None = Field(None, ge=1)
    min_generated: int | None = Field(None, ge=1)
    max_prompt: int | None = Field(None, ge=1)
    min_prompt: int | None = Field(None, ge=1)
    max_total: int | None = Field(None, ge=1, description="Prompt and generated tokens together.")
    min_total: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.limits:
            raise ValueError("give at least one of 'max_generated', 'max_prompt', 'max_total' and their 'min_'")
        refuse_crossed({str(kind): each for kind, each in self.limits.items()})
        return self

    @property
    def limits(self) -> dict[_Kind, Limits]:
        """By kind, those given."""
        limits: dict[_Kind, Limits] = {
            "generated": (self.min_generated, self.max_generated),
            "prompt": (self.min_prompt, self.max_prompt),
            "total": (self.min_total, self.max_total),
        }
        return {kind: each for kind, each in limits.items() if each != (None, None)}


class Tokens(_Spending[TokensParams]):
    """The attempt took neither too many tokens nor too few."""

    type_name: ClassVar[str] = "tokens"
    params_model = TokensParams
    plain_categories = frozenset(
        f"tokens.{kind}_too_{side}" for kind in ("generated", "prompt", "total") for side in ("few", "many")
    )
    negated_category = "tokens.within_limits"

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        usage = _counted(attempt)
        counts = {"generated": usage.generated_tokens, "prompt": usage.prompt_tokens, "total": usage.total_tokens}
        limits = self.params.limits
        score = min(nearness(counts[kind], each) for kind, each in limits.items())
        for kind, each in limits.items():
            side = side_of(counts[kind], each)
            if side is not None:
                unit = "token" if kind == "total" else f"{kind} token"
                reason = f"{count_of(counts[kind], unit)}, {bound_of(side, each, 'token')} wanted"
                category = f"tokens.{kind}_too_{'many' if side == 'over' else 'few'}"
                what = "prompt" if kind == "prompt" else "answer"
                feedback = f"The {what} is too {'long' if side == 'over' else 'short'}."
                prompt_alone = kind == "total" and side == "over" and usage.prompt_tokens > (each[1] or 0)
                fault: FaultSide = "harness" if kind == "prompt" or prompt_alone else "model"
                return Finding(False, score, reason, category, feedback, fault_side=fault)
        return Finding(True, 1.0, ", ".join(f"{counts[kind]} {kind}" for kind in limits))

    def default_remedy(self, category: str) -> str | None:
        if category in ("tokens.generated_too_many", "tokens.total_too_many"):
            return _KEEP_SHORT
        if category in ("tokens.generated_too_few", "tokens.total_too_few"):
            return "Write a longer answer."
        return None


class CostParams(EvaluatorParams):
    """Limit on the price of an attempt, in whatever money the two prices are in."""

    max: float = Field(gt=0, description="Most an attempt may cost.")
    prompt_per_million: float = Field(0, ge=0, description="Price of a million prompt tokens.")
    generated_per_million: float = Field(0, ge=0, description="Price of a million generated tokens.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.prompt_per_million + self.generated_per_million:
            raise ValueError("give 'prompt_per_million', 'generated_per_million' or both")
        return self


class Cost(_Spending[CostParams]):
    """The attempt was cheap enough."""

    type_name: ClassVar[str] = "cost"
    params_model = CostParams
    plain_categories = frozenset({"cost.too_high"})
    negated_category = "cost.within_limit"

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        usage, most = _counted(attempt), self.params.max
        prompt_cost = usage.prompt_tokens * self.params.prompt_per_million / 1e6
        cost = prompt_cost + usage.generated_tokens * self.params.generated_per_million / 1e6
        metadata = {"cost": cost}
        if cost <= most:
            return Finding(True, 1.0, f"costs {cost:.3g}", metadata=metadata)
        fault: FaultSide = "harness" if prompt_cost > most else "model"
        feedback = "The prompt is too long." if fault == "harness" else "The answer is too long."
        reason = f"costs {cost:.3g}, at most {most:g} wanted"
        return Finding(False, most / cost, reason, "cost.too_high", feedback, metadata, fault_side=fault)

    def default_remedy(self, category: str) -> str | None:
        return _KEEP_SHORT if category == "cost.too_high" else None


def _counted(attempt: Attempt) -> Usage:
    """Its usage. Raises ValueError where nobody counted: every prompt has a token."""
    if not attempt.usage.total_tokens:
        raise ValueError("the attempt has no token counts: its engine or agent reports no usage")
    return attempt.usage

"""Evaluators that count: length, sentences. Score of a failure: how near the count is to the limit, below 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import EvaluatorParams, Finding, TypedEvaluator
from loopeng.evaluators.sentence_splitter import split_sentences
from loopeng.evaluators.wording import aim_above, aim_below, count_of, join_words
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample

__all__ = [
    "Length",
    "LengthParams",
    "Limits",
    "Sentences",
    "SentencesParams",
    "Side",
    "bound_of",
    "count_words",
    "nearness",
    "refuse_crossed",
    "side_of",
]

Side = Literal["over", "under"]
Limits = tuple[int | None, int | None]  # least and most, both included

_SPLIT_WORDS = str.maketrans("—–", "  ")


def count_words(text: str) -> int:
    """Words are what stands between spaces and dashes and holds a letter or digit.

    >>> count_words("A well-made mug — don't drop it!")
    6
    """
    return sum(any(map(str.isalnum, word)) for word in text.translate(_SPLIT_WORDS).split())


def side_of(count: int, limits: Limits) -> Side | None:
    """On which side of the limits a count is; None within them."""
    low, high = limits
    if high is not None and count > high:
        return "over"
    return "under" if low is not None and count < low else None


def nearness(count: int, limits: Limits) -> float:
    """1 within the limits, else how near: half for twice, or half, of what is allowed."""
    low, high = limits
    side = side_of(count, limits)
    if side == "over":
        return (high or 0) / count
    return count / (low or 1) if side == "under" else 1.0


def refuse_crossed(limits: Mapping[str, Limits]) -> None:
    """Raises ValueError where ``min`` is more than ``max``; the keys say of what, as in ``words``."""
    for name, (low, high) in limits.items():
        if low is not None and high is not None and low > high:
            least, most = (f"{end}_{name}" if name else end for end in ("min", "max"))
            raise ValueError(f"{least} is {low}, more than {most}, which is {high}")


def bound_of(side: Side, limits: Limits, unit: str) -> str:
    """``at most 25 words``: the limit itself, for feedback."""
    low, high = limits
    if low == high:
        return f"exactly {count_of(low or 0, unit)}"
    return f"at most {count_of(high or 0, unit)}" if side == "over" else f"at least {count_of(low or 0, unit)}"


def _aim(side: Side, limits: Limits, unit: str) -> str | None:
    """``at most 20 words``: what a rule asks for, well inside the limit. None where this side has no limit."""
    low, high = limits
    if (high if side == "over" else low) is None:
        return None
    aim = aim_below(high or 0, low) if side == "over" else aim_above(low or 0, high)
    if low == high:
        return f"exactly {count_of(aim, unit)}"
    return f"{'at most' if side == 'over' else 'at least'} {count_of(aim, unit)}"


def _outside(limits: Limits, unit: str) -> str:
    """What a negated limit asks for."""
    low, high = limits
    parts = [f"fewer than {low}"] if low is not None and low > 1 else []
    parts += [f"more than {high}"] if high is not None else []
    return f"{' or '.join(parts) or 'no'} {unit}s"


class LengthParams(EvaluatorParams):
    """Limits on words and characters, both ends included. Space around the answer does not count."""

    max_words: int | None = Field(None, ge=1)
    min_words: int | None = Field(None, ge=1)
    max_chars: int | None = Field(None, ge=1)
    min_chars: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.limits:
            raise ValueError("give at least one of 'max_words', 'min_words', 'max_chars' and 'min_chars'")
        refuse_crossed({"words": (self.min_words, self.max_words), "chars": (self.min_chars, self.max_chars)})
        return self

    @property
    def limits(self) -> dict[str, Limits]:
        """By unit, those given."""
        both: dict[str, Limits] = {
            "word": (self.min_words, self.max_words),
            "character": (self.min_chars, self.max_chars),
        }
        return {unit: limits for unit, limits in both.items() if limits != (None, None)}


class Length(TypedEvaluator[LengthParams]):
    """The answer is neither too long nor too short."""

    type_name: ClassVar[str] = "length"
    params_model = LengthParams
    plain_categories = frozenset({"length.too_long", "length.too_short"})
    negated_category = "length.within_limits"
    redacts_feedback = False  # names no value of a sample

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        text = attempt.text.strip()
        counts = {"word": count_words(text), "character": len(text)}
        counts = {unit: counts[unit] for unit in self.params.limits}
        score = min(nearness(count, self.params.limits[unit]) for unit, count in counts.items())
        for unit, count in counts.items():
            limits = self.params.limits[unit]
            side = side_of(count, limits)
            if side is not None:
                bound = bound_of(side, limits, unit)
                category = "length.too_long" if side == "over" else "length.too_short"
                feedback = f"Use {bound} (the answer had {count})."
                return Finding(False, score, f"{count_of(count, unit)}, {bound} wanted", category, feedback)
        return Finding(True, 1.0, join_words([count_of(count, unit) for unit, count in counts.items()], "and"))

    def default_remedy(self, category: str) -> str | None:
        limits = self.params.limits
        if category == self.negated_category:
            return f"Use {join_words([_outside(each, unit) for unit, each in limits.items()], 'or')}."
        side: Side = "over" if category == "length.too_long" else "under"
        aims = [aim for unit, each in limits.items() if (aim := _aim(side, each, unit))]
        return f"Use {join_words(aims, 'and')}." if aims else None


class SentencesParams(EvaluatorParams):
    """Limits on the number of sentences, both ends included."""

    min: int | None = Field(None, ge=1)
    max: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give 'min', 'max' or both")
        refuse_crossed({"": (self.min, self.max)})
        return self


class Sentences(TypedEvaluator[SentencesParams]):
    """The answer has the right number of sentences; a line or list item of its own counts as one."""

    type_name: ClassVar[str] = "sentences"
    params_model = SentencesParams
    plain_categories = frozenset({"sentences.too_few", "sentences.too_many"})
    negated_category = "sentences.within_limits"
    redacts_feedback = False  # names no value of a sample

    @property
    def _limits(self) -> Limits:
        return self.params.min, self.params.max

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        count = len(split_sentences(attempt.text))
        side = side_of(count, self._limits)
        if side is None:
            return Finding(True, 1.0, count_of(count, "sentence"))
        bound = bound_of(side, self._limits, "sentence")
        category = "sentences.too_many" if side == "over" else "sentences.too_few"
        reason = f"{count_of(count, 'sentence')}, {bound} wanted"
        asked = "exactly one sentence" if side == "over" and self.params.max == 1 else bound
        feedback = f"Write {asked} (the answer had {count})."
        return Finding(False, nearness(count, self._limits), reason, category, feedback)

    def default_remedy(self, category: str) -> str | None:
        if category == self.negated_category:
            return f"Write {_outside(self._limits, 'sentence')}."
        over = category == "sentences.too_many"
        if over and self.params.max == 1:
            return "Write exactly one sentence."
        aim = _aim("over" if over else "under", self._limits, "sentence")
        return f"Write {aim}." if aim else None

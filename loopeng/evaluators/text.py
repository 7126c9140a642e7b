"""Evaluators that look for text: contains, regex."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import (
    TARGET,
    EvaluatorParams,
    Finding,
    TypedEvaluator,
    placeholders_in,
    redact,
    render_value,
)
from loopeng.evaluators.wording import join_words, must_contain, name_of, quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample

__all__ = ["Contains", "ContainsParams", "Regex", "RegexParams"]

_Text = Annotated[str, Field(min_length=1)]


class ContainsParams(EvaluatorParams):
    """Text the answer must contain; ``{{ name }}`` stands for a field of the sample or its target."""

    value: _Text | None = Field(None, description="Text that must occur.")
    any: tuple[_Text, ...] | None = Field(None, min_length=1, description="Texts of which one must occur.")
    all: tuple[_Text, ...] | None = Field(None, min_length=1, description="Texts that must all occur.")
    ignore_case: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(each is not None for each in (self.value, self.any, self.all)) != 1:
            raise ValueError("give exactly one of 'value', 'any' and 'all'")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """What to look for, unrendered."""
        return (self.value,) if self.value is not None else self.any or self.all or ()


class Contains(TypedEvaluator[ContainsParams]):
    """The answer contains a text, one of several, or all of them. Score: the share found (``any``: 1 or 0)."""

    type_name: ClassVar[str] = "contains"
    params_model = ContainsParams
    plain_categories = frozenset({"contains.missing"})
    negated_category = "contains.present"

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset().union(*map(placeholders_in, self.params.texts))

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        wanted = {text: render_value(text, sample) for text in self.params.texts}
        if not all(wanted.values()):
            raise ValueError("a text to look for is empty for this sample")
        answer = self._folded(attempt.text)
        found = [text for text, value in wanted.items() if self._folded(value) in answer]
        missing = [text for text in wanted if text not in found]
        passed = bool(found) if self.params.any else not missing
        score = float(passed) if self.params.any else len(found) / len(wanted)
        named = quoted(wanted[text] for text in (found if passed else missing))
        reason = f"{'contains' if passed else 'lacks'} {named}"
        return Finding(passed, score, reason, "contains.missing", self._feedback(sample, attempt, missing))

    def _feedback(self, sample: Sample, attempt: Attempt, missing: list[str]) -> str:
        if any(TARGET in placeholders_in(text) for text in missing):
            return "The expected answer is missing."
        head = "Include one of these: " if self.params.any else "Include "
        return redact(f"{head}{quoted(render_value(text, sample) for text in missing)}.", sample, attempt)

    def _folded(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text)
        return text.casefold() if self.params.ignore_case else text

    def default_remedy(self, category: str) -> str | None:
        texts, params = self.params.texts, self.params
        names = [name_of(text) for text in texts]
        if category == self.negated_category:
            return f"Do not {_negated(texts, together=bool(params.all))}."
        if len(texts) == 1:
            return must_contain(texts[0])
        if params.any:
            return f"Include at least one of these: {', '.join(names)}."
        return f"Include {join_words(names, 'and')}."


def _negated(texts: tuple[str, ...], *, together: bool) -> str:
    names = [name_of(text, plural=True) for text in texts]
    verb = "mention" if all(placeholders_in(text) for text in texts) else "use"
    if together and len(names) > 1:
        return f"{verb} {join_words(names, 'and')} together"
    return f"{verb} {join_words(names, 'or')}"


class RegexParams(EvaluatorParams):
    """A Python regular expression; what ``{{ name }}`` inserts is matched literally."""

    pattern: _Text = Field(description="Searched for in the answer.")
    ignore_case: bool = False
    full: bool = Field(False, description="The whole answer must match, surrounding space aside.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            sample_pattern = re.sub(r"\{\{.*?\}\}", "x", self.pattern)
            re.compile(sample_pattern)
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is not a regular expression: {error}") from None
        return self


class Regex(TypedEvaluator[RegexParams]):
    """The answer matches a regular expression."""

    type_name: ClassVar[str] = "regex"
    params_model = RegexParams
    plain_categories = frozenset({"regex.no_match"})
    negated_category = "regex.match"

    @property
    def placeholders(self) -> frozenset[str]:
        return placeholders_in(self.params.pattern)

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        pattern = render_value(self.params.pattern, sample, escape_regex=True)
        expression = re.compile(pattern, re.IGNORECASE if self.params.ignore_case else 0)
        match = expression.fullmatch(attempt.text.strip()) if self.params.full else expression.search(attempt.text)
        if match:
            return Finding(True, 1.0, f"matches {pattern!r}: {match[0]!r}")
        feedback = self.spec.remedy or "The answer does not have the required form."
        return Finding(False, 0.0, f"does not match {pattern!r}", "regex.no_match", redact(feedback, sample, attempt))

    def default_remedy(self, category: str) -> str | None:
        if self.placeholders:
            return None
        if category == self.negated_category:
            return f"Do not write anything that matches the pattern {self.params.pattern}"
        whole = "Write only text that matches" if self.params.full else "Include text that matches"
        return f"{whole} the pattern {self.params.pattern}"

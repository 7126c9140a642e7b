"""Evaluators that look for text: contains, starts_with, ends_with, regex."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import EvaluatorParams, Finding, TypedEvaluator, placeholders_in, render_value
from loopeng.evaluators.matching import ComparingEvaluator, Text, TextsParams, fold, say_wanted, uses_target
from loopeng.evaluators.wording import join_words, must_contain, name_of, quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample

__all__ = ["Contains", "ContainsParams", "EndsWith", "Regex", "RegexParams", "StartsWith"]


class ContainsParams(TextsParams):
    """Text the answer must contain; ``{{ name }}`` stands for a field of the sample or its target."""

    all: tuple[Text, ...] | None = Field(None, min_length=1, description="Texts that must all occur.")

    @property
    def texts(self) -> tuple[str, ...]:
        return super().texts or self.all or ()

    @property
    def one_is_enough(self) -> bool:
        """Whether one of several texts will do."""
        return self.any is not None or isinstance(self.value, tuple)


def _rendered(texts: tuple[str, ...], sample: Sample) -> Mapping[str, str]:
    """Each text to look for with the sample's fields filled in. Raises ValueError when one is empty."""
    wanted = {text: render_value(text, sample) for text in texts}
    if not all(wanted.values()):
        raise ValueError("a text to look for is empty for this sample")
    return wanted


class Contains(ComparingEvaluator[ContainsParams]):
    """The answer contains a text, one of several, or all. Score: the share found; 1 or 0 where one is enough."""

    type_name: ClassVar[str] = "contains"
    params_model = ContainsParams
    plain_categories = frozenset({"contains.missing"})
    negated_category = "contains.present"

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        wanted, ignore_case = _rendered(self.params.texts, sample), self.params.ignore_case
        answer = fold(attempt.text, ignore_case=ignore_case)
        found = [text for text, value in wanted.items() if fold(value, ignore_case=ignore_case) in answer]
        missing = [text for text in wanted if text not in found]
        passed = bool(found) if self.params.one_is_enough else not missing
        score = float(passed) if self.params.one_is_enough else len(found) / len(wanted)
        named = quoted(wanted[text] for text in (found if passed else missing))
        reason = f"{'contains' if passed else 'lacks'} {named}"
        head = "Include one of these: " if self.params.one_is_enough else "Include "
        feedback = say_wanted(head, missing, sample, unsaid="The expected answer is missing.")
        return Finding(passed, score, reason, "contains.missing", feedback)

    def default_remedy(self, category: str) -> str | None:
        texts, params = self.params.texts, self.params
        names = [name_of(text) for text in texts]
        if category == self.negated_category:
            return f"Do not {_negated(texts, together=bool(params.all))}."
        if len(texts) == 1:
            return must_contain(texts[0])
        if params.one_is_enough:
            return f"Include at least one of these: {', '.join(names)}."
        return f"Include {join_words(names, 'and')}."


def _negated(texts: tuple[str, ...], *, together: bool) -> str:
    names = [name_of(text, plural=True) for text in texts]
    verb = "mention" if all(placeholders_in(text) for text in texts) else "use"
    if together and len(names) > 1:
        return f"{verb} {join_words(names, 'and')} together"
    return f"{verb} {join_words(names, 'or')}"


class _Edge(ComparingEvaluator[TextsParams]):
    """The answer has a text, or one of several, at one of its ends. Space around the answer does not count."""

    params_model = TextsParams
    verb: ClassVar[str]

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        wanted, ignore_case = _rendered(self.params.texts, sample), self.params.ignore_case
        answer = fold(attempt.text.strip(), ignore_case=ignore_case)
        for value in wanted.values():
            if not value.strip():
                raise ValueError("space around the answer does not count, so it cannot be looked for")
            if self._is_at_edge(answer, fold(value.strip(), ignore_case=ignore_case)):
                return Finding(True, 1.0, f"{self.verb.lower()}s with {quoted([value])}")
        head = f"{self.verb} the answer with {'one of these: ' if len(wanted) > 1 else ''}"
        unsaid = f"The answer does not {self.verb.lower()} as it should."
        feedback = say_wanted(head, wanted, sample, unsaid=unsaid)
        reason = f"does not {self.verb.lower()} with {quoted(wanted.values())}"
        return Finding(False, 0.0, reason, f"{self.type_name}.missing", feedback)

    @abstractmethod
    def _is_at_edge(self, answer: str, value: str) -> bool: ...

    def default_remedy(self, category: str) -> str | None:
        names = join_words([name_of(text) for text in self.params.texts], "or")
        if category == self.negated_category:
            return f"Do not {self.verb.lower()} the answer with {names}."
        if uses_target(self.params.texts):
            return f"{self.verb} with the answer that is asked for."
        return f"{self.verb} the answer with {names}."


class StartsWith(_Edge):
    """The answer begins with a text."""

    type_name: ClassVar[str] = "starts_with"
    verb = "Begin"
    plain_categories = frozenset({"starts_with.missing"})
    negated_category = "starts_with.present"

    def _is_at_edge(self, answer: str, value: str) -> bool:
        return answer.startswith(value)


class EndsWith(_Edge):
    """The answer ends with a text."""

    type_name: ClassVar[str] = "ends_with"
    verb = "End"
    plain_categories = frozenset({"ends_with.missing"})
    negated_category = "ends_with.present"

    def _is_at_edge(self, answer: str, value: str) -> bool:
        return answer.endswith(value)


class RegexParams(EvaluatorParams):
    """A Python regular expression; what ``{{ name }}`` inserts is matched literally."""

    pattern: Text = Field(description="Searched for in the answer.")
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
        return Finding(False, 0.0, f"does not match {pattern!r}", "regex.no_match", feedback)

    def default_remedy(self, category: str) -> str | None:
        if self.placeholders:
            return None
        if category == self.negated_category:
            return f"Do not write anything that matches the pattern {self.params.pattern}"
        whole = "Write only text that matches" if self.params.full else "Include text that matches"
        return f"{whole} the pattern {self.params.pattern}"

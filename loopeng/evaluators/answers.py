"""Evaluators that compare an answer with the expected one: exact, answer_line."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import Finding
from loopeng.evaluators.matching import (
    ComparingEvaluator,
    OneOrMore,
    Text,
    ValueParams,
    as_tuple,
    fold,
    line_after,
    say_wanted,
    uses_target,
)
from loopeng.evaluators.wording import join_words, name_of, quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample

__all__ = ["AnswerLine", "AnswerLineParams", "Exact"]

_NOT_EXPECTED = "The answer is not the expected one."


class Exact(ComparingEvaluator[ValueParams]):
    """The answer is the expected value and nothing else.

    Score of a failure: 0.5 where the value stands amid other text or differs in form alone, else 0.
    """

    type_name: ClassVar[str] = "exact"
    params_model = ValueParams
    plain_categories = frozenset({"exact.different", "exact.empty", "exact.extra_text", "exact.form"})
    negated_category = "exact.equal"

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        expected = self.params.expected(sample)
        answer = self.params.folded(attempt.text)
        if answer in expected:
            return Finding(True, 1.0, f"is {quoted([expected[answer]])}")
        if not attempt.text.strip():
            return Finding(False, 0.0, "the answer is empty", "exact.empty", "The answer is empty. Give an answer.")
        if _bare(answer) in {_bare(value) for value in expected} - {""}:
            feedback = "Upper or lower case, spaces or punctuation differ from the expected answer."
            return Finding(False, 0.5, f"differs from {quoted(expected.values())} in form", "exact.form", feedback)
        if any(_holds(answer, value) for value in expected):
            feedback = "Answer with the value alone, without any text around it."
            return Finding(False, 0.5, "text stands around the value", "exact.extra_text", feedback)
        head = f"Answer with exactly {'one of these: ' if len(self.params.texts) > 1 else ''}"
        feedback = say_wanted(head, self.params.texts, sample, unsaid=_NOT_EXPECTED)
        return Finding(False, 0.0, f"is not {quoted(expected.values())}", "exact.different", feedback)

    def default_remedy(self, category: str) -> str | None:
        names = join_words([name_of(text) for text in self.params.texts], "or")
        wanted = "the answer that is asked for" if uses_target(self.params.texts) else names
        return {
            "exact.different": f"Answer with {wanted} and nothing else.",
            "exact.empty": "Always give an answer.",
            "exact.extra_text": "Answer with the value alone, without any text around it.",
            "exact.form": "Keep upper and lower case letters, spaces and punctuation exactly as asked for.",
            self.negated_category: f"Do not answer with {names}.",
        }.get(category)


def _bare(text: str) -> str:
    """``text`` without all that may count as form."""
    return "".join(fold(text, ignore_case=True, ignore_punctuation=True).split())


def _holds(text: str, value: str) -> bool:
    """Whether ``value`` stands in ``text``, not inside a word."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


class AnswerLineParams(ValueParams):
    """Where the answer stands, and what it must be."""

    marker: OneOrMore = Field("Answer:", description="How the line with the answer begins, or a list of such texts.")
    pattern: Text | None = Field(None, description="Instead of a marker: a regular expression with one group.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pattern is None:
            return self
        if "marker" in self.model_fields_set:
            raise ValueError("give 'marker' or 'pattern', not both")
        try:
            num_groups = re.compile(self.pattern).groups
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is not a regular expression: {error}") from None
        if num_groups != 1:
            raise ValueError(f"{self.pattern!r} must have one group (...), around the answer; it has {num_groups}")
        return self


class AnswerLine(ComparingEvaluator[AnswerLineParams]):
    """The answer has a line such as ``Answer: 42``, and what follows the marker is right. The last such line counts.

    A full stop at the end makes no difference. Score of a failure: 0.25 where there is such a line, else 0.
    """

    type_name: ClassVar[str] = "answer_line"
    params_model = AnswerLineParams
    plain_categories = frozenset({"answer_line.missing", "answer_line.wrong"})
    negated_category = "answer_line.right"
    redacts_feedback = False  # names no value of a sample

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        expected = {_without_stop(key): value for key, value in self.params.expected(sample).items()}
        given = self._given(attempt.text)
        if not given:
            reason = "the line with the answer is missing" if given is None else "the line with the answer is empty"
            return Finding(False, 0.0, reason, "answer_line.missing", self._form)
        answer = _without_stop(self.params.folded(given))
        if answer in expected:
            return Finding(True, 1.0, f"the line says {quoted([expected[answer]])}")
        reason = f"the line says {quoted([given])}, not {quoted(expected.values())}"
        return Finding(False, 0.25, reason, "answer_line.wrong", _NOT_EXPECTED)

    def _given(self, text: str) -> str | None:
        """What the answer's line says; None where there is no such line."""
        if self.params.pattern is None:
            return line_after(text, as_tuple(self.params.marker))
        found = [match[1] for match in re.finditer(self.params.pattern, text)]
        return (found[-1] or "").strip() if found else None

    @property
    def _form(self) -> str:
        if self.params.pattern is not None:
            return f"Write a line with the answer that matches the pattern {self.params.pattern}"
        marker = as_tuple(self.params.marker)[0]
        return f'End with a line that begins with "{marker}" and then gives the answer.'

    def default_remedy(self, category: str) -> str | None:
        if category == "answer_line.missing":
            return self._form
        if category == "answer_line.wrong":
            return "Check the answer once more before you write its line."
        names = join_words([name_of(text) for text in self.params.texts], "or")
        return f"Do not give {names} as the answer."


def _without_stop(text: str) -> str:
    return text.removesuffix(".").rstrip() or text

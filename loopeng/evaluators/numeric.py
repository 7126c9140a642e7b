"""Evaluator ``numeric``: the answer gives the expected number, in the place where it is asked for."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import Finding, placeholders_in
from loopeng.evaluators.matching import (
    ComparingEvaluator,
    HasTexts,
    OneOrMore,
    accepted_values,
    as_tuple,
    line_after,
    unfenced,
    uses_target,
)
from loopeng.evaluators.numerals import Number, boxed, numbers_in, read_number
from loopeng.evaluators.wording import join_words, name_of, quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample

__all__ = ["Numeric", "NumericParams"]

_Place = Literal["last", "first", "line", "boxed", "json"]
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_PATH = re.compile(r"\$?(\.?[^.\[\]]+|\[\d+\])(\.[^.\[\]]+|\[\d+\])*")


class NumericParams(HasTexts):
    """The expected number, how near is near enough, and where the answer gives it."""

    value: int | float | OneOrMore = Field("{{ target }}", description="The number, or a list of texts with numbers.")
    abs_tol: float = Field(0.0, ge=0, description="How far off the number may be.")
    rel_tol: float = Field(0.0, ge=0, description="The same as a share of the expected number; the larger one counts.")
    where: _Place | Annotated[tuple[_Place, ...], Field(min_length=1)] = Field(
        "last", description="The place; of several the first that holds a number."
    )
    marker: OneOrMore = Field(("####", "Answer:"), description="where line: how the line with the answer begins.")
    path: str | None = Field(None, description="where json: keys and indices, as in result.totals[0].")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if ("json" in self.places) != (self.path is not None):
            raise ValueError("'path' and where: json go together")
        if self.path is not None and not _PATH.fullmatch(self.path):
            raise ValueError(f"the path {self.path!r} cannot be read: write keys and indices, as in result.totals[0]")
        if "marker" in self.model_fields_set and "line" not in self.places:
            raise ValueError("'marker' needs where: line")
        for text in self.texts:
            if not placeholders_in(text) and read_number(text) is None:
                raise ValueError(f"the value {text!r} is no number")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """``value`` as texts, unrendered."""
        return (str(self.value),) if isinstance(self.value, int | float) else as_tuple(self.value)

    @property
    def places(self) -> tuple[_Place, ...]:
        """``where`` as a list."""
        return (self.where,) if isinstance(self.where, str) else self.where


class Numeric(ComparingEvaluator[NumericParams]):
    """Reads a number from the answer and compares it with the expected one."""

    type_name: ClassVar[str] = "numeric"
    params_model = NumericParams
    plain_categories = frozenset({"numeric.misplaced", "numeric.missing", "numeric.wrong"})
    negated_category = "numeric.equal"
    redacts_feedback = False  # the number in it is the model's own: to hide 18 in 18.5 would give it away

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        expected = self._expected(sample)
        number = self._given(attempt.text)
        if number is None:
            somewhere = bool(numbers_in(attempt.text))
            reason = "no number stands where it is looked for" if somewhere else "there is no number"
            return Finding(False, 0.0, reason, f"numeric.{'misplaced' if somewhere else 'missing'}", self._form)
        near = [each for each in expected if self._is_near(number, each)]
        if near:
            return Finding(True, 1.0, f"{number.shown} is {near[0].shown}")
        reason = f"{quoted([number.shown])} is not {quoted(each.shown for each in expected)}"
        feedback = f"The number {number.shown} is wrong. Check each step."
        return Finding(False, 0.0, reason, "numeric.wrong", feedback)

    def _is_near(self, number: Number, expected: Number) -> bool:
        return number.is_near(expected, abs_tol=self.params.abs_tol, rel_tol=self.params.rel_tol)

    def _expected(self, sample: Sample) -> list[Number]:
        numbers = []
        for value in accepted_values(self.params.texts, sample):
            number = read_number(value)
            if number is None:
                raise ValueError(f"the expected value {value!r} is no number")
            numbers.append(number)
        return numbers

    def _given(self, text: str) -> Number | None:
        """The number in the first place that holds one."""
        for place in self.params.places:
            number = self._number_at(place, text)
            if number is not None:
                return number
        return None

    def _number_at(self, place: _Place, text: str) -> Number | None:
        if place == "json":
            return _json_number(text, self.params.path or "")
        if place == "line":
            rest = line_after(text, as_tuple(self.params.marker)) or ""
            return _first(numbers_in(rest.rpartition("=")[2]))  # "Answer: 3 * 6 = 18"
        numbers = numbers_in((boxed(text) or "") if place == "boxed" else text)
        return _first(numbers if place == "first" else numbers[::-1])

    @property
    def _form(self) -> str:
        marker = as_tuple(self.params.marker)[0]
        return {
            "last": "End the answer with the number that is asked for.",
            "first": "Begin the answer with the number that is asked for.",
            "line": f'End with a line that begins with "{marker}" and then gives the number.',
            "boxed": "Write the final number as \\boxed{...}, with the number between the braces.",
            "json": f"Answer with JSON that has the number at {quoted([self.params.path or ''])}.",
        }[self.params.places[0]]

    def default_remedy(self, category: str) -> str | None:
        if category == self.negated_category:
            names = [name_of(text) for text in self.params.texts] if self._is_template else list(self.params.texts)
            return f"Do not answer with {join_words(names, 'or')}."
        if category == "numeric.wrong":
            return "Work step by step, and check each step before you give the number."
        return self._form

    @property
    def _is_template(self) -> bool:
        return uses_target(self.params.texts) or bool(self.placeholders)


def _first(numbers: list[Number]) -> Number | None:
    return numbers[0] if numbers else None


def _json_number(text: str, path: str) -> Number | None:
    """The number at ``path`` in an answer that is JSON, a ``` block around it aside."""
    try:
        value: Any = json.loads(unfenced(text), parse_int=str, parse_float=str)
        for key, index in _STEP.findall(path.removeprefix("$")):
            kind = list if index else dict
            if not isinstance(value, kind):  # the numbers are texts here, of which an index would take a digit
                return None
            value = value[int(index) if index else key]
    except (ValueError, RecursionError, LookupError):
        return None
    return read_number(value) if isinstance(value, str) else None

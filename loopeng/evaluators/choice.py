"""Evaluator ``choice``: the answer names one of the options, by its label or its text, and it is the right one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import EvaluatorParams, Finding, TypedEvaluator, placeholders_in
from loopeng.evaluators.matching import OneOrMore, Text, accepted_values, as_tuple, fold
from loopeng.evaluators.wording import join_words, name_of, quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample

__all__ = ["Choice", "ChoiceParams"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORDS_TOO = frozenset("AI")  # alone these are words as often as labels
_FINAL = re.compile(r"\b(?:answer|option|choice)\b[*_]*(?:\s+is|\s*:|\s*=)[*_]*:?\s*(.*)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_OPENING, _CLOSING = r"[\s*_`(\[\"'“‘]*+", r"[*_`)\]\"'”’]"
_JOINING = r"\s*(?:,?\s*\b(?:or|and)\b|[/&])"


class ChoiceParams(EvaluatorParams):
    """The options, and which of them is right."""

    choices: Annotated[tuple[Text, ...], Field(min_length=2, max_length=26)] | None = Field(
        None, description="The options' texts, in order."
    )
    field: Text | None = Field(None, description="Instead: the sample's field that holds the list of options.")
    value: OneOrMore = Field("{{ target }}", description="The right option, its label or its text; or a list of them.")
    labels: Literal["letters", "numbers"] = Field("letters", description="A, B, C ... or 1, 2, 3 ...")
    ignore_case: bool = Field(True, description="Of the options' texts.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.choices is None) == (self.field is None):
            raise ValueError("give exactly one of 'choices' and 'field'")
        if self.choices is not None:
            _Options(self.choices, self.labels, self.ignore_case)
        return self


class _Options:
    """The options of one sample: finds those that a text names. Raises ValueError when they cannot be told apart."""

    def __init__(self, texts: Sequence[str], labels: str, ignore_case: bool) -> None:
        self.ignore_case = ignore_case
        self.labels = [_LETTERS[i] if labels == "letters" else str(i + 1) for i in range(len(texts))]
        self.by_text = {self.fold(text): i for i, text in enumerate(texts)}
        if len(self.by_text) < len(texts) or "" in self.by_text:
            raise ValueError("two options are the same, or one is empty")
        self.by_label = {label.casefold(): i for i, label in enumerate(self.labels)}
        for text, i in self.by_text.items():
            if self.by_label.get(text.casefold(), i) != i:
                raise ValueError(f"the option {texts[i]!r} is the label of another option")
        own = [text for text, i in self.by_text.items() if text.casefold() != self.labels[i].casefold()]
        either = "|".join(map(re.escape, sorted(own, key=len, reverse=True))) or "(?!)"
        self._text = rf"(?<!\w)(?<!\d[.,])(?:{either})(?!\w|[.,]\d)"
        self._label = re.compile(self._label_in_prose())
        first = rf"(?:({self._text})|({self._label_at_start()}))(?!\s*[-+×*/=^]\s*\d)"  # "3 + 1 = 4" begins with none
        self._first = re.compile(rf"{_OPENING}{first}{_CLOSING}*+", self._flags)
        self._joining = re.compile(rf"{_JOINING}|,(?=(?:{self._first.pattern},?)+{_JOINING})", self._flags)
        self._its_text = re.compile(rf"[.:,]?\s+({self._text}){_CLOSING}*+(?=\s*(?:$|[.,;!]))", self._flags)

    def fold(self, text: str) -> str:
        return fold(text.strip(), ignore_case=self.ignore_case)

    @property
    def _flags(self) -> int:
        return re.IGNORECASE if self.ignore_case else 0

    def _label_at_start(self) -> str:
        """A label in either case; A, I and numbers only where a mark, the end or a reason follows: no "a cat"."""
        clear = "|".join(label for label in self.labels if label.isalpha() and label not in _WORDS_TOO) or "(?!)"
        words = "|".join(label for label in self.labels if label in _WORDS_TOO) or "(?!)"
        numbers = "|".join(label for label in self.labels if label.isdigit()) or "(?!)"
        marked = rf"{_CLOSING}|\s*(?:$|[.,;:!?–—]|{_JOINING}|(?:because|since|which)\b)"
        sure = rf"(?-i:{words})(?={marked}|\s+(?:as|for)\b)|(?i:{words}|{numbers})(?={marked})"
        return rf"(?:(?i:{clear})|{sure})(?![\w+#-]|['’.,]\w)"

    def _label_in_prose(self) -> str:
        """A label after a word such as option, before a mark, or alone: A and I at the end or beside "or" only."""
        every = "|".join(self.labels)
        letters = [label for label in self.labels if label.isalpha()]
        alone = "|".join(label for label in letters if label not in _WORDS_TOO) or "(?!)"
        words = "|".join(label for label in letters if label in _WORDS_TOO) or "(?!)"
        marked = rf"(?i:option|choice|answer)\s+[*(]{{0,3}}({every})(?!\w)"
        enclosed = rf"(?<![\w.,])({every})(?:[):*]|\.(?=\s|$))"
        before = r"(?<![\w'’.,-])"
        listed = rf"{before}({words})(?=,?\s*$|,?\s+(?:or|and)\s+[A-Z](?!\w))|\b(?:or|and)\s+({words})(?![\w'’])"
        return rf"{marked}|{enclosed}|{before}({alone})(?![\w'’+#-]|\.\w)|{listed}"

    def named(self, text: str) -> set[int]:
        """The options that ``text`` names; what follows a last "the answer is" decides where it names one."""
        final = _FINAL.findall(text)
        stated = (self._stated(fold(final[-1])) or self._named_in(final[-1])) if final else set()
        return stated or self._named_in(text)

    def _stated(self, text: str) -> set[int]:
        """The option that ``text`` begins with, and those joined to it by "or"; others may stand in its reasons."""
        found, place = set[int](), 0
        while match := self._first.match(text, place):
            its_text = self._its_text.match(text, match.end()) if match[2] else None
            found.update(self._indices([match[1] or match[2], its_text[1] if its_text else ""]))
            joining = self._joining.match(text, (its_text or match).end())
            if joining is None:
                break
            place = joining.end()
        return found

    def _named_in(self, text: str) -> set[int]:
        if self.fold(text) in self.by_text:
            return {self.by_text[self.fold(text)]}
        words = _WORD.findall(text)
        if len(words) == 1 and words[0].casefold() in self.by_label:
            return {self.by_label[words[0].casefold()]}
        # Labels are looked for as written: a folded text has no capital letters to go by.
        found = {self.by_text[each] for each in re.findall(self._text, self.fold(text))}
        for groups in self._label.findall(self._without_texts(text)):
            found.add(self.by_label["".join(groups).casefold()])
        return found

    def _without_texts(self, text: str) -> str:
        """``text`` without the options' texts: vitamin C is no label."""
        return re.sub(self._text, " _ ", fold(text), flags=self._flags)

    def _indices(self, values: Sequence[str]) -> set[int]:
        found = [self.by_text.get(self.fold(value), self.by_label.get(value.casefold())) for value in values]
        return {index for index in found if index is not None}

    def index_of(self, value: str) -> int:
        """The option that ``value`` is the text or the label of. Raises ValueError."""
        for index in self._indices([value]):
            return index
        raise ValueError(f"the expected value {value!r} is neither the label nor the text of an option")


class Choice(TypedEvaluator[ChoiceParams]):
    """The answer names one option and it is the right one."""

    type_name: ClassVar[str] = "choice"
    params_model = ChoiceParams
    plain_categories = frozenset({"choice.ambiguous", "choice.none", "choice.wrong"})
    negated_category = "choice.right"
    redacts_feedback = False  # names no value of a sample

    @property
    def placeholders(self) -> frozenset[str]:
        field = frozenset() if self.params.field is None else frozenset({self.params.field})
        return field.union(*map(placeholders_in, as_tuple(self.params.value)))

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        options = _Options(self._texts(sample), self.params.labels, self.params.ignore_case)
        right = {options.index_of(value) for value in accepted_values(as_tuple(self.params.value), sample)}
        named = options.named(attempt.text)
        labels = quoted(options.labels[i] for i in sorted(named))
        if not named:
            return Finding(False, 0.0, "names no option", "choice.none", self._form)
        if len(named) > 1:
            feedback = "The answer names more than one option. Name only the one you choose."
            return Finding(False, 0.0, f"names the options {labels}", "choice.ambiguous", feedback)
        if named <= right:
            return Finding(True, 1.0, f"names the option {labels}")
        wanted = quoted(options.labels[i] for i in sorted(right))
        feedback = "The option that the answer names is wrong."
        return Finding(False, 0.0, f"names the option {labels}, not {wanted}", "choice.wrong", feedback)

    def _texts(self, sample: Sample) -> Sequence[str]:
        if self.params.choices is not None:
            return self.params.choices
        options: Any = sample.inputs.get(self.params.field or "")
        if not isinstance(options, list | tuple) or not 2 <= len(options) <= len(_LETTERS):
            raise ValueError(f"the field {self.params.field!r} must hold a list of 2 to {len(_LETTERS)} options")
        return [str(option) for option in options]

    @property
    def _form(self) -> str:
        return f"Answer with the {self.params.labels.removesuffix('s')} or the text of one option."

    def default_remedy(self, category: str) -> str | None:
        right = as_tuple(self.params.value)
        return {
            "choice.ambiguous": "Name one option only. Do not mention the others.",
            "choice.none": self._form,
            "choice.wrong": "Compare all options before you choose one.",
            self.negated_category: f"Do not choose {join_words([name_of(each) for each in right], 'or')}.",
        }.get(category)

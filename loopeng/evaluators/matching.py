"""How texts are compared, in one place: folding, the values that count as right, and what stands around an answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from loopeng.evaluators.base import TARGET, EvaluatorParams, TypedEvaluator, placeholders_in, render_value
from loopeng.evaluators.wording import join_words, quoted
from loopeng.schema import Sample

__all__ = [
    "ComparingEvaluator",
    "FencedParams",
    "HasTexts",
    "OneOrMore",
    "Text",
    "TextsParams",
    "ValueParams",
    "accepted_values",
    "as_tuple",
    "fold",
    "line_after",
    "say_wanted",
    "unfenced",
    "uses_target",
]

Text = Annotated[str, Field(min_length=1)]


def _not_empty(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if not value:
        raise ValueError("must not be empty")
    return value


OneOrMore = Annotated[Text | tuple[Text, ...], AfterValidator(_not_empty)]

_TARGET_ALONE = re.compile(r"\s*\{\{\s*target\s*\}\}\s*")
_FENCED = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)
_SOURCES = ("value", "any", "all")


class HasTexts(EvaluatorParams):
    """Parameters with texts that the answer is compared with."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts, unrendered."""
        return ()


T = TypeVar("T", bound=HasTexts)


class ComparingEvaluator(TypedEvaluator[T]):
    """An evaluator whose texts alone may refer to the sample."""

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset().union(*map(placeholders_in, self.params.texts))


class FencedParams(EvaluatorParams):
    """Parameters of a format that may stand in a ``` block."""

    allow_fences: bool = Field(False, description="Accept one ``` block around the answer.")

    def document_in(self, text: str) -> str:
        """The answer, out of its block where that is allowed. Space around it does not count."""
        return (unfenced(text) if self.allow_fences else text).strip()


class ValueParams(HasTexts):
    """The values that count as right, and what makes no difference. Space around an answer never does."""

    value: OneOrMore = Field("{{ target }}", description="The expected value, or a list of which any is right.")
    ignore_case: bool = False
    collapse_space: bool = Field(False, description="Any run of spaces and line breaks counts as one space.")
    ignore_punctuation: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """``value`` as a list, unrendered."""
        return as_tuple(self.value)

    def folded(self, text: str) -> str:
        """``text`` without what makes no difference."""
        return fold(
            text,
            ignore_case=self.ignore_case,
            collapse_space=self.collapse_space,
            ignore_punctuation=self.ignore_punctuation,
        ).strip()

    def expected(self, sample: Sample) -> dict[str, str]:
        """The values that count as right, by their folded text. Raises ValueError when one of them is empty."""
        values = {self.folded(value): value for value in accepted_values(self.texts, sample)}
        if "" in values:
            raise ValueError(f"the expected value {values['']!r} holds nothing that is compared")
        return values


class TextsParams(HasTexts):
    """Text to look for; ``{{ name }}`` stands for a field of the sample or its target."""

    value: OneOrMore | None = Field(None, description="The text, or a list of which one is enough.")
    any: tuple[Text, ...] | None = Field(None, min_length=1, description="Texts of which one is enough.")
    ignore_case: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [name for name in _SOURCES if name in type(self).model_fields]
        if sum(getattr(self, name) is not None for name in names) != 1:
            raise ValueError(f"give exactly one of {join_words([repr(name) for name in names], 'and')}")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """What to look for, unrendered."""
        return as_tuple(self.value) if self.value is not None else self.any or ()


def as_tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """One text or several, as several."""
    return (value,) if isinstance(value, str) else value


def fold(
    text: str, *, ignore_case: bool = False, collapse_space: bool = False, ignore_punctuation: bool = False
) -> str:
    """``text`` as it is compared: letters in one encoding, and without what makes no difference.

    >>> fold("Hello,  World!", ignore_case=True, collapse_space=True, ignore_punctuation=True)
    'hello world'
    """
    text = unicodedata.normalize("NFC", text)
    if ignore_punctuation:
        text = "".join(each for each in text if not unicodedata.category(each).startswith("P"))
    if collapse_space:
        text = " ".join(text.split())
    return unicodedata.normalize("NFC", text.casefold()) if ignore_case else text


def accepted_values(texts: Sequence[str], sample: Sample) -> tuple[str, ...]:
    """``texts`` with the sample's fields filled in; a ``{{ target }}`` that is a list stands for each of its items.

    Raises ValueError when one is empty or there is none: the evaluator cannot judge this sample.
    """
    values: list[str] = []
    for text in texts:
        if _TARGET_ALONE.fullmatch(text) and isinstance(sample.target, list | tuple):
            values += ["" if item is None else str(item).strip() for item in sample.target]
        else:
            values.append(render_value(text, sample).strip())
    if not values or not all(values):
        raise ValueError("an expected value is empty for this sample")
    return tuple(values)


def uses_target(texts: Iterable[str]) -> bool:
    """Whether one of ``texts`` takes the sample's target."""
    return any(TARGET in placeholders_in(text) for text in texts)


def say_wanted(head: str, texts: Iterable[str], sample: Sample, *, unsaid: str) -> str:
    """Feedback that names the texts; ``unsaid`` instead where one of them is the target."""
    texts = tuple(texts)
    return unsaid if uses_target(texts) else f"{head}{quoted(render_value(text, sample) for text in texts)}."


def unfenced(text: str) -> str:
    """What stands in the one ``` block that is all of ``text``; ``text`` where it is not so, or the block is empty."""
    found = _FENCED.fullmatch(text.strip())
    return (found[1] if found else "") or text


def line_after(text: str, markers: Iterable[str]) -> str | None:
    """What follows the marker on the last line that begins with one; the next line where nothing follows.

    Upper and lower case, bold marks, headings and bullets make no difference.

    >>> line_after("So 6 times 7.\\n**Answer:** 42", ["####", "Answer:"])
    '42'
    """
    marked = "|".join(re.escape(marker).replace(":", "[*_]*:") for marker in markers)
    pattern = re.compile(rf"[\s>*_`•-]*(?:#+\s+[*_`]*)?(?:{marked})[*_`]*(.*)", re.IGNORECASE)
    lines = [line for line in text.splitlines() if line.strip()]
    for index in range(len(lines) - 1, -1, -1):
        if found := pattern.match(lines[index]):
            rest = found[1].strip().strip("*`").strip()
            following = lines[index + 1].strip().strip("*`").strip() if index + 1 < len(lines) else ""
            return rest or following
    return None

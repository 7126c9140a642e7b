"""What one instruction of IFEval is: an id, a check, the arguments it takes, and how it is said to a model."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, create_model

from loopeng.evaluators.base import EvaluatorParams
from loopeng.evaluators.wording import quoted
from loopeng.validation import key_path, validated

__all__ = ["Count", "Instruction", "Letter", "Relation", "Text", "Word", "Words", "as_pattern", "holds"]

Count = Annotated[int, Field(ge=0)]
Relation = Literal["less than", "at least"]
Text = Annotated[str, StringConstraints(min_length=1)]
Word = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Words = Annotated[list[Text], Field(min_length=1)]
Letter = Annotated[str, StringConstraints(min_length=1, max_length=1, pattern=r"\S")]


def holds(count: int, relation: Relation, limit: int) -> bool:
    """The two relations there are.

    >>> holds(3, "less than", 3), holds(3, "at least", 3)
    (False, True)
    """
    return count < limit if relation == "less than" else count >= limit


def as_pattern(text: str) -> str:
    """``text`` as the regular expression that the public definition takes it for, or literally where it is none.

    >>> as_pattern("colou?r"), as_pattern("(a")
    ('colou?r', '\\\\(a')
    """
    try:
        re.compile(text)
    except re.error:
        return re.escape(text)
    return text


@dataclass(frozen=True)
class Instruction:
    """``check(response, **arguments)`` says whether a response follows it; its docstring is the public definition.

    ``demand`` states it to a model, ``{name}`` being an argument; ``remedy`` is the rule for a prompt, without any.
    """

    id: str
    check: Callable[..., bool]
    demand: str
    remedy: str
    needs_language: bool = False  # the check has to detect a language
    names: Mapping[str, str] = field(default_factory=dict)  # what to call a value in the demand

    @property
    def category(self) -> str:
        """What a failure is filed under: ``ifeval.<family>.<name>``."""
        return f"ifeval.{self.id.replace(':', '.')}"

    @cached_property
    def _arguments_model(self) -> type[EvaluatorParams]:
        parameters = list(inspect.signature(self.check, eval_str=True).parameters.values())[1:]
        fields: dict[str, Any] = {each.name: (each.annotation, ...) for each in parameters}
        return create_model(f"{self.check.__name__}_arguments", __base__=EvaluatorParams, **fields)

    def arguments(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """``kwargs`` as the check takes them; those that are null count as not given. Raises ValueError."""
        checked = validated(self._arguments_model, {key: value for key, value in kwargs.items() if value is not None})
        if isinstance(checked, list):
            where = key_path(checked[0].loc)
            raise ValueError(f"instruction {self.id!r}: {where + ': ' if where else ''}{checked[0].message}")
        return checked.model_dump()

    def stated(self, arguments: Mapping[str, Any]) -> str:
        """The demand with its values, as one plain sentence."""
        shown = {key: quoted(value) if isinstance(value, list) else value for key, value in arguments.items()}
        return self.demand.format(**{key: self.names.get(str(value), value) for key, value in shown.items()})

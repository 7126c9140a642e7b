"""Criteria: what an answer is judged by, one verdict each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import EvaluatorParams, placeholders_in
from loopeng.evaluators.judge.replies import MalformedReplyError, object_schema, read_object

__all__ = ["Criterion", "Ruling", "read_ruling", "reply_form", "reply_schema", "sentence"]

_Value = str | int
_DEFAULT_PASSING = 4


class Criterion(EvaluatorParams):
    """One thing an answer is judged by. Its id is the category of a failure: ``judge.<id>``."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="Short name, such as polite.")
    description: str = Field(min_length=1, description="What must be so, as a sentence about the answer.")
    scale: Literal["pass/fail", "1-5"] = "pass/fail"
    passing: int | None = Field(None, ge=2, le=5, description="Scale 1-5: the least value that passes; default 4.")
    weight: float = Field(1.0, gt=0)
    remedy: str | None = Field(None, description="The rule that would prevent a failure.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.passing is not None and self.scale == "pass/fail":
            raise ValueError("'passing' goes with scale: 1-5")
        if self.remedy is not None and "{{" in self.remedy:
            raise ValueError("a remedy becomes a rule, which holds no {{ name }}")
        return self

    @property
    def values(self) -> tuple[_Value, ...]:
        """What a judge may say."""
        return ("pass", "fail") if self.scale == "pass/fail" else (1, 2, 3, 4, 5)

    def passes(self, value: _Value) -> bool:
        """Whether a value is a pass; ``pass`` and ``fail`` may stand for values of any scale."""
        return value == "pass" if isinstance(value, str) else value >= (self.passing or _DEFAULT_PASSING)

    @property
    def rule(self) -> str | None:
        """The remedy; None where there is none but a description that names a sample's fields."""
        if self.remedy is not None:
            return self.remedy
        return None if placeholders_in(self.description) else f"Make sure of this: {sentence(self.description)}"


@dataclass(frozen=True)
class Ruling:
    """One reply of a judge: a value for every criterion."""

    values: dict[str, _Value]
    reasoning: str = ""


def sentence(text: str) -> str:
    """One line that ends like a sentence.

    >>> sentence(" The answer\\n is polite")
    'The answer is polite.'
    """
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", "…", ":")) else f"{line}."


def reply_schema(criteria: Sequence[Criterion], *, reasoning: bool) -> dict[str, Any]:
    """The JSON Schema of a ruling."""
    verdicts = object_schema({each.id: {"enum": list(each.values)} for each in criteria})
    return object_schema({"verdicts": verdicts}, reasoning=reasoning)


def reply_form(criteria: Sequence[Criterion], *, reasoning: bool) -> str:
    """The form of a ruling, shown to the judge."""
    head = '"reasoning": "<why, in one or two sentences>", ' if reasoning else ""
    values = {"pass/fail": '"<pass or fail>"', "1-5": "<1 to 5, 5 is best>"}
    verdicts = ", ".join(f'"{each.id}": {values[each.scale]}' for each in criteria)
    return f'{{{head}"verdicts": {{{verdicts}}}}}'


def read_ruling(text: str, criteria: Sequence[Criterion]) -> Ruling:
    """The reply of a judge. Raises MalformedReplyError, which names criteria and quotes nothing of the reply."""
    value, reasoning = read_object(text)
    verdicts = value.get("verdicts")
    if value.keys() != {"verdicts"} or not isinstance(verdicts, dict):
        raise MalformedReplyError('it has other keys than "reasoning" and "verdicts", or no object under "verdicts"')
    names = [each.id for each in criteria]
    if missing := [name for name in names if name not in verdicts]:
        raise MalformedReplyError(f"there is no verdict on {', '.join(missing)}")
    if len(verdicts) > len(names):
        raise MalformedReplyError(f"there are verdicts on other things than {', '.join(names)}")
    for each in criteria:
        given = verdicts[each.id]
        if type(given) not in (str, int) or given not in each.values:  # true is no 1 here, nor is 4.0 a 4
            raise MalformedReplyError(f"the verdict on {each.id} is none of {', '.join(map(str, each.values))}")
    return Ruling({name: verdicts[name] for name in names}, reasoning)

"""What is taken out of texts before anything is written: to the database, its log, or the records that wait for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopeng.schema import Attempt, EvalResult, Sample

__all__ = ["REDACTED", "Redactor"]

REDACTED = "[redacted]"


class Redactor:
    """Redacts by regular expressions, or by a function from text to text.

    >>> redactor = Redactor([r"\\d{4,}"])
    >>> redactor.value({"card": 12345678, "name": ["ana", "pin 0000"], "size": 3})
    {'card': '[redacted]', 'name': ['ana', 'pin [redacted]'], 'size': 3}
    """

    def __init__(self, rule: Sequence[str] | Callable[[str], str] = ()) -> None:
        self._function = rule if callable(rule) else _replacing(rule)

    def text(self, text: str) -> str:
        """Raises TypeError where the user's function gives no text, and whatever it raises."""
        redacted = self._function(text)
        if not isinstance(redacted, str):
            raise TypeError(f"the function that redacts gave {type(redacted).__name__}, not text")
        return redacted

    def value(self, value: Any) -> Any:
        """Nested values of JSON; the names in mappings too, and numbers, whose digits may be a secret.

        What JSON does not know becomes text.
        """
        if isinstance(value, Mapping):
            return {self.text(_clean(str(name))): self.value(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        if value is None or isinstance(value, bool):
            return value
        text = _clean(value if isinstance(value, str) else str(value))
        redacted = self.text(text)
        is_number = isinstance(value, int | float) and value == value and abs(value) != float("inf")
        return value if is_number and redacted == text else redacted

    def inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """An input as it is stored. Its own names stay, as the prompt's template needs them."""
        return {_clean(name): self.value(value) for name, value in inputs.items()}

    def attempt(self, attempt: Attempt) -> Attempt:
        """An attempt as it is stored. Tokens spell the text out, so they go where anything of it goes."""
        text = self.text(attempt.text)
        changes = {
            "text": text,
            "token_ids": attempt.token_ids if text == attempt.text else None,
            "finish_reason": self._optional(attempt.finish_reason),
            "messages": tuple(
                each.model_copy(update={"content": self.text(each.content)}) for each in attempt.messages
            ),
            "trajectory": self.value(attempt.trajectory),
            "error": self._optional(attempt.error),
            "results": tuple(map(self._result, attempt.results)),
        }
        return attempt.model_copy(update=changes)

    def sample(self, sample: Sample) -> Sample:
        """A sample as it is stored."""
        return sample.model_copy(update={"inputs": self.inputs(sample.inputs)})

    def _result(self, result: EvalResult) -> EvalResult:
        changes = {
            "reason": self.text(result.reason),
            "feedback": self.text(result.feedback),
            "remedy": self._optional(result.remedy),
            "error": self._optional(result.error),
            "metadata": self.value(result.metadata),
        }
        return result.model_copy(update=changes)

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)


def _replacing(patterns: Sequence[str]) -> Callable[[str], str]:
    compiled = [re.compile(pattern) for pattern in patterns]

    def replace(text: str) -> str:
        for pattern in compiled:
            text = pattern.sub(REDACTED, text)
        return text

    return replace


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate can be neither stored nor hashed

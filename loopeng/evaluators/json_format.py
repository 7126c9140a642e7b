"""Evaluator ``json``: the answer is one JSON value and nothing else."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.evaluators.base import Finding, TypedEvaluator
from loopeng.evaluators.matching import FencedParams
from loopeng.evaluators.wording import join_words, quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample

__all__ = ["JsonFormat", "JsonParams", "read_json"]

_MAX_STARTS = 20
_KINDS: dict[str, type] = {"object": dict, "array": list}  # by their names in a schema too


class JsonParams(FencedParams):
    """What the JSON value must be."""

    root: Literal["object", "array", "any"] | None = Field(None, description="Default: object if keys are required.")
    required: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), description="Keys the object must have.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.required and self.root in ("array", "any"):
            raise ValueError("'required' needs root: object")
        return self

    @property
    def kind(self) -> str:
        """``root`` with its default."""
        return self.root or ("object" if self.required else "any")


class JsonFormat(TypedEvaluator[JsonParams]):
    """Parses the answer. Score of a failure: 0.5 for good JSON amid other text, the share of keys present, else 0."""

    type_name: ClassVar[str] = "json"
    params_model = JsonParams
    plain_categories = frozenset({"json.extra_text", "json.missing_key", "json.parse", "json.wrong_type"})
    negated_category = "json.present"
    redacts_feedback = False  # names no value of a sample

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        value = read_json(self.params.document_in(attempt.text), self.params.kind)
        if isinstance(value, Finding):
            return value
        return self._check_value(value)

    def _check_value(self, value: Any) -> Finding:
        if not isinstance(value, _KINDS.get(self.params.kind, object)):
            reason = f"the JSON is {_kind(value)}, not an {self.params.kind}"
            return Finding(False, 0.0, reason, "json.wrong_type", f"Answer with a JSON {self.params.kind}.")
        if not isinstance(value, dict):
            return Finding(True, 1.0, f"is JSON: {_kind(value)}")
        missing = [key for key in self.params.required if key not in value]
        if missing:
            score = 1 - len(missing) / len(self.params.required)
            feedback = f"Include the JSON key{'s' * (len(missing) > 1)} {quoted(missing)}."
            return Finding(False, score, f"lacks {quoted(missing)}", "json.missing_key", feedback)
        return Finding(True, 1.0, "is JSON as wanted")

    def default_remedy(self, category: str) -> str | None:
        keys = join_words([f'"{key}"' for key in self.params.required], "and")
        kind = "value" if self.params.kind == "any" else self.params.kind
        return {
            "json.parse": f"Answer with one valid JSON {kind}.",
            "json.extra_text": f"Answer with the JSON {kind} only, without any text or ``` around it.",
            "json.wrong_type": f"Answer with one JSON {kind}.",
            "json.missing_key": f"The JSON object must have the keys {keys}.",
            self.negated_category: "Do not answer in JSON.",
        }.get(category)


class _TwinKeysError(ValueError):
    """Readers of JSON refuse them or lose a value."""


def read_json(text: str, kind: str) -> Any:
    """The answer's value; the finding where the answer is not JSON and nothing else, which should be a ``kind``."""
    try:
        return json.loads(text, **_STRICT)
    except _TwinKeysError as error:
        return Finding(False, 0.0, f"not JSON: {error}", "json.parse", "Answer with valid JSON. Use each key once.")
    except (ValueError, RecursionError) as error:
        if _holds_json(text, _KINDS.get(kind, object)):
            feedback = "Answer with the JSON only, without any text or ``` around it."
            return Finding(False, 0.5, "text stands around the JSON", "json.extra_text", feedback)
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        return Finding(False, 0.0, f"not JSON: {reason}", "json.parse", "Answer with valid JSON.")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise _TwinKeysError(f"the key {quoted([twice])} stands twice in one object")
    return value


_STRICT: dict[str, Any] = {"parse_constant": _refuse_constant, "object_pairs_hook": _refuse_twins}


def _holds_json(text: str, wanted: type) -> bool:
    """Whether an object or array as wanted stands somewhere in the text; looks at the first few brackets."""
    decoder = json.JSONDecoder(**_STRICT)
    for match in [*re.finditer(r"[\[{]", text)][:_MAX_STARTS]:
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if value and isinstance(value, wanted):
            return True
    return False


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "true or false" if value is not None else "null"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return "a text" if isinstance(value, str) else "a number"

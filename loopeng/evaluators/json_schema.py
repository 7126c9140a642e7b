"""Evaluator ``json_schema``: the answer is one JSON value and nothing else, and a JSON Schema allows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from loopeng.errors import TaskError
from loopeng.evaluators.base import Finding, TypedEvaluator, redact
from loopeng.evaluators.json_format import read_json
from loopeng.evaluators.matching import FencedParams
from loopeng.evaluators.schema_rules import Break, SchemaRules
from loopeng.evaluators.schema_wording import extra_keys, missing_keys, reason_of, sentence_of
from loopeng.evaluators.wording import quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, EvaluatorSpec, Sample

__all__ = ["JsonSchema", "JsonSchemaParams", "json_schema_evaluator"]

_MAX_TOLD = 3  # broken rules in one feedback
_MAX_KEPT = 20  # in the metadata
_MAX_DEPTH = 50  # of an answer: the library calls itself several times for each level


class JsonSchemaParams(FencedParams):
    """The schema; of draft 2020-12, or what its ``$schema`` says."""

    schema_: dict[str, Any] | None = Field(None, alias="schema", description="The schema itself.")
    file: str | None = Field(None, min_length=1, description="Or a .json file with it, relative to the task file.")
    check_formats: bool = Field(False, description="Check 'format' too, which by itself only describes.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.schema_ is None) == (self.file is None):
            raise ValueError("give exactly one of 'schema' and 'file'")
        return self


class JsonSchema(TypedEvaluator[JsonSchemaParams]):
    """A failure's category is the first rule of the schema that the answer breaks, in the order of the schema.

    Score of a failure: the share of the schema's rules that are kept; 0.5 for JSON amid other text, 0 for none.
    """

    type_name: ClassVar[str] = "json_schema"
    params_model = JsonSchemaParams
    plain_categories = frozenset({"json.extra_text", "json.parse"})  # and one for each rule of the schema
    negated_category = "json.schema_matches"
    redacts_feedback = False  # the schema is no secret: to hide one value of an enum would give it away

    def __init__(self, spec: EvaluatorSpec, params: JsonSchemaParams, schema: dict[str, Any]) -> None:
        super().__init__(spec, params)
        self.schema = schema
        self._rules = SchemaRules(schema, check_formats=params.check_formats)

    @property
    def categories(self) -> frozenset[str]:
        return super().categories if self.spec.negate else self.plain_categories | self._rules.by_category.keys()

    @property
    def reference(self) -> dict[str, Any] | None:
        """With the schema in it: another process may have no such file."""
        return {**self.spec.model_dump(mode="json", exclude={"file", "self_tests"}), "schema": self.schema}

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        value = read_json(self.params.document_in(attempt.text), str(self.schema.get("type", "any")))
        if isinstance(value, Finding):
            return value
        if _is_deeper(value, _MAX_DEPTH):
            return Finding(False, 0.0, "nested too deeply", "json.parse", "Answer with simpler JSON.")
        try:
            broken = self._rules.broken_by(value)
        except OverflowError:  # 1e999: infinite as a float, and no multiple of anything
            return Finding(False, 0.0, "a number is too large", "json.parse", "Answer with smaller numbers.")
        if not broken:
            return Finding(True, 1.0, "is JSON as the schema wants it")
        score = 1 - len(broken) / len(self._rules.by_category)
        feedback = " ".join(dict.fromkeys(_told(each, sample, attempt) for each in broken[:_MAX_TOLD]))
        problems = [f"{each.rule.category}: {reason_of(each)}" for each in broken[:_MAX_KEPT]]
        first = broken[0]
        return Finding(False, score, reason_of(first), first.rule.category, feedback, {"problems": problems})

    def default_remedy(self, category: str) -> str | None:
        rule = self._rules.by_category.get(category)
        if rule is not None:
            return sentence_of(rule, aim=True)
        return {
            "json.parse": "Answer with one valid JSON value.",
            "json.extra_text": "Answer with the JSON only, without any text or ``` around it.",
            self.negated_category: "Do not answer with JSON of this form.",
        }.get(category)


def json_schema_evaluator(spec: EvaluatorSpec, params: JsonSchemaParams, base_dir: Path | None) -> JsonSchema:
    """An evaluator of type ``json_schema``. Raises TaskError where the schema cannot be read or is none."""
    return JsonSchema(spec, params, params.schema_ if params.schema_ is not None else _read(params, base_dir))


def _read(params: JsonSchemaParams, base_dir: Path | None) -> dict[str, Any]:
    path = (base_dir or Path()) / (params.file or "")
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TaskError(f"the schema {params.file!r} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise TaskError(f"the schema {params.file!r} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise TaskError(f"the schema {params.file!r} is not a JSON object")
    return schema


def _is_deeper(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < 0 or any(_is_deeper(each, depth - 1) for each in inner)


def _told(found: Break, sample: Sample, attempt: Attempt) -> str:
    """The broken rule for the model: the schema is no secret, but keys that the answer made up may be the target."""
    of = f"{found.rule.subject[0].upper()}{found.rule.subject[1:]}"
    if found.rule.keyword == "required":
        return f"{of} lacks {quoted(missing_keys(found))}."
    if found.rule.keyword == "additionalProperties":
        return f"{of} must not have {redact(quoted(extra_keys(found)), sample, attempt)}."
    return sentence_of(found.rule)

"""The JSON Schema of a task file, for editors: with every evaluator type and its keys."""

from __future__ import annotations

from typing import Any

from loopeng.evaluators import EvaluatorType, evaluator_types
from loopeng.schema import EvaluatorSpec, TaskFile

__all__ = ["task_json_schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def task_json_schema() -> dict[str, Any]:
    """The schema of task.yaml as plain data; registered evaluator types are part of it."""
    schema = TaskFile.model_json_schema(by_alias=True)
    definitions: dict[str, Any] = schema["$defs"]
    definitions["AgentSpec"] = {"anyOf": [{"const": "llm"}, definitions["AgentSpec"]]}
    common = definitions["EvaluatorSpec"]["properties"]
    types = {kind.name: _evaluator_schema(kind, common, definitions) for kind in evaluator_types().values()}
    definitions.update({f"evaluator.{name}": each for name, each in types.items()})
    definitions["EvaluatorSpec"] = {
        "title": "Evaluator",
        "description": (EvaluatorSpec.__doc__ or "").strip(),
        "oneOf": [{"$ref": f"#/$defs/evaluator.{name}"} for name in types],
    }
    return {"$schema": _DIALECT, **schema, "title": "loopeng task"}


def _evaluator_schema(kind: EvaluatorType, common: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """One type's alternative: the keys all evaluators have, ``type`` fixed, and its own."""
    own = kind.params_model.model_json_schema(by_alias=True)
    definitions.update(own.get("$defs", {}))
    return {
        "title": kind.name,
        "description": own.get("description", ""),
        "type": "object",
        "properties": {**common, "type": {"const": kind.name}, **own.get("properties", {})},
        "required": ["id", "type", *own.get("required", [])],
        "additionalProperties": False,
    }

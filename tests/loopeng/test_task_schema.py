from __future__ import annotations

import json
from typing import Any

from loopeng.evaluators import evaluator_types
from loopeng.task_schema import task_json_schema


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_every_evaluator_type_and_its_keys_are_in_it() -> None:
    schema = task_json_schema()
    assert json.loads(json.dumps(schema)) == schema
    definitions = schema["$defs"]
    assert {each.removeprefix("#/$defs/") for each in references(schema)} <= definitions.keys()
    for name, kind in evaluator_types().items():
        properties = definitions[f"evaluator.{name}"]["properties"]
        own = {field.alias or key for key, field in kind.params_model.model_fields.items()}
        assert {"id", "weight", "negate", "remedy", *own} <= properties.keys()
        assert properties["type"] == {"const": name}


def test_keys_are_those_of_the_file() -> None:
    schema = task_json_schema()
    assert "pass" in schema["properties"]
    assert "pass_" not in schema["properties"]
    assert {"const": "llm"} in schema["$defs"]["AgentSpec"]["anyOf"]
    assert schema["additionalProperties"] is False

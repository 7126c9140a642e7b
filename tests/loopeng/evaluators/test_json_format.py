from __future__ import annotations

from typing import Any

import pytest

from tests.loopeng.evaluators.conftest import Judge


@pytest.mark.parametrize(
    ("text", "keys", "category"),
    [
        ('{"a": 1}', {}, None),
        (" [1, 2]\n", {}, None),
        ("3", {}, None),
        ("", {}, "json.parse"),
        ("{'a': 1}", {}, "json.parse"),
        ('{"a": 1', {}, "json.parse"),
        ("NaN", {}, "json.parse"),
        ("[" * 100_000, {}, "json.parse"),
        ("1" * 5000, {}, "json.parse"),
        ('Sure! {"a": 1}', {}, "json.extra_text"),
        ('{"a": 1} Done.', {}, "json.extra_text"),
        ('```json\n{"a": 1}\n```', {}, "json.extra_text"),
        ('```json\n{"a": 1}\n```', {"allow_fences": True}, None),
        ('Here:\n```\n{"a": 1}\n```', {"allow_fences": True}, "json.extra_text"),
        ("Sure! {}", {}, "json.parse"),
        ('{"a": 1}', {"required": ["a"]}, None),
        ('{"b": 1}', {"required": ["a"]}, "json.missing_key"),
        ("[1]", {"required": ["a"]}, "json.wrong_type"),
        ("[1]", {"root": "array"}, None),
        ("{}", {"root": "array"}, "json.wrong_type"),
        ("null", {"root": "object"}, "json.wrong_type"),
        ('{"a": 1}', {"negate": True}, "json.present"),
        ("plain text", {"negate": True}, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_json(text: str, keys: dict[str, Any], category: str | None, judge: Judge) -> None:
    result = judge(text, type="json", **keys)
    assert result.error is None
    assert (result.passed, result.category) == (category is None, category)


def test_missing_keys_are_named_and_counted(judge: Judge) -> None:
    result = judge('{"a": 1}', type="json", required=["a", "b", "c", "d"])
    assert (result.score, result.reason) == (0.25, 'lacks "b", "c", "d"')
    assert result.feedback == 'Include the JSON keys "b", "c", "d".'
    assert result.remedy == 'The JSON object must have the keys "a", "b", "c" and "d".'


@pytest.mark.parametrize(
    ("text", "keys", "category"),
    [
        ("No idea, see [1].", {"root": "object"}, "json.parse"),
        ("No idea, see [1].", {"required": ["a"]}, "json.parse"),
        ("See [1].", {"root": "array"}, "json.extra_text"),
        ('See [1]: {"a": 1}', {"root": "object"}, "json.extra_text"),
        ('{"a": 1, "a": 2}', {}, "json.parse"),
        ('{"a": {"b": 1}, "a": 2}', {}, "json.parse"),
        ('[{"a": 1, "a": 1}]', {}, "json.parse"),
    ],
)
def test_footnotes_are_no_answer_and_a_key_stands_once(
    text: str, keys: dict[str, Any], category: str, judge: Judge
) -> None:
    assert judge(text, type="json", **keys).category == category
    if not keys:
        result = judge(text, type="json")
        assert (result.reason, result.score) == ('not JSON: the key "a" stands twice in one object', 0.0)
        assert judge(text, type="json_schema", schema={}).category == category
        assert judge(text, type="yaml").category == "yaml.parse"

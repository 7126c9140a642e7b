from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.patterns.fingerprint import fingerprint
from loopeng.schema import EvalResult
from tests.loopeng.evaluators.conftest import Judge, make_attempt, make_sample

TICKET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "urgency": {"enum": ["low", "medium", "high"]},
        "order": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"price": {"type": "number", "exclusiveMinimum": 0}, "name": {"maxLength": 20}},
            },
        },
    },
    "required": ["urgency", "order"],
    "additionalProperties": False,
}
GOOD: dict[str, Any] = {"urgency": "low", "order": None}


def of(value: Any, judge: Judge, schema: dict[str, Any] = TICKET, **keys: Any) -> EvalResult:
    return judge(json.dumps(value), type="json_schema", schema=schema, **keys)


@pytest.mark.parametrize(
    ("value", "category", "feedback"),
    [
        (GOOD, None, ""),
        ([], "json.schema.type", "The JSON must be an object."),
        ({"urgency": "low"}, "json.schema.required", 'The JSON lacks "order".'),
        ({**GOOD, "x": 1}, "json.schema.additionalProperties", 'The JSON must not have "x".'),
        ({**GOOD, "urgency": "Low"}, "json.schema.urgency.enum", '"urgency" must be one of: low, medium, high.'),
        ({**GOOD, "order": 5}, "json.schema.order.anyOf", '"order" must be a string or null.'),
        ({**GOOD, "items": []}, "json.schema.items.minItems", '"items" must have at least one item.'),
        (
            {**GOOD, "items": [{"price": 1}, {"price": "1"}]},
            "json.schema.items[].price.type",
            '"price" in each item of "items" must be a number.',
        ),
        (
            {**GOOD, "items": [{"name": "x" * 21}]},
            "json.schema.items[].name.maxLength",
            '"name" in each item of "items" must have at most 20 characters.',
        ),
    ],
    ids=str,
)
def test_the_first_broken_rule_is_the_category(value: Any, category: str | None, feedback: str, judge: Judge) -> None:
    result = of(value, judge)
    assert (result.error, result.passed, result.category, result.feedback) == (
        None,
        category is None,
        category,
        feedback,
    )


@pytest.mark.parametrize(
    ("schema", "value", "category", "remedy"),
    [
        ({"maxLength": 100}, "x" * 101, "maxLength", "The JSON must have at most 80 characters."),
        ({"minLength": 2}, "x", "minLength", "The JSON must have at least 2 characters."),
        ({"const": "yes"}, "no", "const", "The JSON must be yes."),
        ({"minimum": 3}, 2, "minimum", "The JSON must be at least 3."),
        ({"maximum": 3}, 4, "maximum", "The JSON must be at most 3."),
        ({"exclusiveMaximum": 3}, 3, "exclusiveMaximum", "The JSON must be less than 3."),
        ({"multipleOf": 5}, 4, "multipleOf", "The JSON must be a multiple of 5."),
        ({"pattern": "^A"}, "b", "pattern", "The JSON must match the pattern ^A."),
        ({"maxItems": 1}, [1, 2], "maxItems", "The JSON must have at most one item."),
        ({"uniqueItems": True}, [1, 1], "uniqueItems", "The JSON must not have the same item twice."),
        ({"contains": {"const": 7}}, [1], "contains", "The JSON must have an item that is 7."),
        (
            {"contains": {"type": "null"}, "maxContains": 1},
            [None, None],
            "maxContains",
            "The JSON must have at most one item of the required form.",
        ),
        ({"prefixItems": [{"type": "null"}]}, [1], "[0].type", "Item 1 of the JSON must be null."),
        ({"prefixItems": [True], "items": False}, [1, 2], "[].not", "Each further item of the JSON must not be there."),
        ({"minProperties": 2}, {}, "minProperties", "The JSON must have at least 2 keys."),
        ({"maxProperties": 0}, {"a": 1}, "maxProperties", "The JSON must be empty."),
        ({"properties": {"a": False}}, {"a": 1}, "a.not", '"a" must not be there.'),
        (
            {"additionalProperties": {"type": "boolean"}},
            {"b": 1},
            "*.type",
            "Each value in the JSON must be true or false.",
        ),
        (
            {"patternProperties": {"^x_": {"type": "integer"}}},
            {"x_a": "1"},
            "{^x_}.type",
            "Each value in the JSON with a key that matches ^x_ must be a whole number.",
        ),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "<key>.maxLength", None),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "dependentRequired", 'The JSON must have "b" if it has "a".'),
        ({"dependentSchemas": {"a": {"required": ["c"]}}}, {"a": 1}, "if[a].required", 'The JSON must have "c".'),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, "", "then.minLength", None),
        ({"if": {"type": "string"}, "else": {"type": "null"}}, 1, "else.type", "The JSON must be null."),
        ({"allOf": [{}, {"type": "null"}]}, 1, "allOf[1].type", "The JSON must be null."),
        ({"oneOf": [{"type": "null"}, {"enum": ["a", "b"]}]}, 1, "oneOf", "The JSON must be null or a or b."),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            "oneOf",
            "The JSON must have exactly one of the allowed forms.",
        ),
        ({"not": {"type": "string"}}, "a", "not", "The JSON must not be a string."),
        (
            {"properties": {"a": True}, "unevaluatedProperties": False},
            {"b": 1},
            "unevaluatedProperties",
            "The JSON must have no other keys.",
        ),
        ({"unevaluatedItems": False}, [1], "unevaluatedItems", "The JSON must have no further items."),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True},
            3,
            "minimum",
            "The JSON must be more than 3.",
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}},
            {"a": 1},
            "dependencies",
            'The JSON must have "b" if it has "a".',
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [True], "additionalItems": False},
            [1, 2],
            "additionalItems",
            "The JSON must have no further items.",
        ),
    ],
    ids=str,
)
def test_every_keyword_has_a_category_and_a_remedy(
    schema: dict[str, Any], value: Any, category: str, remedy: str | None, judge: Judge
) -> None:
    result = of(value, judge, schema)
    category = f"json.schema{'' if category[0] == '[' else '.'}{category}"
    assert (result.error, result.category) == (None, category)
    assert remedy is None or result.remedy == remedy
    assert result.remedy
    assert result.feedback


def test_what_several_references_share_is_one_rule(judge: Judge) -> None:
    address = {"type": "object", "properties": {"city": {"type": "string"}}}
    schema = {
        "properties": {"from": {"$ref": "#/$defs/address"}, "to": {"$ref": "#/$defs/address"}},
        "$defs": {"address": address},
    }
    results = [of({key: {"city": 1}}, judge, schema) for key in ("from", "to")]
    assert {each.category for each in results} == {"json.schema.#address.city.type"}
    assert {each.remedy for each in results} == {'"city" in each "address" must be a string.'}
    assert [each.reason for each in results] == [
        '"from.city" must be a string (it is `1`)',
        '"to.city" must be a string (it is `1`)',
    ]
    once = {"properties": {"to": {"$ref": "#/$defs/address"}}, "$defs": {"address": address}}
    assert of({"to": {"city": 1}}, judge, once).category == "json.schema.to.city.type"


def test_a_schema_may_refer_to_itself(judge: Judge) -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
    assert of({"children": [{"children": []}]}, judge, tree).passed
    assert of({"children": [{"children": [3]}]}, judge, tree).category == "json.schema.type"
    for levels, category in ((20, "json.schema.type"), (200, "json.parse")):
        deep: Any = 3
        for _ in range(levels):
            deep = {"children": [deep]}
        assert of(deep, judge, tree).category == category


def test_schemas_with_names_of_their_own_are_found(judge: Judge) -> None:
    schema = {
        "$id": "https://example.org/ticket",
        "properties": {"a": {"$ref": "item"}, "b": {"$ref": "#text"}, "c": {"$dynamicRef": "#text"}},
        "$defs": {
            "one": {"$id": "item", "items": {"$ref": "#/$defs/number"}, "$defs": {"number": {"type": "number"}}},
            "two": {"$anchor": "text", "type": "string"},
            "never": False,
        },
        "additionalProperties": {"$ref": "#/$defs/never"},
    }
    assert of({"a": [1], "b": "x", "c": "y"}, judge, schema).passed
    categories = [of(value, judge, schema).category for value in ({"a": ["x"]}, {"b": 1}, {"c": 1}, {"d": 1})]
    assert categories == ["json.schema.a[].type", "json.schema.b.type", "json.schema.b.type", "json.schema.*.not"]


@pytest.mark.parametrize("text", ["1e999", "-1e999"])
def test_a_number_beyond_all_bounds_is_the_models_mistake(text: str, judge: Judge) -> None:
    result = judge(text, type="json_schema", schema={"multipleOf": 0.1})
    assert (result.error, result.passed, result.category) == (None, False, "json.parse")
    assert judge("1" + "0" * 400, type="json_schema", schema={"multipleOf": 0.1}).passed


def test_one_mistake_has_one_fingerprint_whatever_the_value() -> None:
    """Values, keys that answers make up, and how many keys are missing are no part of it."""
    schema = {"type": "object", "required": ["a", "b"], "additionalProperties": {"type": "number"}}
    (evaluator,) = build_evaluators([{"id": "x", "type": "json_schema", "schema": schema}])

    def mark(value: Any) -> str:
        (result,) = run_evaluators([evaluator], make_sample(), make_attempt(json.dumps(value)))
        return fingerprint("x", result.category or "", result.reason)

    assert len({mark({}), mark({"a": 1}), mark({"b": None})}) == 1
    rest = {"a": 1, "b": 1}
    values = ["x", "it's", "`", "don't `", None, [1], {"deep": "er"}, True, "x" * 90]
    assert len({mark({**rest, key: value}) for value in values for key in ("usd", 'eu"ro')}) == 1
    assert mark({}) != mark({**rest, "c": "x"})


def test_what_was_met_before_is_told_in_full_to_a_person(judge: Judge) -> None:
    result = of({"urgency": "now", "order": 1, "items": [{"price": 0}]}, judge)
    assert [each.partition(":")[0] for each in result.metadata["problems"]] == [
        "json.schema.urgency.enum",
        "json.schema.order.anyOf",
        "json.schema.items[].price.exclusiveMinimum",
    ]
    assert result.score == pytest.approx(1 - 3 / 11)  # rules
    assert result.feedback.count(".") == 3


def test_the_target_is_not_told_but_the_schema_is_no_secret(judge: Judge) -> None:
    target = {"urgency": "high", "secret": "blue"}
    result = judge('{"secret": 1}', type="json_schema", schema=TICKET, target=target | {"x": "secret"})
    assert "secret" not in result.feedback
    result = judge('{"urgency": "x", "order": null}', type="json_schema", schema=TICKET, target=target)
    assert result.feedback == '"urgency" must be one of: low, medium, high.'


def test_fences_and_other_text_are_as_json_has_them(judge: Judge) -> None:
    text = f"```json\n{json.dumps(GOOD)}\n```"
    assert judge(text, type="json_schema", schema=TICKET, allow_fences=True).passed
    result = judge(text, type="json_schema", schema=TICKET)
    assert (result.category, result.score) == ("json.extra_text", 0.5)
    assert judge("no", type="json_schema", schema=TICKET).category == "json.parse"
    assert judge("no", type="json_schema", schema=TICKET, negate=True).passed
    result = judge(json.dumps(GOOD), type="json_schema", schema=TICKET, negate=True)
    assert result.category == "json.schema_matches"


def test_a_file_is_read_from_the_task_folder_and_goes_along(tmp_path: Path) -> None:
    (tmp_path / "ticket.json").write_text(json.dumps(TICKET))
    keys = {"id": "x", "type": "json_schema", "file": "ticket.json"}
    (evaluator,) = build_evaluators([keys], tmp_path)
    reference = evaluator.reference  # type: ignore[attr-defined]
    (elsewhere,) = build_evaluators([reference])
    assert elsewhere.categories == evaluator.categories
    assert elsewhere.reference == reference  # type: ignore[attr-defined]


def test_formats_are_checked_where_asked_for(judge: Judge) -> None:
    schema = {"format": "date"}
    assert of("soon", judge, schema).passed
    result = of("soon", judge, schema, check_formats=True)
    assert (result.category, result.remedy) == ("json.schema.format", "The JSON must have the format date.")
    assert of("2026-01-31", judge, schema, check_formats=True).passed


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"schema": {"type": "strin"}}, "not a JSON Schema: type: 'strin'"),
        ({"schema": {"minLenght": 3}}, "unknown keyword 'minLenght'.*did you mean 'minLength'"),
        ({"schema": {"anyOf": [{"minLenght": 3}]}}, "unknown keyword 'minLenght'"),
        ({"schema": {"dependencies": {"a": ["b"]}}}, "'dependencies' .* does nothing in its draft"),
        ({"schema": {"pattern": "("}}, "not a JSON Schema|not a regular expression"),
        ({"schema": {"patternProperties": {"(": {}}}}, "not a JSON Schema|not a regular expression"),
        ({"schema": {"$ref": "#/$defs/nothing"}}, "which is not in it"),
        ({"schema": {"not": {"$ref": "#/$defs/nothing"}}}, "which is not in it"),
        ({"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}, "which is not in it"),
        ({"schema": {"$ref": "#"}}, "refers to itself without end"),
        ({"schema": {"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}}, "refers to itself without end"),
        ({"schema": {"$schema": "http://json-schema.org/draft-03/schema#"}}, "draft 4 or later"),
        ({"schema": {"$schema": "urn:mine"}}, "draft 4 or later"),
        ({"schema": {"$schema": 7}}, "draft 4 or later"),
        ({"schema": {"format": "shoe-size"}, "check_formats": True}, "cannot be checked here"),
        ({"file": "nothing.json"}, "'nothing.json' cannot be read"),
        ({"file": "list.json"}, "is not a JSON object"),
        ({"file": "broken.json"}, "is not JSON"),
        ({}, "exactly one of 'schema' and 'file'"),
        ({"schema": {}, "file": "x.json"}, "exactly one of 'schema' and 'file'"),
    ],
    ids=str,
)
def test_a_bad_schema_is_found_when_the_task_is_loaded(keys: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(TaskError, match=message):
        build_evaluators([{"id": "x", "type": "json_schema", **keys}], tmp_path)


NAMES = st.sampled_from(["a", "b", "a.b"])
LEAVES = st.one_of(
    st.sampled_from([True, False, {}, {"type": "string"}, {"type": ["null", "integer"]}, {"const": 1}]),
    st.sampled_from([{"enum": ["a", 1]}, {"minLength": 2}, {"maximum": 0}, {"$ref": "#/$defs/d"}, {"$ref": "#"}]),
)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = {
        "properties": st.dictionaries(NAMES, inner, max_size=2),
        "required": st.lists(NAMES, unique=True, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
        "if": inner,
        "then": inner,
        "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
        "unevaluatedProperties": inner,
        "uniqueItems": st.booleans(),
    }
    return st.lists(st.sampled_from(sorted(objects)), min_size=1, max_size=3, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries({key: objects[key] for key in keys})
    )


SCHEMAS = st.recursive(LEAVES, _grown, max_leaves=5).filter(lambda schema: isinstance(schema, dict))
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, 2.5, "", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)


def built(schema: Any) -> Any:
    """None for a schema that only goes round in circles."""
    try:
        return build_evaluators([{"id": "x", "type": "json_schema", "schema": schema}])[0]
    except TaskError as error:
        if "without end" in error.message:
            return None
        raise


@settings(max_examples=200, deadline=None)
@given(schema=SCHEMAS, shared=LEAVES, value=VALUES)
def test_the_verdict_is_the_librarys_and_the_category_is_declared(schema: Any, shared: Any, value: Any) -> None:
    import jsonschema

    schema = {**schema, "$defs": {"d": shared}}
    if (evaluator := built(schema)) is None:
        return
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    (result,) = run_evaluators([evaluator], make_sample(), make_attempt(json.dumps(value)))
    assert (result.error, result.passed) == (None, valid)
    if not valid:
        assert result.category in evaluator.categories
        assert result.score is not None and result.score < 1
    for category in evaluator.categories:
        assert evaluator.default_remedy(category).endswith(".")


@pytest.mark.parametrize(
    ("divisor", "multiples", "others"),
    [(0.01, [19.99, 1.1, 0, 7, -0.03, 1e300], [0.001, 19.999]), (3, [9, 9.0, -3], [10, 9.5]), (2.5, [5, 7.5], [6])],
)
def test_multiples_are_of_decimals_as_they_are_written(
    divisor: float, multiples: list[float], others: list[float], judge: Judge
) -> None:
    draft = "https://json-schema.org/draft/2020-12/schema"
    schemas: list[dict[str, Any]] = [
        {"properties": {"a": {"multipleOf": divisor}}},
        {"$schema": draft, "multipleOf": divisor, "properties": {"a": {"$ref": "#"}}},
    ]
    for schema in schemas:
        for number in (*multiples, *others):
            result = judge(json.dumps({"a": number}), type="json_schema", schema=schema)
            assert (number, result.error, result.passed) == (number, None, number in multiples)


def test_a_footnote_is_not_the_object_that_the_schema_wants(judge: Judge) -> None:
    assert judge("I do not know [1].", type="json_schema", schema={"type": "object"}).category == "json.parse"
    assert judge("I do not know [1].", type="json_schema", schema={"type": "array"}).category == "json.extra_text"

"""A JSON Schema as a list of rules, each with a name of its own, and which of them a value breaks.

A **rule** is one keyword at one place of the schema that can fail: ``minLength`` of the property ``name``. Its name,
the category of a failure, is of the schema and never of a value: ``json.schema.name.minLength``, and for the items of
a list ``json.schema.orders[].price.type``. What stands inside ``anyOf``, ``oneOf`` and ``not`` is no rule of its own,
since none of it must hold; what several ``$ref`` share is one rule.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from loopeng.errors import TaskError
from loopeng.evaluators.schema_places import IN_PLACE, ROOT, SchemaPlace, schemas_in
from loopeng.validation import did_you_mean

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["Break", "SchemaRule", "SchemaRules"]

_LATEST = "https://json-schema.org/draft/2020-12/schema"
_FALSE: dict[str, Any] = {"not": {}}  # the schema ``false`` as one with a place of its own

# fmt: off
_CAN_FAIL = frozenset({
    "additionalItems", "additionalProperties", "anyOf", "const", "contains", "dependencies", "dependentRequired",
    "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains", "maxItems", "maxLength", "maxProperties",
    "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf",
    "pattern", "required", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
})
_PASSES_ON = frozenset({  # to schemas inside, whose rules fail
    "$ref", "$dynamicRef", "$recursiveRef", "allOf", "dependentSchemas", "else", "if", "items", "patternProperties",
    "prefixItems", "properties", "propertyNames", "then",
})
_DESCRIBES = frozenset({
    "$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema", "$vocabulary",
    "contentEncoding", "contentMediaType", "contentSchema", "default", "definitions", "deprecated", "description",
    "examples", "id", "readOnly", "title", "writeOnly",
})
# fmt: on
_REFERS = ("$ref", "$dynamicRef", "$recursiveRef")
_ONLY_FALSE = ("additionalItems", "additionalProperties")  # fail themselves where they are false
_MAY_BE_FALSE = (*_ONLY_FALSE, "unevaluatedItems", "unevaluatedProperties")
_FLAGS_ONCE = ("exclusiveMaximum", "exclusiveMinimum")  # in draft 4 they only change the limit beside them


@dataclass(frozen=True)
class SchemaRule:
    """``category`` names it; ``subject`` is what it is about, as people say it; ``schema`` is where it stands."""

    category: str
    keyword: str
    subject: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Break:
    """A rule that a value breaks, and the first place in the value where it does."""

    rule: SchemaRule
    path: tuple[str | int, ...]
    value: Any


class SchemaRules:
    """All rules of a schema, in the order of the schema. Raises TaskError where the schema is not one."""

    def __init__(self, schema: Mapping[str, Any], *, check_formats: bool = False) -> None:
        from referencing import Registry
        from referencing.jsonschema import specification_with

        self._draft, dialect = _draft_of(schema)
        _check_schema(self._draft, schema)
        self._schema = copy.deepcopy(dict(schema))  # objects of our own: a schema is known by its identity
        self._schema.pop("$schema", None)  # known by now; met again behind "$ref": "#" it would bring its own validator
        self._check_formats = check_formats
        self._ref_is_alone = any(f"draft-0{number}/" in dialect for number in (4, 6, 7))  # beside it nothing counts
        self._num_uses = Counter(_references_in(self._schema))
        self._rules: dict[tuple[int, str], SchemaRule] = {}
        self._seen: set[tuple[int, bool]] = set()
        self._in_place: dict[int, set[int]] = {}  # schema -> those it hands the same value on to
        self._specification = specification_with(dialect)
        _name_false(self._schema.get("$defs"), self._schema.get("definitions"))
        registry: Registry[Any] = Registry()  # an empty one: nothing is fetched
        self._visit(self._schema, SchemaPlace(), registry.resolver_with_root(self._resource(self._schema)))
        self._refuse_circles()
        checker = self._draft.FORMAT_CHECKER if check_formats else None
        self._validator: Validator = self._draft(self._schema, registry=registry, format_checker=checker)
        self.by_category = {rule.category: rule for rule in self._rules.values()}

    def broken_by(self, value: Any) -> list[Break]:
        """What ``value`` breaks, one for each rule, in the order of the schema."""
        order = {category: index for index, category in enumerate(self.by_category)}
        found: dict[str, Break] = {}
        for error in sorted(self._validator.iter_errors(value), key=_place_of):
            rule = self._rules[id(error.schema), str(error.validator)]
            found.setdefault(rule.category, Break(rule, tuple(error.absolute_path), error.instance))
        return sorted(found.values(), key=lambda each: order[each.rule.category])

    def _resource(self, schema: dict[str, Any]) -> Any:
        return self._specification.create_resource(schema)

    def _visit(self, schema: Any, place: SchemaPlace, resolver: Any) -> None:
        if not isinstance(schema, dict) or (id(schema), place.holds) in self._seen:
            return
        self._seen.add((id(schema), place.holds))
        resolver = resolver.in_subresource(self._resource(schema))
        keywords = ["$ref"] if self._ref_is_alone and "$ref" in schema else list(schema)
        for keyword in keywords:
            self._check_keyword(keyword, schema, place.path)
            if place.holds and self._fails_itself(keyword, schema):
                category = _free(f"{place.path}.{keyword}", {rule.category for rule in self._rules.values()})
                self._rules[id(schema), keyword] = SchemaRule(category, keyword, place.subject, schema)
        for keyword in keywords:
            if keyword in _REFERS:
                target = self._follow(str(schema[keyword]), place, resolver)
                self._in_place.setdefault(id(schema), set()).add(id(target))
            for holder, key, inner in schemas_in(keyword, schema, place):
                if holder[key] is False and keyword not in _MAY_BE_FALSE:
                    holder[key] = dict(_FALSE)
                if keyword in IN_PLACE:
                    self._in_place.setdefault(id(schema), set()).add(id(holder[key]))
                self._visit(holder[key], inner, resolver)

    def _follow(self, reference: str, place: SchemaPlace, resolver: Any) -> Any:
        """Visit what a reference names, and give it."""
        from referencing.exceptions import Unresolvable

        try:
            found = resolver.lookup(reference)
        except Unresolvable:
            found = None
        if found is None or not _is_inside(found.contents, self._schema):
            hint = "put what it refers to under '$defs' of this schema"
            raise TaskError(f"the schema refers to {reference!r}, which is not in it", suggestion=hint)
        if self._num_uses[reference] > 1:
            name = reference.rpartition("/")[2].lstrip("#") or reference
            place = replace(place, path=f"{ROOT}.#{name}", subject=f'each "{name}"')
        self._visit(found.contents, place, found.resolver)
        return found.contents

    def _refuse_circles(self) -> None:
        """A schema that hands its value on to itself has no end; one about the parts of its value ends with them."""
        try:
            TopologicalSorter(self._in_place).prepare()
        except CycleError:
            raise TaskError("the schema refers to itself without end") from None

    def _fails_itself(self, keyword: str, schema: Mapping[str, Any]) -> bool:
        value = schema[keyword]
        if keyword not in _CAN_FAIL:
            return False
        if keyword in _ONLY_FALSE:
            return value is False
        if keyword == "dependencies":
            return any(isinstance(each, list) for each in value.values())
        if keyword in _FLAGS_ONCE:
            return not isinstance(value, bool)
        return keyword != "format" or self._check_formats

    def _check_keyword(self, keyword: str, schema: Mapping[str, Any], path: str) -> None:
        """Refuse what would be ignored in silence, and what would break in the middle of a run."""
        known = {*self._draft.VALIDATORS, *_DESCRIBES, *_FLAGS_ONCE, "then", "else", "minContains", "maxContains"}
        if keyword not in known:
            if keyword in _CAN_FAIL | _PASSES_ON:
                raise TaskError(f"the schema's keyword {keyword!r} ({path}) does nothing in its draft")
            if hint := did_you_mean(keyword, known):
                raise TaskError(f"the schema has an unknown keyword {keyword!r} ({path})", suggestion=hint)
        patterns = (
            [schema[keyword]] if keyword == "pattern" else schema[keyword] if keyword == "patternProperties" else ()
        )
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise TaskError(f"{pattern!r} ({path}) is not a regular expression: {error}") from None
        if keyword == "format" and self._check_formats and schema[keyword] not in self._draft.FORMAT_CHECKER.checkers:
            hint = "write a 'pattern', or leave out check_formats"
            raise TaskError(f"format {schema[keyword]!r} ({path}) cannot be checked here", suggestion=hint)


def _draft_of(schema: Mapping[str, Any]) -> tuple[Any, str]:
    """The validator class, and the name of the draft: what ``$schema`` says, else 2020-12."""
    import jsonschema

    dialect = schema.get("$schema", _LATEST)
    unknown: Any = object()
    draft: Any = unknown
    if isinstance(dialect, str):
        draft = jsonschema.validators.validator_for(schema, default=unknown)
    if "$schema" in schema and (draft is unknown or "draft-03" in str(dialect)):
        raise TaskError(f"the schema's $schema is {dialect!r}", suggestion=f"draft 4 or later, as in {_LATEST}")
    draft = jsonschema.Draft202012Validator if draft is unknown else draft
    extend: Any = jsonschema.validators.extend
    return extend(draft, {"multipleOf": _check_multiple}), str(dialect)


def _check_multiple(validator: Any, divisor: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    """By decimals as they are written: as floats 19.99 is no multiple of 0.01."""
    from jsonschema import ValidationError

    if not validator.is_type(value, "number"):
        return
    if abs(value) == float("inf"):
        raise OverflowError("the number is infinite")
    if Fraction(str(value)) % Fraction(str(divisor)):
        yield ValidationError(f"{value!r} is not a multiple of {divisor}")


def _check_schema(draft: Any, schema: Mapping[str, Any]) -> None:
    from jsonschema import SchemaError

    try:
        draft.check_schema(dict(schema))
    except SchemaError as error:
        place = ".".join(map(str, error.absolute_path))
        message = error.message if len(error.message) <= 200 else error.message[:197] + "..."
        raise TaskError(f"this is not a JSON Schema: {f'{place}: ' if place else ''}{message}") from None


def _references_in(value: Any) -> Iterator[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and isinstance(value.get("$ref"), str):
        yield value["$ref"]
    for each in inner:
        yield from _references_in(each)


def _name_false(*definitions: Any) -> None:
    for each in definitions:
        for name in [name for name, schema in (each or {}).items() if schema is False]:
            each[name] = dict(_FALSE)


def _is_inside(part: Any, whole: Any) -> bool:
    inner = whole.values() if isinstance(whole, dict) else whole if isinstance(whole, list) else ()
    return part is whole or any(_is_inside(part, each) for each in inner)


def _free(name: str, taken: set[str]) -> str:
    """A property called "a.b" and a property b of a must not share a name."""
    names = [name, *(f"{name}~{number}" for number in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def _place_of(error: ValidationError) -> list[tuple[bool, int, str]]:
    """For sorting: items by their number, keys by their name."""
    return [(isinstance(part, str), 0 if isinstance(part, str) else part, str(part)) for part in error.absolute_path]

from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators
from loopeng.patterns.fingerprint import fingerprint
from tests.loopeng.evaluators.conftest import Judge

BOMB = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;">]><a>&y;</a>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'


@pytest.mark.parametrize(
    ("text", "keys", "category"),
    [
        ("<a><b c='1'/>x &amp; y</a>", {}, None),
        ('<?xml version="1.0" encoding="utf-8"?>\n<a/>\n', {}, None),
        ("<a xmlns='urn:x'/>", {"root": "a"}, None),
        ("<b/>", {"root": "a"}, "xml.wrong_root"),
        ("<a><b></a>", {}, "xml.parse"),
        ("<a><b></b>", {}, "xml.parse"),
        ("<a/><b/>", {}, "xml.parse"),
        ("a & b", {}, "xml.parse"),
        ("", {}, "xml.parse"),
        ("<a>\x00</a>", {}, "xml.parse"),
        ("<a>&#xD800;</a>", {}, "xml.parse"),
        ('<?xml version="1.0" encoding="no-such"?><a/>', {}, None),
        (BOMB, {}, "xml.parse"),
        (OUTSIDE, {}, "xml.parse"),
        ("Here: <a>1</a> Done.", {}, "xml.extra_text"),
        ("```xml\n<a>1</a>\n```", {}, "xml.extra_text"),
        ("```xml\n<a>1</a>\n```", {"allow_fences": True}, None),
        ("<a/>", {"negate": True}, "xml.present"),
        ("plain", {"negate": True}, None),
    ],
)
def test_xml(text: str, keys: dict[str, Any], category: str | None, judge: Judge) -> None:
    result = judge(text, type="xml", **keys)
    assert (result.error, result.passed, result.category) == (None, category is None, category)


def test_xml_that_is_deep_or_long_gets_a_verdict(judge: Judge) -> None:
    assert judge("<a>" * 20_000 + "</a>" * 20_000, type="xml").error is None
    assert judge("<a " * 20_000, type="xml").category == "xml.parse"


@pytest.mark.parametrize(
    ("text", "keys", "category"),
    [
        ("a: 1\nb: [x, y]", {}, None),
        ("- a\n- b: 2", {}, None),
        ("just some prose", {}, "yaml.wrong_type"),
        ("just some prose", {"root": "any"}, None),
        ("", {}, "yaml.wrong_type"),
        ("# nothing", {"root": "any"}, "yaml.wrong_type"),
        ("- a", {"root": "mapping"}, "yaml.wrong_type"),
        ("a: 1", {"root": "list"}, "yaml.wrong_type"),
        ("a: 1\na: 2", {}, "yaml.parse"),
        ("x: {b: 1, b: 2}", {}, "yaml.parse"),
        ("a: [1", {}, "yaml.parse"),
        ("a: b: c", {}, "yaml.parse"),
        ("a: 1\n---\nb: 2", {}, "yaml.parse"),
        ("base: &b {k: v}\nuse:\n  <<: *b\n  <<: *b", {}, None),
        ("a: &x [*x]", {}, None),
        ("job: !reference [a, b]\nx: !!python/object/apply:os.system [ls]", {}, None),
        ("[" * 1_500, {}, "yaml.parse"),
        ("```yaml\na: 1\n```", {}, "yaml.parse"),
        ("```yaml\na: 1\n```", {"allow_fences": True}, None),
        ("a: 1", {"required": ["a"]}, None),
        ("b: 1", {"required": ["a"]}, "yaml.missing_key"),
        ("a: 1", {"negate": True}, "yaml.present"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_yaml(text: str, keys: dict[str, Any], category: str | None, judge: Judge) -> None:
    result = judge(text, type="yaml", **keys)
    assert (result.error, result.passed, result.category) == (None, category is None, category)


def test_yaml_keys_are_named_and_counted(judge: Judge) -> None:
    result = judge("a: 1", type="yaml", required=["a", "b"])
    assert (result.score, result.feedback) == (0.5, 'Include the YAML key "b".')
    assert result.remedy == 'The YAML mapping must have the keys "a" and "b".'
    with pytest.raises(TaskError, match="'required' needs root: mapping"):
        build_evaluators([{"id": "it", "type": "yaml", "required": ["a"], "root": "list"}])


def test_another_root_is_one_pattern_whatever_its_name(judge: Judge) -> None:
    first, second = (judge(f"<{name}/>", type="xml", root="a").reason for name in ("book", "mug"))
    assert (first, fingerprint("it", "c", first)) == ('the root is "book"', fingerprint("it", "c", second))


def test_an_answer_is_no_file(judge: Judge) -> None:
    for text in ("a: 1\n---\nb: 2", "[" * 400):
        assert "file" not in judge(text, type="yaml").reason

"""Prompts: strict, sandboxed, rules as data, and the loop's own texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng import prompts
from loopeng.errors import NotFoundError, TaskError
from loopeng.prompts import PromptTemplate, find_placeholders, load_prompt, render_text, rendered_template, text_hash
from loopeng.schema import Rule

QUICK = settings(max_examples=50, deadline=None)

TEMPLATE = "You write for a shop.\n\nDescribe {{ product }}{{ rules }}\n"


def test_rules_render_as_nothing_or_as_a_list() -> None:
    template = PromptTemplate(TEMPLATE)
    assert template.render({"product": "a mug"}) == "You write for a shop.\n\nDescribe a mug"
    with_rules = template.render({"product": "a mug"}, [Rule(id="r1", text="Be brief."), "Be calm."])
    assert with_rules == "You write for a shop.\n\nDescribe a mug\n\nRules:\n- Be brief.\n- Be calm."


def test_placeholders_leave_out_the_rules() -> None:
    template = PromptTemplate(TEMPLATE)
    assert template.placeholders == {"product"}
    assert template.has_rules_slot
    assert not PromptTemplate("{{ product }}").has_rules_slot


@QUICK
@given(st.text(min_size=1), st.text())
def test_no_brace_in_rules_or_inputs_is_ever_evaluated(rule: str, value: str) -> None:
    text = "{{ 7 * 7 }}{% for x in y %}" + rule
    rendered = PromptTemplate("{{ product }}|{{ rules }}").render({"product": value}, [text])
    assert rendered == f"{value}|\n\nRules:\n- {' '.join(text.split())}"


@QUICK
@given(st.lists(st.text(min_size=1).filter(str.strip), max_size=4))
def test_the_readable_prompt_is_the_rendered_one_with_its_placeholders(rules: list[str]) -> None:
    readable = rendered_template("Describe {{ product }}{{ rules }}.", rules)
    rendered = PromptTemplate("Describe {{ product }}{{ rules }}.").render({"product": "{{ product }}"}, rules)
    assert readable == rendered


@QUICK
@given(st.text(), st.lists(st.text(min_size=1)), st.text(), st.lists(st.text(min_size=1)))
def test_hashes_differ_when_texts_differ(a: str, rules_a: list[str], b: str, rules_b: list[str]) -> None:
    assert (text_hash(a, rules_a) == text_hash(b, rules_b)) == ((a, rules_a) == (b, rules_b))


def test_the_hash_knows_rules_by_their_text_alone() -> None:
    assert text_hash("t", [Rule(id="x", text="Be brief.", pattern_ids=("p",))]) == text_hash("t", ["Be brief."])
    assert PromptTemplate("t").text_hash() == text_hash("t")
    assert len(text_hash("t")) == 64


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(TaskError, match="needs 'product'") as caught:
        PromptTemplate(TEMPLATE).render({"produkt": "mug"})
    assert caught.value.suggestion == "did you mean 'produkt'?"
    with pytest.raises(TaskError, match="cannot be filled"):
        render_text("{{ product.price }}", {"product": "mug"})


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ a }", "cannot be read"),
        ("{% if a %}", "cannot be read"),
        ("{{ rules }}{{ rules }}", "more than once"),
        ("{{ rules | upper }}", "another way"),
        ("{{- rules }}", "another way"),
        ("{% if rules %}x{% endif %}", "another way"),
        ("{# {{ rules }} #}", "another way"),
        ("{% raw %}{{ rules }}{% endraw %}", "another way"),
    ],
)
def test_templates_that_are_refused(source: str, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        PromptTemplate(source)


def test_a_syntax_mistake_knows_its_line() -> None:
    with pytest.raises(TaskError) as caught:
        PromptTemplate("one\ntwo {{ a }\n")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    "source",
    ["{{ a.__class__.__mro__ }}", "{{ ''.__class__ }}", "{{ a.append(1) }}", "{{ range(3) }}", "{{ a / 0 }}"],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(TaskError):
        render_text(source, {"a": [1]})


def test_rules_and_inputs_do_not_meet() -> None:
    with pytest.raises(TaskError, match="cannot be called 'rules'"):
        PromptTemplate("{{ rules }}").render({"rules": "x"})
    with pytest.raises(TaskError, match=r"no \{\{ rules \}\}"):
        PromptTemplate("plain").render({}, ["Be brief."])


def test_odd_inputs() -> None:
    assert render_text("{{ a }}|{{ b }}|{{ c }}", {"a": None, "b": 3, "c": "<b>"}) == "|3|<b>"
    assert find_placeholders("{% for x in xs %}{{ x }}{% endfor %}") == {"xs"}


@pytest.mark.parametrize("name", ["feedback", "critique"])
def test_the_loops_own_prompts(name: str) -> None:
    prompt = load_prompt(name)
    assert prompt.name == name
    assert prompt.description
    values = {"prompt": "Describe {{ a mug }}"} if "prompt" in prompt.placeholders else {}
    text = prompt.render(problems=["Use at most 25 words.", "Mention {{ it }}."], **values)
    assert "\n- Use at most 25 words.\n- Mention {{ it }}.\n\n" in text
    assert text.startswith(values.get("prompt", "Your answer"))
    assert len(text) < 250  # small models lose the thread


def test_the_loops_own_prompts_are_strict() -> None:
    with pytest.raises(TaskError, match="needs 'problems'"):
        load_prompt("feedback").render()
    with pytest.raises(TaskError, match="has no placeholder 'answer'"):
        load_prompt("feedback").render(problems=[], answer="x")
    with pytest.raises(NotFoundError, match="there is: critique, feedback"):
        load_prompt("feedbak")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no front matter", "begins with front matter"),
        ("---\nname: p\n---\nx\n", "exactly name, description and placeholders"),
        ("---\nname: q\ndescription: d\nplaceholders: []\n---\nx\n", "differ: name 'q'"),
        ("---\nname: p\ndescription: d\nplaceholders: [a]\n---\n{{ b }}\n", "declared \\['a'\\], found \\['b'\\]"),
    ],
)
def test_prompt_files_are_checked(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "p.md"
    path.write_text(text)
    with pytest.raises(TaskError, match=says):
        prompts._read_prompt(path)

"""Prompt files with front matter: what is written is read back to the letter, and mistakes name their line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.errors import TaskError
from loopeng.prompt_file import parse_prompt_file, prompt_file_text
from loopeng.prompts import text_hash
from loopeng.schema import PromptVersion, Rule
from loopeng.task_file import load_task
from tests.loopeng.task_texts import GOOD, write

TEXT = """\
---
name: describe
rules:
  - {id: r1, text: Be brief.}
  - text: |
      One
      sentence.
---
Describe {{ product }}{{ rules }}
"""


def version(template: str, rules: tuple[Rule, ...] = (), name: str = "describe") -> PromptVersion:
    return PromptVersion(
        id="ver-1",
        prompt_name=name,
        number=3,
        template=template,
        rules=rules,
        text_hash=text_hash(template, rules),
        source="proposal",
        created_by="ana",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


_TEXTS = st.text(st.characters(codec="utf-8"), min_size=1)
_RULE_TEXTS = _TEXTS.map(lambda text: " ".join(text.split())).filter(bool)


@given(_TEXTS, st.dictionaries(_TEXTS, _RULE_TEXTS, max_size=4), _TEXTS)
def test_what_is_written_is_read_back(template: str, rules: dict[str, str], name: str) -> None:
    """Whatever the rules hold: quotes, colons, three dashes, emoji, control characters."""
    written = version(template, tuple(Rule(id=key, text=text) for key, text in rules.items()), name)
    text = prompt_file_text(written)
    found = parse_prompt_file(text)
    assert (found.template, found.rules, found.name) == (template, written.rules, name)
    assert text.split("\n")[found.first_line - 1 :] == template.split("\n")


def test_a_file_without_front_matter_is_a_template() -> None:
    for text in ("Describe {{ product }}", "", "A line\n---\nand\n---\n", "--- not a rule ---\n", "---\nno end\n"):
        assert parse_prompt_file(text).template == text
        assert parse_prompt_file(text).rules is None


def test_rules_written_by_hand() -> None:
    found = parse_prompt_file(TEXT)
    assert found.rules is not None
    assert [rule.text for rule in found.rules] == ["Be brief.", "One sentence."]
    assert found.rules[1].id.startswith("rule-")
    assert parse_prompt_file("---\nname: describe\n---\nx").rules is None  # says nothing of rules
    assert parse_prompt_file("---\nrules: []\n---\nx").rules == ()


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("name: describe", "nam: describe", 2, "unknown key 'nam'"),
        ("name: describe", "name: other", 2, "the file of the prompt 'other', the task's is 'describe'"),
        ("name: describe", "name: 7", 2, "name must be text"),
        ("name: describe", "name: [", 4, "not YAML"),
        ("{id: r1, text: Be brief.}", "{id: r1}", 4, "text is missing"),
        ("{id: r1, text: Be brief.}", "{id: r1, text: ' '}", 4, "a rule is empty"),
        ("- text: |\n      One", "- id: r1\n    text: |\n      One", 5, "'r1' stands twice"),
        ("---\nDescribe", "Describe", 1, "the front matter has no end"),
        (TEXT.split("---")[1], "\n", 1, "the front matter is empty"),
        (TEXT.split("---")[1], "\nwords\n", 2, "front matter is a mapping"),
        ("{{ product }}", "{{ product", 9, "cannot be read"),
        ("{{ product }}", "{{ prodct }}", 9, "no sample has that field"),
        ("{{ rules }}\n", "\n", 9, "there is no {{ rules }}, but front matter with 2 rules"),
    ],
)
def test_a_mistake_names_its_line_in_the_file(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in TEXT
    (tmp_path / "p.md").write_text(TEXT.replace(old, new), encoding="utf-8")
    with pytest.raises(TaskError) as caught:
        load_task(write(tmp_path, task_with_file()))
    assert says in caught.value.message
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "p.md"), line)


def task_with_file() -> str:
    before, _, after = GOOD.partition("  template: |\n")
    return before + "  file: p.md\n" + after[after.index("dataset:") :]


def test_rules_in_a_file_are_no_part_of_the_task(tmp_path: Path) -> None:
    """An export after a commit must not look like another task to the proposals that are open."""
    (tmp_path / "p.md").write_text(TEXT, encoding="utf-8")
    task = load_task(write(tmp_path, task_with_file()))
    assert task.template == "Describe {{ product }}{{ rules }}\n"
    assert task.file_rules is not None and len(task.file_rules) == 2
    (tmp_path / "p.md").write_text(task.template, encoding="utf-8")
    plain = load_task(write(tmp_path, task_with_file()))
    assert plain.file_rules is None and plain.version_hash == task.version_hash

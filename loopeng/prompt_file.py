"""Prompt files: a template in a file of its own, with or without front matter.

Front matter stands between two lines ``---`` at the beginning and says which version the file holds, and its rules::

    ---
    name: "describe"
    version: 2
    text_hash: "2ac8..."
    rules:
      - id: "rule-1f0c93ab"
        text: "Write exactly one sentence."
    ---
    Describe {{ product }}{{ rules }}

What stands below it is the template, to the letter. A file without front matter is a template and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import Field

from loopeng.errors import TaskError
from loopeng.schema import Noun, PromptVersion, Rule, content_hash
from loopeng.validation import Loc, validated
from loopeng.yaml_lines import YamlDocument, parse_yaml

__all__ = ["FrontMatter", "PromptFile", "RuleEntry", "parse_prompt_file", "prompt_file_text"]

_FRONT_MATTER = re.compile(r"---\n((?:.*?\n)?)---(?:\n(.*))?", re.DOTALL)
_UNCLOSED = re.compile(r"---\n(?:#.*\n)*(?:name|version|text_hash|rules):")
_REMARK = "# Written by 'loopeng prompts export'. Below the second line --- stands the template, to the letter."


class RuleEntry(Noun):
    """A rule as a file has it."""

    id: str | None = Field(None, min_length=1)
    text: str = Field(min_length=1)


class FrontMatter(Noun):
    """The keys of front matter. Without ``rules`` the file says nothing of rules; an empty list says there are none."""

    name: str | None = None
    version: int | None = None  # for people
    text_hash: str | None = None  # of what was written; whoever edits the file need not change it
    rules: tuple[RuleEntry, ...] | None = None


@dataclass(frozen=True)
class PromptFile:
    """What a file holds. ``first_line`` is where its template begins; ``name_line`` where its name stands."""

    template: str
    rules: tuple[Rule, ...] | None = None
    name: str | None = None
    first_line: int = 1
    name_line: int = 1


def parse_prompt_file(text: str, file: str | None = None) -> PromptFile:
    """Read a prompt file's text. Raises TaskError with the line in ``file`` where its front matter is wrong.

    >>> parse_prompt_file("Describe {{ product }}").rules is None
    True
    >>> parse_prompt_file("---\\nrules: [{text: Be brief.}]\\n---\\nDescribe it.").rules[0].text
    'Be brief.'
    """
    match = _FRONT_MATTER.fullmatch(text)
    if match is None:
        if _UNCLOSED.match(text):
            raise TaskError("the front matter has no end", file=file, line=1, suggestion="close it with a line '---'")
        return PromptFile(text)
    document = _document(match[1], file)
    head = validated(FrontMatter, document.data)
    if isinstance(head, list):
        raise _mistake(document, head[0].loc, head[0].message, head[0].suggestion)
    return PromptFile(
        template=match[2] or "",
        rules=None if head.rules is None else _rules(head.rules, document),
        name=head.name,
        first_line=match[1].count("\n") + 3,
        name_line=document.line(("name",)) or 1,
    )


def prompt_file_text(version: PromptVersion) -> str:
    """A version as a file: the same version always gives the same text, so that git sees only changes of the prompt."""
    lines = [
        "---",
        _REMARK,
        f"name: {_quoted(version.prompt_name)}",
        f"version: {version.number}",
        f"text_hash: {_quoted(version.text_hash)}",
        "rules:" if version.rules else "rules: []",
    ]
    for rule in version.rules:
        lines += [f"  - id: {_quoted(rule.id)}", f"    text: {_quoted(rule.text)}"]
    return "\n".join([*lines, "---", version.template])


def _document(text: str, file: str | None) -> YamlDocument:
    """Of front matter that begins on the second line of the file."""
    if not text.strip():
        raise TaskError("the front matter is empty", file=file, line=1, suggestion="remove both lines '---'")
    document = parse_yaml("\n" + text, file=file)
    if not isinstance(document.data, dict):
        hint = "a template that itself begins with '---' needs an empty line above it"
        raise TaskError("front matter is a mapping (key: value)", file=file, line=2, suggestion=hint)
    return document


def _rules(entries: tuple[RuleEntry, ...], document: YamlDocument) -> tuple[Rule, ...]:
    """Every rule on one line, as rules always are. Raises TaskError for an id that stands twice."""
    rules: dict[str, Rule] = {}
    for index, entry in enumerate(entries):
        text = " ".join(entry.text.split())
        if not text:
            raise _mistake(document, ("rules", index, "text"), "rules: a rule is empty", "remove it")
        key = entry.id or f"rule-{content_hash(text)[:8]}"
        if key in rules:
            raise _mistake(document, ("rules", index), f"rules: the rule {key!r} stands twice", "remove one")
        rules[key] = Rule(id=key, text=text)
    return tuple(rules.values())


def _mistake(document: YamlDocument, loc: Loc, message: str, suggestion: str | None) -> TaskError:

    return TaskError(
        f"front matter: {message}", file=document.file, line=document.line(loc) or 2, suggestion=suggestion
    )


def _quoted(text: str) -> str:
    """Double-quoted YAML on one line.

    >>> _quoted('say "ü"\\n')
    '"say \\\\"ü\\\\"\\\\U0000000a"'
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped) + '"'

"""Guards look at a revision before any compute is spent on it. A guard is one function; the tuple is the order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loopeng.improve.rules import normalise_rule
from loopeng.prompts import PromptTemplate, rendered_template, text_hash
from loopeng.schema import GuardFinding, PromptVersion, Rule, Task

__all__ = ["GUARDS", "Candidate", "Guard", "duplicates", "inspect_rules", "placeholders", "size"]

_DELIMITERS = re.compile(r"\{\{|\}\}|\{%|%\}|\{#|#\}")


@dataclass(frozen=True)
class Candidate:
    """A list of rules that wants to become the next version of ``base``."""

    task: Task
    base: PromptVersion
    rules: tuple[Rule, ...]
    rejected: Mapping[str, str]  # text hash of what a person rejected or rolled back -> the reason given

    @property
    def text_hash(self) -> str:
        """Of template plus rules."""
        return text_hash(self.base.template, self.rules)


Guard = Callable[[Candidate], str | None]
"""The reason why a candidate is refused, or None."""


def placeholders(candidate: Candidate) -> str | None:
    """Rules are plain text and stand at ``{{ rules }}``: no proposal can touch the template and its placeholders."""
    if candidate.rules and not PromptTemplate(candidate.base.template).has_rules_slot:
        return "the template has no {{ rules }}, so rules have no place in it"
    for rule in candidate.rules:
        if found := _DELIMITERS.search(rule.text):
            return f"a rule contains {found[0]!r}, which belongs to the template: {rule.text!r}"
    return None


def size(candidate: Candidate) -> str | None:
    """Prompts must not grow without bound."""
    limits = candidate.task.improve
    if len(candidate.rules) > limits.max_rules:
        return f"{len(candidate.rules)} rules are more than improve.max_rules allows ({limits.max_rules})"
    num_chars = len(rendered_template(candidate.base.template, candidate.rules))
    if num_chars > limits.max_prompt_chars:
        return f"{num_chars} characters are more than improve.max_prompt_chars allows ({limits.max_prompt_chars})"
    return None


def duplicates(candidate: Candidate) -> str | None:
    """A change must change something that nobody has refused yet."""
    if candidate.text_hash == candidate.base.text_hash:
        return "the rules are those of the current version: nothing would change"
    if candidate.text_hash in candidate.rejected:
        return f"the same text was rejected before: {candidate.rejected[candidate.text_hash]!r}"
    seen: set[str] = set()
    for rule in candidate.rules:
        wording = normalise_rule(rule.text)
        if wording in seen:
            return f"a rule stands twice: {rule.text!r}"
        seen.add(wording)
    return None


GUARDS: tuple[Guard, ...] = (placeholders, size, duplicates)


def inspect_rules(candidate: Candidate, guards: tuple[Guard, ...] = GUARDS) -> tuple[GuardFinding, ...]:
    """Every guard's finding; empty when the candidate may be tested."""
    findings = ((guard.__name__, guard(candidate)) for guard in guards)
    return tuple(GuardFinding(guard=name, reason=reason) for name, reason in findings if reason)

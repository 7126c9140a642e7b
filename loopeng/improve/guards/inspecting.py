"""Guards look at a revision before any compute is spent on it. A guard is one function; the tuple is the order."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from loopeng.improve.guards.candidate import Candidate
from loopeng.improve.guards.hidden_text import hidden_text
from loopeng.improve.guards.judge_text import judge_text
from loopeng.improve.guards.overlap import overlap
from loopeng.improve.rules import CHARS_PER_TOKEN, normalise_rule
from loopeng.prompts import PromptTemplate, rendered_template
from loopeng.schema import GuardFinding

__all__ = ["GUARDS", "Candidate", "Guard", "duplicates", "inspect_rules", "placeholders", "size", "why_refused"]

_DELIMITERS = re.compile(r"\{\{|\}\}|\{%|%\}|\{#|#\}")

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
    """Prompts must not grow without bound. Where a limit has been lowered since, what grows no further passes."""
    limits, base = candidate.task.improve, candidate.base
    for number, rule in candidate.new_rules:
        num_tokens = -(-len(rule.text) // CHARS_PER_TOKEN)
        if num_tokens > limits.max_rule_tokens:
            return (
                f"rule {number} has about {num_tokens} tokens (estimated at {CHARS_PER_TOKEN} characters a token), "
                f"more than improve.max_rule_tokens allows ({limits.max_rule_tokens})"
            )
    if len(candidate.rules) > max(limits.max_rules, len(base.rules)):
        return f"{len(candidate.rules)} rules are more than improve.max_rules allows ({limits.max_rules})"
    num_chars = len(rendered_template(base.template, candidate.rules))
    if num_chars > max(limits.max_prompt_chars, len(rendered_template(base.template, base.rules))):
        return f"{num_chars} characters are more than improve.max_prompt_chars allows ({limits.max_prompt_chars})"
    return None


def duplicates(candidate: Candidate) -> str | None:
    """A change must change something that nobody has refused yet."""
    if candidate.text_hash == candidate.base.text_hash:
        return "the rules are those of the current version: nothing would change"
    if candidate.text_hash in candidate.rejected:
        return f"the same text was rejected before: {candidate.rejected[candidate.text_hash]!r}"
    if candidate.change in candidate.rejected_changes:
        return f"the same change was rejected before: {candidate.rejected_changes[candidate.change]!r}"
    seen: set[str] = set()
    for rule in candidate.rules:
        wording = normalise_rule(rule.text)
        if wording in seen:
            return f"a rule stands twice: {rule.text!r}"
        seen.add(wording)
    return None


GUARDS: tuple[Guard, ...] = (placeholders, size, duplicates, overlap, hidden_text, judge_text)


def inspect_rules(candidate: Candidate, guards: tuple[Guard, ...] = GUARDS) -> tuple[GuardFinding, ...]:
    """Every guard's finding; empty when the candidate may be tested."""
    findings = ((guard.__name__, guard(candidate)) for guard in guards)
    return tuple(GuardFinding(guard=name, reason=reason) for name, reason in findings if reason)


def why_refused(findings: Sequence[GuardFinding]) -> str:
    """All findings in one line; empty without any."""
    return "; ".join(f"{each.guard}: {each.reason}" for each in findings)

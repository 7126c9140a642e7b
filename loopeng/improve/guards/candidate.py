"""What the guards look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopeng.improve.rules import normalise_rule
from loopeng.prompts import text_hash
from loopeng.schema import PromptVersion, Rule, RuleOperation, Task

__all__ = ["Candidate", "Change", "change_of"]

Change = frozenset[tuple[str, str, str]]
"""Operations in any order as (op, rule id, wording); additions have no id."""


@dataclass(frozen=True)
class Candidate:
    """A list of rules that wants to become the next version of ``base``."""

    task: Task
    base: PromptVersion
    rules: tuple[Rule, ...]
    rejected: Mapping[str, str]  # text hash of what a person rejected or rolled back -> the reason given
    rejected_changes: Mapping[Change, str] = field(default_factory=dict)  # the same by what it changed, on any base

    @property
    def text_hash(self) -> str:
        """Of template plus rules."""
        return text_hash(self.base.template, self.rules)

    @property
    def new_rules(self) -> list[tuple[int, Rule]]:
        """The rules, numbered from 1, whose text does not stand in the base."""
        known = {rule.text for rule in self.base.rules}
        return [(number, rule) for number, rule in enumerate(self.rules, 1) if rule.text not in known]

    @property
    def change(self) -> Change:
        """What differs from the base."""
        before = {rule.id: rule for rule in self.base.rules}
        operations = [RuleOperation(op="remove", rule_id=each) for each in before.keys() - {r.id for r in self.rules}]
        for rule in self.rules:
            if rule.id not in before:
                operations.append(RuleOperation(op="add", text=rule.text))
            elif normalise_rule(rule.text) != normalise_rule(before[rule.id].text):
                operations.append(RuleOperation(op="update", rule_id=rule.id, text=rule.text))
        return change_of(operations)


def change_of(operations: Sequence[RuleOperation]) -> Change:
    """Two lists of operations that do the same compare equal: order, case and spacing do not count."""
    return frozenset(
        (each.op, "" if each.op == "add" else each.rule_id or "", normalise_rule(each.text or ""))
        for each in operations
    )

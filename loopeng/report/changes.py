"""Rules before and after, as lines a person reads."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.schema import Rule

__all__ = ["rule_changes"]


def rule_changes(before: Sequence[Rule], after: Sequence[Rule]) -> tuple[str, ...]:
    """Removed, reworded and added rules, one line each.

    >>> rule_changes([Rule(id="a", text="Be short.")], [Rule(id="a", text="Be brief."), Rule(id="b", text="No lists.")])
    ('~ Be short. -> Be brief.', '+ No lists.')
    """
    old = {rule.id: rule.text for rule in before}
    new = {rule.id: rule.text for rule in after}
    lines = [f"- {text}" for key, text in old.items() if key not in new]
    lines += [f"~ {old[key]} -> {text}" for key, text in new.items() if key in old and old[key] != text]
    lines += [f"+ {text}" for key, text in new.items() if key not in old]
    return tuple(lines)

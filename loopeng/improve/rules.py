"""The list of rules and its changes: apply operations, and find the operations that lead to an edited list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from loopeng.errors import NotFoundError
from loopeng.schema import Rule, RuleOperation, content_hash

__all__ = ["CHARS_PER_TOKEN", "apply_operations", "normalise_rule", "operations_between"]

CHARS_PER_TOKEN = 4  # what improve.max_rule_tokens is estimated at: no tokenizer is at hand

_LEAST_SIMILARITY = 0.5  # below it an edited text is another rule, not the same one reworded
_REWORDED = 1.0  # cost of an update; a removal and an addition together cost twice as much


def apply_operations(rules: Sequence[Rule], operations: Sequence[RuleOperation]) -> tuple[Rule, ...]:
    """The list after the operations, one after the other; what is added stands at the end. Ids never change.

    A new rule's id is that of its operation, or the hash of its text. Raises NotFoundError for an update or removal of
    a rule that is not in the list.

    >>> first = apply_operations([], [RuleOperation(op="add", text="Write one sentence.")])
    >>> [rule.text for rule in apply_operations(first, [RuleOperation(op="remove", rule_id=first[0].id)])]
    []
    """
    result = list(rules)
    for operation in operations:
        text = _one_line(operation.text or "")
        if operation.op == "add":
            new_id = _free_id(operation.rule_id or f"rule-{content_hash(text)[:8]}", result)
            result.append(Rule(id=new_id, text=text, pattern_ids=operation.pattern_ids))
            continue
        position = _position(result, operation)
        if operation.op == "remove":
            del result[position]
        else:
            pattern_ids = _union(result[position].pattern_ids, operation.pattern_ids)
            result[position] = result[position].model_copy(update={"text": text, "pattern_ids": pattern_ids})
    return tuple(result)


def operations_between(
    base: Sequence[Rule], texts: Sequence[str], *, known: Sequence[Rule] = (), pattern_ids: Sequence[str] = ()
) -> tuple[RuleOperation, ...]:
    """The fewest operations after which ``base`` reads exactly as ``texts``, each on one line.

    Unchanged rules keep their ids, reworded ones are updated, and what cannot stay in order is removed and added again.
    ``known`` are rules that stood in an earlier revision: an addition takes its patterns from the one it resembles
    most, and ``pattern_ids`` where it resembles none.
    """
    wanted = [_one_line(text) for text in texts]
    kept = _align(base, wanted)
    partner = dict(kept)
    operations: list[RuleOperation] = []
    removed: dict[str, Rule] = {}
    for index, rule in enumerate(base):
        if index not in partner:
            operations.append(RuleOperation(op="remove", rule_id=rule.id))
            removed.setdefault(rule.text, rule)
        elif rule.text != wanted[partner[index]]:
            operations.append(RuleOperation(op="update", rule_id=rule.id, text=wanted[partner[index]]))
    for text in wanted[len(kept) :]:
        moved = removed.pop(text, None)
        origin = moved or _most_similar(text, known)
        operations.append(
            RuleOperation(
                op="add",
                rule_id=moved.id if moved else None,
                text=text,
                pattern_ids=origin.pattern_ids if origin else tuple(pattern_ids),
            )
        )
    return tuple(operations)


def normalise_rule(text: str) -> str:
    """What two rules are compared by: case, spacing and the final stop do not count.

    >>> normalise_rule("Write  ONE sentence.") == normalise_rule("write one sentence")
    True
    """
    return " ".join(text.casefold().split()).rstrip(" .!;")


def _one_line(text: str) -> str:
    """Half a character (a lone surrogate) becomes a question mark, as where texts are stored."""
    return " ".join(text.split()).encode("utf-8", "replace").decode("utf-8")


def _position(rules: Sequence[Rule], operation: RuleOperation) -> int:
    for position, rule in enumerate(rules):
        if rule.id == operation.rule_id:
            return position
    known = ", ".join(rule.id for rule in rules) or "none"
    raise NotFoundError(f"cannot {operation.op} rule {operation.rule_id!r}: there is no such rule (there is: {known})")


def _free_id(wanted: str, rules: Sequence[Rule]) -> str:
    taken = {rule.id for rule in rules}
    candidate, number = wanted, 1
    while candidate in taken:
        number += 1
        candidate = f"{wanted}-{number}"
    return candidate


def _union(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _similarity(first: str, second: str) -> float:
    return SequenceMatcher(None, first.split(), second.split(), autojunk=False).ratio()


def _most_similar(text: str, rules: Sequence[Rule]) -> Rule | None:
    scored = [(_similarity(text, rule.text), rule) for rule in rules]
    best, rule = max(scored, key=lambda pair: pair[0], default=(0.0, None))
    return rule if best >= _LEAST_SIMILARITY else None


@dataclass(frozen=True)
class _Step:
    """The cheapest way to a cell of the alignment, and the pairs met on it."""

    cost: float
    pairs: tuple[tuple[int, int], ...]


def _align(base: Sequence[Rule], texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Pairs (base index, text index), in order, that cover the first texts without a gap: additions go to the end."""
    unchanged = {rule.text for rule in base} & set(texts)
    row: list[_Step | None] = [_Step(0.0, ()), *[None] * len(texts)]
    for i, rule in enumerate(base):
        paired = [None, *(_paired(step, i, j, rule, texts, unchanged) for j, step in enumerate(row[:-1]))]
        row = [_cheaper(_removed(step), other) for step, other in zip(row, paired, strict=True)]
    ends = [(step.cost + len(texts) - j, -j, step) for j, step in enumerate(row) if step is not None]
    return min(ends, key=lambda end: end[:2])[2].pairs


def _removed(step: _Step | None) -> _Step | None:
    return step and _Step(step.cost + 1.0, step.pairs)


def _paired(
    step: _Step | None, i: int, j: int, rule: Rule, texts: Sequence[str], unchanged: Collection[str]
) -> _Step | None:
    if step is None:
        return None
    if rule.text == texts[j]:
        return _Step(step.cost, (*step.pairs, (i, j)))
    similarity = _similarity(rule.text, texts[j])
    if similarity < _LEAST_SIMILARITY or rule.text in texts or texts[j] in unchanged:
        return None  # another rule, or one that stands elsewhere in the other list
    return _Step(step.cost + _REWORDED + (1 - similarity) / 10, (*step.pairs, (i, j)))


def _cheaper(first: _Step | None, second: _Step | None) -> _Step | None:
    if first is None or second is None:
        return first or second
    return min(first, second, key=lambda step: step.cost)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.errors import NotFoundError
from loopeng.improve.rules import apply_operations, normalise_rule, operations_between
from loopeng.prompts import text_hash
from loopeng.schema import Rule, RuleOperation

WORDS = st.sampled_from(["write", "one", "sentence", "at", "most", "20", "words", "never", "use", "lists"])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), max_size=7)


def rules_of(texts: list[str]) -> tuple[Rule, ...]:
    return apply_operations((), [RuleOperation(op="add", text=text, pattern_ids=("pat-1",)) for text in texts])


@given(TEXTS, TEXTS)
def test_the_operations_lead_to_exactly_the_edited_list(before: list[str], after: list[str]) -> None:
    base = rules_of(before)
    operations = operations_between(base, after)
    result = apply_operations(base, operations)
    assert [rule.text for rule in result] == after
    assert len({rule.id for rule in result}) == len(result)
    assert len(operations) <= len(before) + len(after)


@given(TEXTS)
def test_no_edit_needs_no_operation(texts: list[str]) -> None:
    assert operations_between(rules_of(texts), texts) == ()


@given(TEXTS, TEXTS)
def test_unchanged_rules_keep_id_and_patterns_wherever_they_stand(before: list[str], after: list[str]) -> None:
    base = rules_of(before)
    result = apply_operations(base, operations_between(base, after))
    by_text = {rule.text: rule for rule in base}
    for rule in result:
        if before.count(rule.text) == after.count(rule.text) == 1:
            assert rule == by_text[rule.text]


@given(TEXTS)
def test_the_same_rules_always_get_the_same_ids(texts: list[str]) -> None:
    assert rules_of(texts) == rules_of(texts)


def test_a_reworded_rule_is_updated_and_a_new_one_is_not() -> None:
    base = rules_of(["Write exactly one sentence.", "Use at most 20 words."])
    (update,) = operations_between(base, ["Write exactly one sentence.", "Use at most 15 words."])
    assert (update.op, update.rule_id, update.text) == ("update", base[1].id, "Use at most 15 words.")
    operations = operations_between(base, ["Write exactly one sentence.", "Name the colour."])
    assert [operation.op for operation in operations] == ["remove", "add"]


def test_an_edited_addition_keeps_the_patterns_it_was_made_for() -> None:
    proposed = rules_of(["Use at most 20 words."])
    (reworded,) = operations_between((), ["Use at most 15 words."], known=proposed, pattern_ids=("pat-9",))
    (other,) = operations_between((), ["Name the colour."], known=proposed, pattern_ids=("pat-9",))
    assert (reworded.pattern_ids, other.pattern_ids) == (("pat-1",), ("pat-9",))


@pytest.mark.parametrize("operation", ["update", "remove"])
def test_a_rule_that_is_not_there_is_named(operation: str) -> None:
    with pytest.raises(NotFoundError, match=rf"cannot {operation} rule 'rule-x'.*rule-"):
        apply_operations(rules_of(["One."]), [RuleOperation(op=operation, rule_id="rule-x", text="Two.")])


def test_a_rule_is_one_line() -> None:
    (rule,) = rules_of(["  Write\n one   sentence. "])
    assert rule.text == "Write one sentence."
    assert normalise_rule(rule.text) == normalise_rule("write ONE sentence")


def test_half_a_character_in_a_rule_breaks_nothing() -> None:
    """An emoji that was cut in two: such a text has no hash and cannot be stored."""
    (rule,) = apply_operations((), [RuleOperation(op="add", text="Be \ud83d brief.")])
    assert rule.text == "Be ? brief."
    assert text_hash("{{ rules }}", [rule])

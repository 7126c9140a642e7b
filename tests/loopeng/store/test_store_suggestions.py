from __future__ import annotations

from loopeng.schema import RuleOperation, Suggestion
from loopeng.store import LoopStore
from tests.loopeng.store.conftest import Clock, Maker


def suggestion(proposal_id: str, number: int, clock: Clock, **values: object) -> Suggestion:
    named = {"proposal_id": proposal_id, "number": number, "outcome": "chosen", "created_at": clock.now}
    return Suggestion.model_validate(named | values)


def test_a_whole_answer_is_kept_once(store: LoopStore, make: Maker, clock: Clock) -> None:
    """A reflector asked twice by two processes must not make a mixture of both answers."""
    proposal = make.proposal()
    operations = (RuleOperation(op="add", text="Be brief.", pattern_ids=("pat-1",)),)
    first = [
        suggestion(proposal.id, 1, clock, operations=operations, text_hash="a" * 64, rationale="long", reply="{…}"),
        suggestion(proposal.id, 2, clock, outcome="malformed", reason="no JSON", reply="\ud800 no"),
    ]
    kept = store.save_suggestions(first)
    assert kept[0] == first[0] and kept[1].reply == "? no"  # a lone surrogate cannot be stored
    other = [suggestion(proposal.id, number, clock, reason="another") for number in (1, 2, 3)]
    assert store.save_suggestions(other) == kept == store.suggestions(proposal.id)
    assert store.save_suggestions([]) == []
    assert store.suggestions("prop-none") == []


def test_settling_changes_outcome_reason_and_counts_only(store: LoopStore, make: Maker, clock: Clock) -> None:
    proposal = make.proposal()
    (kept,) = store.save_suggestions([suggestion(proposal.id, 1, clock, rationale="long")])
    changes = {"outcome": "outscored", "reason": "2 passed more", "num_passed": 1, "num_screened": 6}
    settled = kept.model_copy(update=changes)
    store.settle_suggestions([settled.model_copy(update={"rationale": "something else"})])
    assert store.suggestions(proposal.id) == [settled]


def test_what_was_refused_for_a_prompt_comes_in_order(store: LoopStore, make: Maker, clock: Clock) -> None:
    proposal = make.proposal()
    store.save_suggestions(
        [suggestion(proposal.id, number, clock, outcome=outcome) for number, outcome in
         ((1, "refused"), (2, "chosen"), (3, "refused"), (4, "malformed"))]
    )  # fmt: skip
    assert [each.number for each in store.suggestions_for(proposal.prompt_name, "refused")] == [1, 3]
    assert store.suggestions_for("another", "refused") == []

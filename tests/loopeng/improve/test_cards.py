from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng.approvals import approve, edit
from loopeng.attempt.harness import Harness
from loopeng.cards import card, unified_diff, word_diff
from loopeng.errors import NotFoundError
from loopeng.schema import Proposal
from loopeng.store import LoopStore

TEXTS = st.text(alphabet="ab c\n.,", max_size=60)


def test_the_card_shows_the_change_and_real_outputs(store: LoopStore, pending: Proposal) -> None:
    shown = card(store, pending.id[:9])
    assert shown.id == pending.id and shown.text_hash == store.revision(pending.id).text_hash
    assert shown.diff.splitlines()[-2:] == ["+- Write exactly one sentence.", "+- Use at most 20 words."]
    assert [part.kind for part in shown.word_diff] == ["same", "added"]
    assert shown.before + shown.word_diff[1].text == shown.after
    assert [each.pattern.id for each in shown.patterns] == list(pending.pattern_ids)
    for example in shown.patterns:
        assert example.sample_id is not None and example.sample_id.startswith("reflect-")
        assert example.output.startswith("A fine thing. It is good") and example.reason
    assert [(pair.effect, pair.after) for pair in shown.pairs] == [("fixed", "A fine thing.")] * 4
    assert all(pair.before.startswith("A fine thing. It is good") for pair in shown.pairs)
    assert shown.gate is not None and shown.holdout is not None
    assert shown.cost_change == "prompt tokens 20 -> 80 (+300 %), generated tokens 124 -> 20 (-84 %)"


def test_the_history_tells_what_happened_in_order(store: LoopStore, harness: Harness, pending: Proposal) -> None:
    first = store.revision(pending.id).text_hash
    edit(
        store,
        pending.id,
        by="ben",
        seen=first,
        rules=["Use at most 20 words, one sentence."],
        reason="shorter",
        now=True,
        harness=harness,
    )
    approve(store, pending.id, by="ana", seen=card(store, pending.id).text_hash, accept_untested=True)
    told = [(entry.who, entry.what.split(":")[0]) for entry in card(store, pending.id).history]
    assert told == [
        ("loopeng", "proposal started"),
        ("reflector hints", "revision 1"),
        ("loopeng", "gate of revision 1"),
        ("loopeng", "holdout of revision 1"),
        ("ben", f"edit of revision 1, seen {first[:8]}"),
        ("ben", "revision 2"),
        ("loopeng", "gate of revision 2"),
        ("loopeng", "holdout of revision 2"),
        ("ana", f"approve of revision 2, seen {card(store, pending.id).text_hash[:8]}, accepted without evidence"),
    ]


def test_a_card_counts_as_it_was_when_the_proposal_was_made(store: LoopStore, pending: Proposal) -> None:
    """Once the prompt has moved on nobody has failed under it yet: a decided card must not say 0 samples."""
    approve(store, pending.id, by="ana", seen=card(store, pending.id).text_hash, accept_untested=True)
    assert {pattern.num_samples for pattern in store.patterns("describe")} == {0}
    shown = card(store, pending.id).patterns
    assert [(each.pattern.num_samples, each.pattern.num_occurrences) for each in shown] == [(6, 6), (6, 6)]


def test_a_proposal_without_a_text_has_no_card(store: LoopStore, harness: Harness) -> None:
    pattern = store.patterns()[0]
    proposal = store.create_proposal(
        task=harness.task, base=store.head("describe"), pattern_ids=[pattern.id], expires_at=None
    )
    with pytest.raises(NotFoundError, match="drafting: no text is drafted yet"):
        card(store, proposal.id)


@given(TEXTS, TEXTS)
def test_a_word_diff_holds_both_texts(before: str, after: str) -> None:
    parts = word_diff(before, after)
    assert "".join(part.text for part in parts if part.kind != "added") == before
    assert "".join(part.text for part in parts if part.kind != "removed") == after


def test_no_change_no_diff() -> None:
    assert unified_diff("a", "a") == "" and [part.kind for part in word_diff("a", "a")] == ["same"]

from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import (
    AlreadyDecidedError,
    ConflictError,
    RevisionMismatchError,
    StaleProposalError,
    UsageError,
)
from loopeng.schema import Watch
from loopeng.store import LoopStore

ANOTHER = "Another {{ product }}{{ rules }}"


def test_a_decision_keeps_who_why_and_what_they_saw(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    evidence = {"verdict": "pass", "fixed": 10, "broken": 1}
    seen = make.seen(proposal)
    decision = store.decide(action="approve", by="ana", reason="reads well", evidence=evidence, **seen)
    assert store.decision(proposal.id, 1) == decision
    assert store.decisions(proposal_id=proposal.id) == store.decisions(prompt_name="describe") == [decision]
    assert (decision.by, decision.reason, decision.evidence) == ("ana", "reads well", evidence)
    assert (decision.seen_hash, decision.accepted_untested) == (seen["seen_hash"], False)
    assert store.proposal(proposal.id).state == "approved"
    assert store.head("describe").number == 1  # approving is not committing


def test_accepting_without_evidence_is_recorded(store: LoopStore, make: Any) -> None:
    decision = store.decide(action="approve", by="ana", accepted_untested=True, **make.seen(make.pending()))
    assert store.decisions()[0].accepted_untested
    assert decision.accepted_untested


def test_a_rejection_frees_the_patterns(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    proposal = make.pending(pattern_ids=(pattern_id,))
    store.decide(action="reject", by="ana", reason="too blunt", **make.seen(proposal))
    rejected = store.proposal(proposal.id)
    assert (rejected.state, rejected.state_reason) == ("rejected", "too blunt")
    assert store.pattern(pattern_id).state == "open"


def test_an_edit_is_the_next_revision_tested_again(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    first = store.revision(proposal.id)
    edited = make.revision(proposal, number=99, rule="Stay below 20 words.")
    store.decide(action="edit", by="ana", new_revision=edited, **make.seen(proposal))
    moved = store.proposal(proposal.id)
    assert (moved.state, moved.revision) == ("testing", 2)
    assert store.revisions(proposal.id) == [first, edited.model_copy(update={"revision": 2})]
    assert store.move_proposal(proposal.id, to="pending", frm={"testing"})
    store.decide(action="approve", by="ben", **make.seen(moved))
    version = store.commit_proposal(proposal.id)
    assert version is not None
    assert (version.rules, version.revision) == (edited.rules, 2)
    assert [decision.action for decision in store.decisions(proposal_id=proposal.id)] == ["edit", "approve"]


def test_an_edit_and_only_an_edit_brings_a_text(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    with pytest.raises(UsageError, match="only an edit"):
        store.decide(action="edit", by="ana", **make.seen(proposal))
    with pytest.raises(UsageError, match="only an edit"):
        store.decide(action="approve", by="ana", new_revision=make.revision(proposal), **make.seen(proposal))
    assert store.decisions() == []


@pytest.mark.parametrize("second", ["approve", "reject"])
@pytest.mark.parametrize("first", ["approve", "reject", "edit"])
def test_a_revision_is_decided_once(store: LoopStore, make: Any, first: str, second: str) -> None:
    proposal = make.pending()
    seen = make.seen(proposal)
    text = {"new_revision": make.revision(proposal, 2, rule="other words")} if first == "edit" else {}
    store.decide(action=first, by="ana", **seen, **text)
    state = store.proposal(proposal.id).state
    with pytest.raises(AlreadyDecidedError, match=f"revision 1 is decided: {first} by ana at 2026-01-01 00:00 UTC"):
        store.decide(action=second, by="ben", **seen)
    assert store.proposal(proposal.id).state == state
    assert len(store.decisions()) == 1


def test_a_decision_names_the_pending_revision_and_text(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    seen = make.seen(proposal)
    full_hash = store.revision(proposal.id).text_hash
    for wrong in ("00000000", full_hash[:7], "", full_hash + "0", full_hash[1:9]):
        with pytest.raises(RevisionMismatchError, match=f"has the text {full_hash[:8]}, not {wrong!r}"):
            store.decide(action="approve", by="ana", **(seen | {"seen_hash": wrong}))
    for wrong_revision in (0, 2):
        with pytest.raises(RevisionMismatchError, match="is at revision 1"):
            store.decide(action="approve", by="ana", **(seen | {"revision": wrong_revision}))
    assert store.decisions() == []
    store.decide(action="approve", by="ana", **(seen | {"seen_hash": full_hash.upper()}))


@pytest.mark.parametrize("state", ["testing", "archived"])
def test_what_is_not_waiting_cannot_be_decided(store: LoopStore, make: Any, state: Any) -> None:
    proposal = make.pending()
    store.move_proposal(proposal.id, to=state, frm={"pending"})
    with pytest.raises(ConflictError, match=f"is {state}"):
        store.decide(action="approve", by="ana", **make.seen(proposal))


def test_a_proposal_without_a_text_cannot_be_decided(store: LoopStore, make: Any) -> None:
    proposal = make.proposal()
    store.move_proposal(proposal.id, to="pending", frm={"drafting"})
    with pytest.raises(ConflictError):
        store.decide(action="approve", by="ana", proposal_id=proposal.id, revision=0, seen_hash="0" * 8)


def test_a_snoozed_proposal_can_be_decided(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    store.move_proposal(proposal.id, to="snoozed", frm={"pending"})
    store.decide(action="approve", by="ana", **make.seen(proposal))
    assert store.proposal(proposal.id).state == "approved"


def test_an_expired_proposal_cannot_be_decided_and_says_so_afterwards(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.pending()
    seen = make.seen(proposal)
    clock.advance(days=8)
    with pytest.raises(ConflictError, match="is expired: nobody decided") as raised:
        store.decide(action="approve", by="ana", **seen)
    assert type(raised.value) is ConflictError
    assert store.proposal(proposal.id).state == "expired"


def test_a_stale_proposal_cannot_be_decided(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    store.adopt_template("describe", ANOTHER, by="ana")
    with pytest.raises(StaleProposalError, match="but the head is"):
        store.decide(action="approve", by="ana", **make.seen(proposal))
    assert store.decisions() == []


def test_commit_makes_the_next_version_and_head(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    base = make.head()
    proposal = make.pending(pattern_ids=(pattern_id,))
    revision = store.revision(proposal.id)
    store.decide(action="approve", by="ana", **make.seen(proposal))
    version = store.commit_proposal(proposal.id)
    assert version is not None
    assert version == store.head("describe") == store.prompt_version(version.id)
    assert (version.number, version.parent_id, version.source, version.created_by) == (2, base.id, "proposal", "ana")
    assert (version.template, version.rules, version.text_hash) == (base.template, revision.rules, revision.text_hash)
    assert (version.proposal_id, version.revision) == (proposal.id, 1)
    assert store.proposal(proposal.id).state == "committed"
    assert store.pattern(pattern_id).state == "watching"


def test_commit_twice_gives_the_same_version(store: LoopStore, make: Any) -> None:
    version = make.committed()
    assert store.commit_proposal(version.proposal_id) == version
    later = make.committed(rule="another")
    assert store.commit_proposal(version.proposal_id) == version
    assert store.head("describe") == later
    assert len(store.prompt_versions("describe")) == 3


def test_commit_needs_an_approval(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    with pytest.raises(ConflictError, match="is pending, not approved"):
        store.commit_proposal(proposal.id)
    store.decide(action="reject", by="ana", **make.seen(proposal))
    with pytest.raises(ConflictError, match="is rejected, not approved"):
        store.commit_proposal(proposal.id)
    assert store.head("describe").number == 1


def test_an_approval_is_not_enough_once_the_proposal_was_put_aside(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    store.decide(action="approve", by="ana", **make.seen(proposal))
    assert store.move_proposal(proposal.id, to="archived", frm={"approved"})
    with pytest.raises(ConflictError, match="is archived, not approved"):
        store.commit_proposal(proposal.id)
    assert store.head("describe").number == 1


def test_the_head_moved_between_approval_and_commit(store: LoopStore, make: Any) -> None:
    """Two proposals for one base: approving the second must not revert the first."""
    first, second = make.pending(rule="first"), make.pending(rule="second")
    for proposal in (first, second):
        store.decide(action="approve", by="ana", **make.seen(proposal))
    head = store.commit_proposal(first.id)
    assert store.commit_proposal(second.id) is None
    assert store.commit_proposal(second.id) is None
    assert store.proposal(second.id).state == "stale"
    assert store.head("describe") == head


def test_commit_finds_out_by_itself_that_the_base_is_old(store: LoopStore, make: Any) -> None:
    """Also where nobody marked the proposal: here the head is moved behind the store's back."""
    first, second = make.head(), make.committed()
    proposal = make.pending(rule="another")
    store.decide(action="approve", by="ana", **make.seen(proposal))
    with store._database.write() as session:
        session.connection().exec_driver_sql("UPDATE prompt SET head_id = ?", (first.id,))
    assert store.commit_proposal(proposal.id) is None
    assert store.proposal(proposal.id).state == "stale"
    assert store.head("describe") == first != second


def test_a_watch_is_kept_once(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    version = make.committed(pattern_ids=(pattern_id,))
    watch = Watch(
        prompt_version_id=version.id,
        pattern_id=pattern_id,
        proposal_id=version.proposal_id,
        rate_before=0.5,
        rate_after=0.1,
        created_at=make.clock(),
    )
    store.save_watch(watch)
    store.save_watch(watch.model_copy(update={"rate_after": 0.2}))
    assert store.watches("describe") == [watch]
    assert store.watches("other") == []

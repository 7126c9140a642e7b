from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest

from loopeng.errors import ConflictError, NotFoundError, RevisionMismatchError, StoreError, UsageError
from loopeng.schema.improvement import ProposalState
from loopeng.store import LoopStore

STATES = frozenset(get_args(ProposalState))


def test_a_proposal_starts_in_drafting_and_takes_its_patterns(store: LoopStore, make: Any) -> None:
    task, pattern_id = make.task(), make.pattern()
    expires_at = make.clock() + timedelta(days=7)
    proposal = store.create_proposal(task=task, base=make.head(), pattern_ids=[pattern_id], expires_at=expires_at)
    assert store.proposal(proposal.id) == proposal
    assert (proposal.state, proposal.revision, proposal.pattern_ids) == ("drafting", 0, (pattern_id,))
    assert (proposal.task_name, proposal.expires_at) == ("shop", expires_at)
    assert store.task(proposal.task_hash) == task
    assert store.pattern(pattern_id).state == "proposed"


def test_a_text_that_is_there_already_comes_with_its_proposal(store: LoopStore, make: Any) -> None:
    """In two steps a kill in between would leave a proposal that another text is then made for."""
    pattern_id = make.pattern()
    revision = make.revision(make.proposal()).model_copy(update={"proposal_id": "", "revision": 7})
    arguments = {"task": make.task(), "base": make.head(), "pattern_ids": [pattern_id], "expires_at": None}
    proposal = store.create_proposal(**arguments, revision=revision)
    assert store.proposal(proposal.id) == proposal and (proposal.state, proposal.revision) == ("testing", 1)
    assert store.revisions(proposal.id) == [revision.model_copy(update={"proposal_id": proposal.id, "revision": 1})]
    assert store.pattern(pattern_id).state == "proposed"
    before = store.proposals()
    with pytest.raises(ConflictError):
        store.create_proposal(**arguments, revision=revision)
    assert store.proposals() == before


def test_what_is_said_of_one_text_does_not_move_another(store: LoopStore, make: Any) -> None:
    """Rebased while the gate was still counting: the verdict on the old text must not archive the new one."""
    proposal = make.proposal()
    store.save_revision(make.revision(proposal))
    store.move_proposal(proposal.id, to="testing", frm={"drafting"})
    store.save_revision(make.revision(proposal, 2, rule="Use at most 19 words."))
    moved = {"proposal_id": proposal.id, "to": "archived", "frm": {"testing"}}
    assert not store.move_proposal(**moved, revision=1)
    assert store.proposal(proposal.id).state == "testing"
    assert store.move_proposal(**moved, revision=2)


def test_an_open_proposal_keeps_others_off_its_patterns(store: LoopStore, make: Any) -> None:
    shared, free = make.pattern("shared"), make.pattern("free")
    first = make.proposal(pattern_ids=(shared,))
    with pytest.raises(ConflictError, match=rf"{first.id} \(drafting\) is about {shared} already"):
        make.proposal(pattern_ids=(free, shared))
    assert store.pattern(free).state == "open"
    make.proposal(pattern_ids=(free,))
    assert store.move_proposal(first.id, to="archived", frm={"drafting"}, reason="the guards refused it")
    assert store.pattern(shared).state == "open"
    make.proposal(pattern_ids=(shared,))


def test_an_overdue_proposal_does_not_keep_others_off(store: LoopStore, make: Any, clock: Any) -> None:
    shared = make.pattern()
    first = make.pending(pattern_ids=(shared,))
    clock.advance(days=8)
    make.proposal(pattern_ids=(shared,))
    assert store.proposal(first.id).state == "expired"
    assert store.pattern(shared).state == "proposed"


def test_a_muted_pattern_stays_muted(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    proposal = make.proposal(pattern_ids=(pattern_id,))
    store.set_pattern_state(pattern_id, "muted")
    store.move_proposal(proposal.id, to="archived", frm={"drafting"})
    assert store.pattern(pattern_id).state == "muted"


def test_revisions_are_numbered_from_one_and_kept_once(store: LoopStore, make: Any) -> None:
    proposal = make.proposal()
    first = make.revision(proposal)
    assert store.save_revision(first) == first
    assert store.save_revision(make.revision(proposal, rule="other words")) == first
    second = store.save_revision(make.revision(proposal, 2, rule="other words"))
    assert store.proposal(proposal.id).revision == 2
    assert store.save_revision(first) == first
    assert store.proposal(proposal.id).revision == 2
    assert store.revision(proposal.id) == second
    assert store.revision(proposal.id, 1) == first
    assert store.revisions(proposal.id) == [first, second]


def test_a_revision_that_is_not_the_next_is_refused(store: LoopStore, make: Any) -> None:
    proposal = make.proposal()
    for number in (0, 2):
        with pytest.raises(RevisionMismatchError, match=r"the next revision of .* is 1"):
            store.save_revision(make.revision(proposal, number))
    with pytest.raises(NotFoundError, match="has no revision 0"):
        store.revision(proposal.id)


def test_a_move_is_a_compare_and_swap(store: LoopStore, make: Any) -> None:
    proposal = make.proposal()
    assert store.move_proposal(proposal.id, to="testing", frm={"drafting"}, reason="guards passed") is True
    assert store.move_proposal(proposal.id, to="testing", frm={"drafting"}) is False
    assert store.move_proposal(proposal.id, to="archived", frm={"pending", "snoozed"}) is False
    moved = store.proposal(proposal.id)
    assert (moved.state, moved.state_reason) == ("testing", "guards passed")


@pytest.mark.parametrize("state", ["approved", "rejected", "committed"])
def test_only_a_decision_approves_or_rejects(store: LoopStore, make: Any, state: ProposalState) -> None:
    proposal = make.pending()
    with pytest.raises(UsageError, match="leave a record"):
        store.move_proposal(proposal.id, to=state, frm={"pending"})
    assert store.proposal(proposal.id).state == "pending"


def test_a_committed_proposal_never_moves(store: LoopStore, make: Any) -> None:
    version = make.committed()
    assert store.move_proposal(version.proposal_id, to="testing", frm=STATES) is False
    assert store.proposal(version.proposal_id).state == "committed"


@pytest.mark.parametrize("state", ["pending", "snoozed"])
def test_expiry_is_computed_on_read_and_is_no_rejection(
    store: LoopStore, make: Any, clock: Any, state: ProposalState
) -> None:
    pattern_id = make.pattern()
    proposal = make.pending(pattern_ids=(pattern_id,))
    store.move_proposal(proposal.id, to=state, frm={"pending"})
    clock.advance(days=6, hours=23)
    assert store.proposal(proposal.id).state == state
    clock.advance(hours=1)
    expired = store.proposal(proposal.id)
    assert (expired.state, expired.state_reason) == ("expired", "nobody decided until 2026-01-08 00:00 UTC")
    assert store.proposals(states={"expired"}) == [expired]
    assert store.rejected("describe") == []
    assert store.decisions() == []
    assert store.pattern(pattern_id).state == "open"


def test_work_in_progress_does_not_expire(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.proposal()
    endless = make.proposal(expires_in_days=None)
    store.save_revision(make.revision(endless))
    store.move_proposal(endless.id, to="pending", frm={"drafting"})
    clock.advance(days=800)
    assert store.proposal(proposal.id).state == "drafting"
    assert store.proposal(endless.id).state == "pending"


def test_listing_expires_too_before_it_chooses(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.pending()
    clock.advance(days=8)
    assert store.proposals(states={"pending"}) == []
    assert [found.id for found in store.proposals(states={"expired"})] == [proposal.id]


def test_a_proposal_for_an_old_head_is_stale_before_anyone_clicks(store: LoopStore, make: Any) -> None:
    old = make.head()
    make.committed()
    proposal = store.create_proposal(task=make.task(), base=old, pattern_ids=(), expires_at=None)
    stale = store.proposal(proposal.id)
    told = "made for version 1, but the head is version 2 by now: propose again"
    assert (stale.state, stale.state_reason) == ("stale", told)


def test_a_move_meets_the_state_that_time_brought(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.pending()
    clock.advance(days=8)
    assert store.move_proposal(proposal.id, to="snoozed", frm={"pending"}) is False
    assert store.proposal(proposal.id).state == "expired"


def test_expiry_wins_over_a_later_move_of_the_head(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.pending()
    clock.advance(days=8)
    assert store.adopt_template("describe", "New {{ product }}{{ rules }}", by="ana")[2] == ()
    assert store.proposal(proposal.id).state == "expired"


def test_proposals_are_listed_by_prompt_and_state(store: LoopStore, make: Any) -> None:
    first, second = make.pending(), make.proposal()
    other_head, _, _ = store.adopt_template("other", "T{{ rules }}", by="ana")
    other = store.create_proposal(task=make.task(), base=other_head, pattern_ids=(), expires_at=None)
    assert [proposal.id for proposal in store.proposals()] == [first.id, second.id, other.id]
    assert [proposal.id for proposal in store.proposals(prompt_name="describe")] == [first.id, second.id]
    assert store.proposals(states={"pending"}) == [first]
    assert store.proposals(states=()) == []


def test_a_gate_report_is_kept_once_by_revision_and_split(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    report = make.gate_report(proposal)
    assert store.gate_report(proposal.id, 1) is None
    assert store.save_gate_report(report) == report
    assert store.save_gate_report(make.gate_report(proposal, verdict="fail")) == report
    assert store.gate_report(proposal.id, 1) == report
    holdout = make.gate_report(proposal, split="holdout", verdict="untested")
    assert store.save_gate_report(holdout) == holdout == store.gate_report(proposal.id, 1, "holdout")
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        store.save_gate_report(make.gate_report(proposal, revision=2))


def test_rejections_carry_their_text_and_reason(store: LoopStore, make: Any) -> None:
    proposals = [make.pending(rule=f"rule {number}") for number in range(3)]
    for proposal, action in zip(proposals, ("reject", "approve", "reject"), strict=True):
        store.decide(action=action, by="ana", reason=f"{action} it", **make.seen(proposal))
    found = store.rejected("describe")
    assert [(proposal.id, revision.rules[0].text, decision.reason) for proposal, revision, decision in found] == [
        (proposals[0].id, "rule 0", "reject it"),
        (proposals[2].id, "rule 2", "reject it"),
    ]
    assert store.rejected("other") == []


def test_unknown_proposals_are_not_found(store: LoopStore) -> None:
    for ask in (store.proposal, store.revision, store.revisions, store.commit_proposal):
        with pytest.raises(NotFoundError, match="no proposal 'prop-none'"):
            ask("prop-none")
    with pytest.raises(NotFoundError):
        store.move_proposal("prop-none", to="testing", frm={"drafting"})

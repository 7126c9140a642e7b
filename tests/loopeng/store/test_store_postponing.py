from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from loopeng.errors import (
    AlreadyDecidedError,
    ConflictError,
    RevisionMismatchError,
    StaleProposalError,
    UsageError,
)
from loopeng.schema import Proposal, Rule
from loopeng.store import LoopStore

ANOTHER = "Another {{ product }}{{ rules }}"
DAY = timedelta(days=1)


def test_the_time_asleep_is_added_to_the_expiry(store: LoopStore, make: Any, clock: Any) -> None:
    """Else a proposal put aside for a week would expire in its sleep."""
    proposal = make.pending()
    decision = store.snooze(proposal.id, until=10 * DAY, by="ana", reason="after the fair")
    asleep = store.proposal(proposal.id)
    assert (asleep.state, asleep.snoozed_until) == ("snoozed", clock.now + 10 * DAY)
    assert asleep.expires_at == proposal.expires_at + 10 * DAY
    assert (decision.action, decision.revision, decision.reason) == ("snooze", None, "after the fair")
    assert decision.evidence == {"revision": 1, "until": "2026-01-11T00:00:00+00:00"}
    clock.advance(days=9, hours=23)
    assert store.proposal(proposal.id).state == "snoozed"
    clock.advance(hours=1)
    woken = store.proposal(proposal.id)
    assert (woken.state, woken.snoozed_until) == ("pending", None)
    clock.advance(days=6, hours=23)
    assert store.proposal(proposal.id).state == "pending"
    clock.advance(hours=1)
    assert store.proposal(proposal.id).state == "expired"


def test_waking_early_takes_the_unslept_time_back(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.pending()
    store.snooze(proposal.id, until=clock.now + 4 * DAY, by="ana")
    clock.advance(days=1)
    store.snooze(proposal.id, until=timedelta(0), by="ben")
    woken = store.proposal(proposal.id)
    assert (woken.state, woken.snoozed_until) == ("pending", None)
    assert woken.expires_at == proposal.expires_at + DAY
    assert [(each.action, each.by) for each in store.decisions()] == [("snooze", "ana"), ("snooze", "ben")]


def test_a_second_snooze_counts_from_the_first(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.pending()
    for days in (2, 5, 3):  # longer, then shorter again
        store.snooze(proposal.id, until=days * DAY, by="ana")
        assert store.proposal(proposal.id).expires_at == proposal.expires_at + days * DAY
    clock.advance(days=3)
    assert store.proposal(proposal.id).state == "pending"


def test_nobody_looked_until_it_had_expired(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.pending()
    store.snooze(proposal.id, until=DAY, by="ana")
    clock.advance(days=8)
    expired = store.proposal(proposal.id)
    assert (expired.state, expired.snoozed_until) == ("expired", None)
    with pytest.raises(ConflictError, match="is expired"):
        store.snooze(proposal.id, until=DAY, by="ana")


@pytest.mark.parametrize("action", ["approve", "reject", "edit"])
def test_a_sleeping_proposal_can_be_decided(store: LoopStore, make: Any, action: str) -> None:
    proposal = make.pending()
    store.snooze(proposal.id, until=DAY, by="ana")
    text = {"new_revision": make.revision(proposal, 2, rule="other words")} if action == "edit" else {}
    store.decide(action=action, by="ben", **make.seen(proposal), **text)
    decided = store.proposal(proposal.id)
    assert decided.state == {"approve": "approved", "reject": "rejected", "edit": "testing"}[action]
    assert decided.snoozed_until is None
    with pytest.raises(ConflictError):
        store.snooze(proposal.id, until=DAY, by="ana")


def test_a_head_that_moves_makes_a_sleeping_proposal_stale(store: LoopStore, make: Any, clock: Any) -> None:
    proposal = make.pending()
    store.snooze(proposal.id, until=DAY, by="ana")
    store.adopt_template("describe", ANOTHER, by="file")
    assert (store.proposal(proposal.id).state, store.proposal(proposal.id).snoozed_until) == ("stale", None)
    clock.advance(days=2)
    assert store.proposal(proposal.id).state == "stale"
    with pytest.raises(StaleProposalError, match=f"loopeng queue rebase {proposal.id}"):
        store.snooze(proposal.id, until=DAY, by="ana")


@pytest.mark.parametrize(
    ("until", "message"),
    [
        (timedelta(0), "later time; it is pending now"),
        (-DAY, "later time"),
        (datetime(2025, 1, 1), "no time zone"),
        (timedelta(weeks=521), "at most ten years"),
    ],
)
def test_times_nobody_can_sleep_until(store: LoopStore, make: Any, until: Any, message: str) -> None:
    proposal = make.pending()
    with pytest.raises(UsageError, match=message):
        store.snooze(proposal.id, until=until, by="ana")
    assert store.proposal(proposal.id) == proposal and store.decisions() == []


def test_what_was_seen_may_be_named(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    with pytest.raises(RevisionMismatchError):
        store.snooze(proposal.id, until=DAY, by="ana", seen_hash="0" * 8)
    seen = make.seen(proposal)["seen_hash"]
    assert store.snooze(proposal.id[:9], until=DAY, by="ana", seen_hash=seen).seen_hash == seen
    store.decide(action="reject", by="ana", **make.seen(proposal))
    with pytest.raises(AlreadyDecidedError):
        store.snooze(proposal.id, until=DAY, by="ana")


def stale(store: LoopStore, make: Any, pattern_ids: tuple[str, ...] = ()) -> Proposal:
    proposal = make.pending(pattern_ids=pattern_ids)
    store.adopt_template("describe", ANOTHER, by="file")
    return store.proposal(proposal.id)


def test_a_rebase_is_a_new_revision_for_the_head(store: LoopStore, make: Any, clock: Any) -> None:
    pattern_id = make.pattern()
    proposal = stale(store, make, (pattern_id,))
    assert (proposal.state, store.pattern(pattern_id).state) == ("stale", "open")
    head, text = store.head("describe"), make.revision(proposal, 2)
    decision = store.rebase(proposal.id, text, base_version_id=head.id, by="ana", reason="still wanted")
    moved = store.proposal(proposal.id)
    assert (moved.state, moved.revision, moved.base_version_id, moved.expires_at) == ("testing", 2, head.id, None)
    assert store.pattern(pattern_id).state == "proposed"
    assert store.revision(proposal.id) == text
    assert (decision.action, decision.revision, decision.by) == ("rebase", None, "ana")
    assert (decision.evidence["from_version"], decision.evidence["to_version"]) == (1, 2)
    clock.advance(days=30)
    assert store.proposal(proposal.id).state == "testing"  # its time to decide has not begun


def test_only_a_stale_proposal_is_rebased(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    with pytest.raises(ConflictError, match="is pending, not stale"):
        store.rebase(proposal.id, make.revision(proposal, 2), base_version_id=make.head().id, by="ana")
    assert store.decisions() == []


def test_a_head_that_moves_again_stops_the_rebase(store: LoopStore, make: Any) -> None:
    proposal = stale(store, make)
    head = store.head("describe")
    store.adopt_template("describe", "A third {{ product }}{{ rules }}", by="file")
    with pytest.raises(StaleProposalError, match="moved to version 3: rebase again"):
        store.rebase(proposal.id, make.revision(proposal, 2), base_version_id=head.id, by="ana")
    assert store.proposal(proposal.id) == proposal and store.decisions() == []


def test_an_open_proposal_about_the_same_pattern_stops_the_rebase(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    proposal = stale(store, make, (pattern_id,))
    head = store.head("describe")
    other = store.create_proposal(task=make.task(), base=head, pattern_ids=[pattern_id], expires_at=None)
    with pytest.raises(ConflictError, match=f"{other.id} .* is about {pattern_id} already"):
        store.rebase(proposal.id, make.revision(proposal, 2), base_version_id=head.id, by="ana")
    assert store.proposal(proposal.id).revision == 1 and store.decisions() == []


def test_two_rebases_make_one_revision(store: LoopStore, make: Any) -> None:
    proposal = stale(store, make)
    head = store.head("describe")
    store.rebase(proposal.id, make.revision(proposal, 2), base_version_id=head.id, by="ana")
    with pytest.raises(ConflictError, match="is testing, not stale"):
        store.rebase(proposal.id, make.revision(proposal, 2), base_version_id=head.id, by="ben")
    assert [each.by for each in store.decisions()] == ["ana"]


def test_a_rebase_that_follows_another_text_stops(store: LoopStore, make: Any) -> None:
    """Rebased and stale again meanwhile: what is recorded must be what was made."""
    proposal = stale(store, make)
    head = store.head("describe")
    for number in (1, 3):
        with pytest.raises(RevisionMismatchError, match="is at revision 1 by now: rebase again"):
            store.rebase(proposal.id, make.revision(proposal, number), base_version_id=head.id, by="ana")
    assert store.proposal(proposal.id) == proposal and store.decisions() == []


def rollback_proposal(store: LoopStore, make: Any, pattern_id: str) -> Proposal:
    """As a watch starts it: what a commit added is taken away again."""
    head = store.head("describe")
    proposal = store.create_proposal(
        task=make.task(), base=head, pattern_ids=[pattern_id], expires_at=None, kind="rollback"
    )
    store.save_revision(make.revision(proposal).model_copy(update={"rules": (Rule(id="r", text="as it was"),)}))
    assert store.move_proposal(proposal.id, to="pending", frm={"drafting"})
    return store.proposal(proposal.id)


def test_a_rollback_that_is_approved_reopens_the_pattern(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    make.committed(pattern_ids=(pattern_id,))
    assert store.pattern(pattern_id).state == "watching"
    proposal = rollback_proposal(store, make, pattern_id)
    store.decide(action="approve", by="ana", **make.seen(proposal))
    version = store.commit_proposal(proposal.id)
    assert version is not None and version == store.head("describe")
    assert (version.source, version.number, version.proposal_id) == ("rollback", 3, proposal.id)
    assert [rule.text for rule in version.rules] == ["as it was"]
    assert store.pattern(pattern_id).state == "reopened"
    assert store.commit_proposal(proposal.id) == version


def test_a_stale_rollback_names_no_rebase(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    make.committed(pattern_ids=(pattern_id,))
    proposal = rollback_proposal(store, make, pattern_id)
    store.adopt_template("describe", ANOTHER, by="file")
    assert "rebase" not in (store.proposal(proposal.id).state_reason or "")

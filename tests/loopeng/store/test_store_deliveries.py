from __future__ import annotations

from datetime import timedelta
from typing import Any

from loopeng.schema import Delivery, Proposal
from loopeng.store import LoopStore

URL = "http://localhost:1/hook"


def queued(store: LoopStore, make: Any) -> tuple[Proposal, Delivery]:
    proposal = make.proposal()
    store.save_revision(make.revision(proposal))
    assert store.move_proposal(proposal.id, to="pending", frm={"drafting"}, webhook_url=URL)
    (delivery,) = store.deliveries(proposal.id)
    return store.proposal(proposal.id), delivery


def test_the_call_is_due_from_the_moment_the_proposal_is_pending(store: LoopStore, make: Any) -> None:
    proposal, delivery = queued(store, make)
    assert store.due_deliveries() == [delivery]
    assert (delivery.proposal_id, delivery.revision, delivery.url, delivery.num_tries) == (proposal.id, 1, URL, 0)


def test_a_move_that_is_refused_queues_nothing(store: LoopStore, make: Any) -> None:
    proposal = make.pending()
    assert not store.move_proposal(proposal.id, to="pending", frm={"testing"}, webhook_url=URL)
    assert store.deliveries() == []


def test_a_try_is_made_by_one_process(store: LoopStore, make: Any, clock: Any) -> None:
    """Both have read the row; the second finds that the try it wants to make is counted already."""
    _, delivery = queued(store, make)
    first = store.claim_delivery(delivery, again_after=timedelta(minutes=5))
    assert store.claim_delivery(delivery, again_after=timedelta(minutes=5)) is None
    assert first is not None and (first.num_tries, first.next_try_at) == (1, clock.now + timedelta(minutes=5))
    assert store.due_deliveries() == []
    clock.advance(minutes=5)  # whoever claimed it was killed
    assert store.due_deliveries() == [first]


def test_delivered_is_delivered(store: LoopStore, make: Any, clock: Any) -> None:
    """A slow try that failed in the end must not undo what a later one reached."""
    _, delivery = queued(store, make)
    slow = store.claim_delivery(delivery, again_after=timedelta(0))
    assert slow is not None
    quick = store.claim_delivery(slow, again_after=timedelta(minutes=5))
    assert quick is not None
    done = store.note_delivery(quick, error=None)
    assert (done.delivered_at, done.next_try_at, done.num_tries) == (clock.now, None, 2)
    assert store.note_delivery(slow, error="timed out") == done
    assert store.claim_delivery(done, again_after=None) is None


def test_the_last_try_is_the_end(store: LoopStore, make: Any) -> None:
    _, delivery = queued(store, make)
    last = store.claim_delivery(delivery, again_after=None)
    assert last is not None
    given_up = store.note_delivery(last, error="answered 500")
    assert (given_up.next_try_at, given_up.delivered_at, given_up.last_error) == (None, None, "answered 500")


def test_an_error_that_is_final_ends_the_tries(store: LoopStore, make: Any) -> None:
    _, delivery = queued(store, make)
    claimed = store.claim_delivery(delivery, again_after=timedelta(minutes=5))
    assert claimed is not None
    assert store.note_delivery(claimed, error="answered 410", final=True).next_try_at is None
    assert store.due_deliveries() == []

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from loopeng.approvals import approve, edit, reject, rollback
from loopeng.errors import AlreadyDecidedError, ConflictError, NotFoundError, RevisionMismatchError, UsageError
from loopeng.schema import Proposal
from loopeng.store import LoopStore


@pytest.fixture
def text_hash(store: LoopStore, pending: Proposal) -> str:
    return store.revision(pending.id).text_hash


def test_without_evidence_the_flag_is_needed_and_recorded(store: LoopStore, pending: Proposal, text_hash: str) -> None:
    with pytest.raises(UsageError, match=r"5 pairs are too few to tell.*accept_untested=True"):
        approve(store, pending.id, by="ana", seen=text_hash)
    assert store.decisions() == []
    decision = approve(store, pending.id, by=" ana ", seen=text_hash[:8], accept_untested=True, reason="fine").decision
    assert decision.accepted_untested and (decision.by, decision.reason) == ("ana", "fine")
    assert decision.evidence["gate"]["verdict"] == "underpowered"
    assert decision.evidence["gate"]["pairs"]["fixed"] == 4
    assert decision.evidence["holdout"]["pairs"]["num_pairs"] == 3


@pytest.mark.parametrize("seen", ["", "12345678", "short"])
def test_nobody_approves_a_text_they_have_not_seen(store: LoopStore, pending: Proposal, seen: str) -> None:
    with pytest.raises(RevisionMismatchError):
        approve(store, pending.id, by="ana", seen=seen, accept_untested=True)
    assert store.proposal(pending.id).state == "pending"


def test_seven_digits_are_not_enough(store: LoopStore, pending: Proposal, text_hash: str) -> None:
    with pytest.raises(RevisionMismatchError):
        reject(store, pending.id, by="ana", seen=text_hash[:7], reason="no")


def test_nobody_decides_anonymously_or_rejects_without_a_reason(
    store: LoopStore, pending: Proposal, text_hash: str
) -> None:
    with pytest.raises(UsageError, match="name"):
        approve(store, pending.id, by=" ", seen=text_hash, accept_untested=True)
    with pytest.raises(UsageError, match="reason"):
        reject(store, pending.id, by="ana", seen=text_hash, reason=" ")
    with pytest.raises(UsageError, match="reason"):
        rollback(store, "describe", to=None, by="ana", reason="")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([""], "a rule is empty"),
        (["Be kind.", " "], "a rule is empty"),
        ("Be kind.", "a list of texts, not 'Be kind.'"),
    ],
)
def test_rules_that_are_none(
    store: LoopStore, pending: Proposal, text_hash: str, rules: list[str], message: str
) -> None:
    """A lone string is a list of its letters to Python: no person means that."""
    with pytest.raises(UsageError, match=message):
        edit(store, pending.id, by="ana", seen=text_hash, rules=rules)
    assert store.decisions() == []


def test_a_second_decision_hears_of_the_first(store: LoopStore, pending: Proposal, text_hash: str) -> None:
    reject(store, pending.id, by="ana", seen=text_hash, reason="no")
    for decide in (
        lambda: approve(store, pending.id, by="ben", seen=text_hash),
        lambda: reject(store, pending.id, by="ben", seen=text_hash, reason="no"),
        lambda: edit(store, pending.id, by="ben", seen=text_hash, rules=["Be kind."]),
    ):
        with pytest.raises(AlreadyDecidedError, match=r"reject by ana at 20\d\d"):
            decide()
    assert len(store.decisions()) == 1


def test_two_processes_approve_at_once(
    database: Path, pending: Proposal, text_hash: str, store: LoopStore, child: Callable[[Callable[[], object]], int]
) -> None:
    """One wins, the other hears that it was too late; there is one decision and one commit."""
    go, start = os.pipe()

    def decide() -> None:
        with LoopStore.open(database) as own:
            os.close(start)
            os.read(go, 1)  # ends when the parent closes its end
            approve(own, pending.id, by=str(os.getpid()), seen=text_hash, accept_untested=True)

    pids = [child(decide), child(decide)]
    os.close(start)
    codes = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
    os.close(go)
    assert codes == [0, AlreadyDecidedError.exit_code]
    assert len(store.decisions()) == 1 and store.proposal(pending.id).state == "committed"
    assert [version.number for version in store.prompt_versions("describe")] == [1, 2]
    assert len(store.watches("describe")) == 2


def test_rollback_by_number_id_or_parent(store: LoopStore, pending: Proposal, text_hash: str) -> None:
    first = store.head("describe")
    with pytest.raises(UsageError, match="nothing to go back to"):
        rollback(store, "describe", to=None, by="ana", reason="r")
    approve(store, pending.id, by="ana", seen=text_hash, accept_untested=True)
    for to in (1, "1", "v1", first.id):
        assert rollback(store, "describe", to=to, by="ana", reason="r") == first
        rollback(store, "describe", to=2, by="ana", reason="r")
    with pytest.raises(UsageError, match="head"):
        rollback(store, "describe", to=2, by="ana", reason="r")
    with pytest.raises(NotFoundError, match=r"no version 9; there are: 1 .*2 "):
        rollback(store, "describe", to=9, by="ana", reason="r")
    with pytest.raises(NotFoundError, match="no prompt 'nothing'"):
        rollback(store, "nothing", to=None, by="ana", reason="r")


def test_an_archived_proposal_takes_no_decision(store: LoopStore, pending: Proposal, text_hash: str) -> None:
    store.move_proposal(pending.id, to="archived", frm={"pending"}, reason="by hand")
    with pytest.raises(ConflictError, match="archived: by hand"):
        edit(store, pending.id, by="ana", seen=text_hash, rules=["Be kind."])
    with pytest.raises(ConflictError, match="archived: by hand"):
        approve(store, pending.id, by="ana", seen=text_hash)

"""Whatever is called in whatever order: a revision has one decision, a head is a version, and nothing is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import Any, get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from loopeng.errors import AlreadyDecidedError, ConflictError, UsageError
from loopeng.prompts import text_hash
from loopeng.schema import OPEN_STATES, Decision, Proposal, Revision, Rule, Task
from loopeng.schema.improvement import ProposalState
from loopeng.store import LoopStore

STATES: list[ProposalState] = list(get_args(ProposalState))
TEMPLATES = ["One {{ rules }}", "Two {{ rules }}"]
TASK = Task.model_validate(
    {
        "version": 1,
        "name": "shop",
        "prompt": {"name": "describe", "template": TEMPLATES[0]},
        "dataset": {"samples": [{}]},
        "evaluators": [{"id": "short", "type": "length"}],
        "template": TEMPLATES[0],
        "samples": [{"id": "s1", "inputs": {}, "split": "reflect"}],
    }
)


class ProposalMachine(RuleBasedStateMachine):
    """Calls in any order, a clock that runs, and a model of what must hold. Each example has a prompt of its own."""

    store: LoopStore
    clock: Any
    num_examples = 0
    proposals: Bundle[str] = Bundle("proposals")

    def __init__(self) -> None:
        super().__init__()
        type(self).num_examples += 1
        self.prompt = f"describe-{self.num_examples}"
        self.decided: dict[tuple[str, int], Decision] = {}
        self.unsettling: list[Decision] = []
        self.store.adopt_template(self.prompt, TEMPLATES[0], by="file")

    def teardown(self) -> None:
        versions = self.store.prompt_versions(self.prompt)
        assert [version.number for version in versions] == list(range(1, len(versions) + 1))
        assert self.store.head(self.prompt) in versions

    @initialize(target=proposals)
    def two_proposals(self) -> Any:
        return multiple(self.create(2), self.create(3))

    @rule(target=proposals, days=st.integers(0, 3))
    def propose(self, days: int) -> str:
        return self.create(days)

    def create(self, days: int) -> str:
        expires_at = self.clock.now + timedelta(days=days)
        proposal = self.store.create_proposal(
            task=TASK, base=self.store.head(self.prompt), pattern_ids=(), expires_at=expires_at
        )
        self.save_revision(proposal)
        assert self.store.move_proposal(proposal.id, to="pending", frm={"drafting"})
        return proposal.id

    @rule(proposal_id=proposals, text=st.sampled_from(["a", "b"]))
    def revise(self, proposal_id: str, text: str) -> None:
        self.save_revision(self.store.proposal(proposal_id), text)

    def save_revision(self, proposal: Proposal, text: str = "a") -> None:
        self.store.save_revision(self.revision_of(proposal.id, proposal.revision + 1, text))

    def revision_of(self, proposal_id: str, number: int, text: str) -> Revision:
        rules = (Rule(id="r", text=text),)
        return Revision(
            proposal_id=proposal_id,
            revision=number,
            operations=(),
            rules=rules,
            text_hash=text_hash(TEMPLATES[0], rules),
            author="test",
            created_at=self.clock.now,
        )

    @rule(
        proposal_id=proposals, to=st.sampled_from(STATES), frm=st.sampled_from([STATES, *([state] for state in STATES)])
    )
    def move(self, proposal_id: str, to: ProposalState, frm: list[ProposalState]) -> None:
        before = self.store.proposal(proposal_id).state
        try:
            moved = self.store.move_proposal(proposal_id, to=to, frm=frm)
        except UsageError:
            assert to in ("approved", "rejected", "committed")
            return
        assert moved == (before in frm and before != "committed")

    @rule(
        proposal_id=proposals,
        action=st.sampled_from(["approve", "approve", "reject", "edit"]),
        back=st.integers(0, 1),
    )
    def decide(self, proposal_id: str, action: Any, back: int) -> None:
        current = self.store.proposal(proposal_id)
        number = max(current.revision - back, 1)
        seen_hash = self.store.revision(proposal_id, number).text_hash
        new_revision = self.revision_of(proposal_id, 1, "edited") if action == "edit" else None
        try:
            decision = self.store.decide(
                action=action,
                proposal_id=proposal_id,
                revision=number,
                seen_hash=seen_hash,
                by="ana",
                new_revision=new_revision,
            )
        except AlreadyDecidedError:
            assert (proposal_id, number) in self.decided
        except ConflictError:
            assert back or current.state not in ("pending", "snoozed")
        else:
            assert (proposal_id, number) not in self.decided
            self.decided[proposal_id, number] = decision

    @rule(proposal_id=proposals, days=st.integers(0, 4))
    def snooze(self, proposal_id: str, days: int) -> None:
        before = self.store.proposal(proposal_id)
        try:
            decision = self.store.snooze(proposal_id, until=timedelta(days=days), by="ana")
        except UsageError:
            assert before.state == "pending" and not days
        except ConflictError:
            assert not before.decidable or (proposal_id, before.revision) in self.decided
        else:
            self.unsettling.append(decision)
            after = self.store.proposal(proposal_id)
            assert after.state == ("snoozed" if days else "pending")
            assert (after.snoozed_until or self.clock.now) == self.clock.now + timedelta(days=days)

    @rule(proposal_id=proposals)
    def rebase(self, proposal_id: str) -> None:
        before, head = self.store.proposal(proposal_id), self.store.head(self.prompt)
        text = self.revision_of(proposal_id, before.revision + 1, "rebased")
        try:
            decision = self.store.rebase(proposal_id, text, base_version_id=head.id, by="ana")
        except ConflictError:
            assert before.state != "stale"
        else:
            self.unsettling.append(decision)
            after = self.store.proposal(proposal_id)
            assert (after.state, after.base_version_id, after.revision) == ("testing", head.id, before.revision + 1)

    @rule(proposal_id=proposals)
    def commit(self, proposal_id: str) -> None:
        before = self.store.proposal(proposal_id)
        try:
            version = self.store.commit_proposal(proposal_id)
        except ConflictError:
            assert before.state not in ("committed", "stale")
            assert before.state != "approved" or (proposal_id, before.revision) not in self.decided
            return
        assert before.state in ("approved", "committed", "stale")
        assert (version is None) == (before.state == "stale")
        if version is not None:
            approval = self.decided[proposal_id, version.revision or 0]
            assert (approval.action, approval.by) == ("approve", version.created_by)

    @rule(template=st.sampled_from(TEMPLATES))
    def edit_the_file(self, template: str) -> None:
        assert self.store.adopt_template(self.prompt, template, by="file")[0].template == template

    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        head = self.store.head(self.prompt)
        target = data.draw(st.sampled_from(self.store.prompt_versions(self.prompt)), label="to")
        if target != head:
            self.store.rollback(self.prompt, to_version_id=target.id, seen_head_id=head.id, by="ben", reason="")
            assert self.store.head(self.prompt) == target

    @rule(days=st.integers(1, 2))
    def wait(self, days: int) -> None:
        self.clock.now += timedelta(days=days)

    @invariant()
    def decisions_are_those_taken_and_one_per_revision(self) -> None:
        made = self.store.decisions(prompt_name=self.prompt)
        assert [decision for decision in made if decision.action in ("snooze", "rebase")] == self.unsettling
        kept = [decision for decision in made if decision.revision is not None]
        assert {(decision.proposal_id, decision.revision): decision for decision in kept} == self.decided
        assert len(kept) == len(self.decided)

    @invariant()
    def states_say_what_was_decided_and_what_the_time_is(self) -> None:
        head = self.store.head(self.prompt)  # raises if it is not a version
        for proposal in self.store.proposals(prompt_name=self.prompt):
            if proposal.state in OPEN_STATES:
                assert proposal.base_version_id == head.id
            if proposal.state in ("approved", "rejected"):
                actions = {made.action for key, made in self.decided.items() if key[0] == proposal.id}
                assert {"approved": "approve", "rejected": "reject"}[proposal.state] in actions
            if proposal.state in ("pending", "snoozed"):
                assert proposal.expires_at is None or proposal.expires_at > self.clock.now
            assert proposal.snoozed_until is None or (
                proposal.state == "snoozed" and proposal.snoozed_until > self.clock.now
            )


def test_no_sequence_of_calls_breaks_the_rules(store: LoopStore, clock: Any) -> None:
    machine = type("Machine", (ProposalMachine,), {"store": store, "clock": clock})
    few = settings(max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=few)  # type: ignore[no-untyped-call]
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []

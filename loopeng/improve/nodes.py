"""The stations of the IMPROVE circle. Each reads the database, does one thing under a natural key, and says whether to
go on.

Running a node twice changes nothing, so a process may be killed in any of them. The graph's state holds ids and small
values only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from langgraph.graph import END
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict

from loopeng.attempt.events import ProgressEvent, PromptExported, ProposalMoved
from loopeng.attempt.harness import Harness
from loopeng.errors import BudgetStop
from loopeng.improve.exporting import export_on_commit
from loopeng.improve.gate.comparing import Trial, TrialSplit, compare
from loopeng.improve.guards.inspecting import inspect_rules, why_refused
from loopeng.improve.publishing import publish_proposal
from loopeng.improve.reflection.drafting import (
    NUM_TRIES,
    draft,
    failed_too_often,
    repeat_revision,
    revision_candidate,
    why_nothing,
)
from loopeng.improve.reproduction import NOT_REPRODUCED
from loopeng.improve.reproduction import reproduce as run_again
from loopeng.improve.spending import limit_note
from loopeng.improve.watch.watching import watch_rows
from loopeng.schema import DECIDABLE_STATES, GateReport, Proposal
from loopeng.schema.improvement import ProposalState
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore

__all__ = [
    "STATION_OF_STATE",
    "ImproveContext",
    "ImproveState",
    "await_decision",
    "commit",
    "gate",
    "guards",
    "holdout",
    "publish",
    "reflect",
    "reproduce",
    "route",
    "start",
    "watch",
]

STATION_OF_STATE: dict[str, str] = {
    "drafting": "reproduce",
    "testing": "guards",
    **dict.fromkeys(DECIDABLE_STATES, "AWAIT"),
    "approved": "commit",
    "committed": "watch",
}


class ImproveState(TypedDict, total=False):
    """What a checkpoint holds."""

    proposal_id: str
    going: bool  # whether the last station leads to the next one


@dataclass(frozen=True)
class ImproveContext:
    """What the nodes work with; never in a checkpoint."""

    store: LoopStore
    harness_for: Callable[[Proposal], Harness]  # called only by stations that generate
    limits_for: Callable[[], BudgetSpec]  # called only where something is generated
    on_event: Callable[[ProgressEvent], None]

    @property
    def limits(self) -> BudgetSpec:
        """``improve.limits``."""
        return self.limits_for()

    def move(
        self,
        proposal: Proposal,
        to: ProposalState,
        frm: Collection[ProposalState],
        reason: str | None = None,
        expires_at: datetime | None = None,
    ) -> bool:
        """Compare and swap the state, and tell. False when somebody else has moved the proposal, or its text."""
        if not self.store.move_proposal(
            proposal.id, to=to, frm=frm, reason=reason, expires_at=expires_at, revision=proposal.revision
        ):
            return False
        self.on_event(ProposalMoved(proposal.id, to, reason))
        return True

    def stay(self, proposal: Proposal, stop: BudgetStop) -> None:
        """Leave a proposal where a limit stopped it, and tell."""
        self.move(proposal, proposal.state, {proposal.state}, limit_note(stop))


def route(state: ImproveState) -> ImproveState:
    """Where every call begins, whatever the checkpoint says: see ``start``."""
    return {}


def start(state: ImproveState, runtime: Runtime[ImproveContext]) -> str:
    """The station that the proposal's state in the database asks for."""
    proposal = _proposal(state, runtime)
    if proposal.kind == "rollback" and proposal.state in ("drafting", "testing"):
        return "publish" if proposal.revision else END  # its evidence is there already: what its watch found
    return STATION_OF_STATE.get(proposal.state, END)


def reproduce(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """See that the failures come back; where none does, the proposal ends. A limit leaves it in drafting."""
    context, proposal = runtime.context, _proposal(state, runtime)
    if proposal.state != "drafting" or proposal.revision:
        return _going(proposal.state == "drafting")
    try:
        found = run_again(context.harness_for(proposal), proposal, context.limits)
    except BudgetStop as stop:
        context.stay(proposal, stop)
        return _going(False)
    if found.refuted:
        context.move(proposal, "archived", {"drafting"}, f"{NOT_REPRODUCED}: {found.summary}")
    return _going(not found.refuted)


def reflect(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """Ask the reflector and keep its best change as revision 1; nothing to change ends the proposal.

    At a limit the proposal stays in drafting: what is asked and run by then is kept.
    """
    context, proposal = runtime.context, _proposal(state, runtime)
    if proposal.revision == 0:
        try:
            change = draft(context.store, context.harness_for(proposal), proposal, context.limits)
        except BudgetStop as stop:
            context.stay(proposal, stop)
            return _going(False)
        if change is None:
            context.move(proposal, "archived", {"drafting"}, why_nothing(context.store, proposal))
            return _going(False)
    return _going(context.move(_proposal(state, runtime), "testing", {"drafting"}))


def guards(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """Refuse a bad revision before any compute is spent on it."""
    context, proposal = runtime.context, _proposal(state, runtime)
    findings = inspect_rules(revision_candidate(context.store, proposal))
    if findings:
        context.move(proposal, "archived", {"testing"}, why_refused(findings))
    return _going(not findings)


def gate(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """Test the revision on the gate split. What fails ends here; a test in error leaves the proposal in testing."""
    context, proposal = runtime.context, _proposal(state, runtime)
    earlier = context.store.gate_report(proposal.id, proposal.revision, "gate")
    if earlier is not None and earlier.verdict == "error":
        context.store.void_look(proposal.id, proposal.revision)  # again, if a kill came between report and this
        proposal = repeat_revision(context.store, proposal)
    report = _trial(context, proposal, "gate")
    if report is None:
        return _going(False)
    if report.verdict == "error":
        context.store.void_look(proposal.id, proposal.revision)
        if failed_too_often(context.store, proposal):
            context.move(proposal, "archived", {"testing"}, f"gate: {NUM_TRIES} tests came to nothing: {report.note}")
        else:
            context.move(proposal, "testing", {"testing"}, report.note)
    elif report.verdict == "fail":
        context.move(proposal, "archived", {"testing"}, f"gate: {report.note}")
    return _going(report.verdict not in ("error", "fail"))


def holdout(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """Count both arms once on samples that nothing was chosen by; shown to the person, never part of the verdict."""
    context, proposal = runtime.context, _proposal(state, runtime)
    gated = context.store.gate_report(proposal.id, proposal.revision, "gate")
    if gated is None:
        return _going(False)  # it has another text by now, which somebody has queued
    if gated.verdict == "not_replayable":
        return _going(True)
    return _going(_trial(context, proposal, "holdout") is not None)


def publish(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """Put the proposal into the queue, or past it; a change whose current text no gate has seen stays where it is."""
    context, proposal = runtime.context, _proposal(state, runtime)
    if proposal.kind == "change" and context.store.gate_report(proposal.id, proposal.revision, "gate") is None:
        return _going(False)
    return _going(publish_proposal(context.store, proposal, context.on_event))


def await_decision(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """Wait for a person. What the graph is resumed with is ignored: ``route`` reads the decision from the database."""
    proposal = _proposal(state, runtime)
    if proposal.decidable and runtime.context.store.decision(proposal.id, proposal.revision) is None:
        interrupt({"proposal_id": proposal.id, "revision": proposal.revision})
    return {}


def commit(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """Move the prompt's head to the approved text, or find that the head has moved meanwhile; then write its file."""
    context = runtime.context
    version = context.store.commit_proposal(state["proposal_id"])
    proposal = _proposal(state, runtime)
    context.on_event(ProposalMoved(proposal.id, proposal.state, proposal.state_reason))
    export = export_on_commit(context.store, proposal.prompt_name) if version is not None else None
    if export is not None:
        context.on_event(PromptExported(export.version, export.path, export.error))
    return _going(version is not None and proposal.kind == "change")  # a rollback promises nothing to look at


def watch(state: ImproveState, runtime: Runtime[ImproveContext]) -> ImproveState:
    """Note what to look at from now on: one row for each pattern the proposal is meant to stop."""
    store, proposal = runtime.context.store, _proposal(state, runtime)
    for row in watch_rows(store, proposal):
        store.save_watch(row)
    return _going(False)


def _trial(context: ImproveContext, proposal: Proposal, split: TrialSplit) -> GateReport | None:
    """The report of the current revision on a split; None when a limit was reached or the proposal moved away."""
    store = context.store
    if proposal.state != "testing":
        return None
    done = store.gate_report(proposal.id, proposal.revision, split)
    if done is not None:
        return done
    trial = Trial(
        proposal, store.revision(proposal.id, proposal.revision), store.prompt_version(proposal.base_version_id), split
    )
    try:
        return store.save_gate_report(compare(context.harness_for(proposal), trial, context.limits))
    except BudgetStop as stop:
        context.stay(proposal, stop)
        return None


def _proposal(state: ImproveState, runtime: Runtime[ImproveContext]) -> Proposal:
    return runtime.context.store.proposal(state["proposal_id"])


def _going(on: bool) -> ImproveState:
    return {"going": on}

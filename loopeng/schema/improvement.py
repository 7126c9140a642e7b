"""What leads to a prompt change and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, model_validator

from loopeng.schema.base import FaultSide, Noun

__all__ = [
    "DECIDABLE_STATES",
    "OPEN_STATES",
    "Action",
    "Decision",
    "Delivery",
    "FailurePattern",
    "GuardFinding",
    "PatternState",
    "PromptVersion",
    "Proposal",
    "ProposalKind",
    "ProposalState",
    "Revision",
    "Rule",
    "RuleOperation",
    "Suggestion",
    "SuggestionOutcome",
    "VersionSource",
    "Watch",
    "WatchCheck",
    "WatchOutcome",
]

PatternState = Literal["open", "proposed", "watching", "fixed", "reopened", "muted"]
ProposalState = Literal[
    "drafting", "testing", "pending", "snoozed", "approved", "committed", "rejected", "expired", "stale", "archived"
]
OPEN_STATES: frozenset[str] = frozenset({"drafting", "testing", "pending", "snoozed", "approved"})
DECIDABLE_STATES: frozenset[str] = frozenset({"pending", "snoozed"})
ProposalKind = Literal["change", "rollback"]
Action = Literal["approve", "edit", "reject", "rollback", "snooze", "rebase", "merge", "mute", "unmute"]
SuggestionOutcome = Literal["chosen", "refused", "outscored", "malformed"]
WatchOutcome = Literal["watching", "fixed", "reopened", "no_better"]
VersionSource = Literal["task file", "file edit", "proposal", "rollback"]


class FailurePattern(Noun):
    """A mistake that comes back, known by its fingerprint. Counts are COUNT over unique occurrence rows."""

    id: str
    prompt_name: str
    fingerprint: str
    evaluator: str
    category: str
    reason: str = Field(description="One normalised example.")
    remedy: str | None = None
    fault_side: FaultSide = "model"
    state: PatternState = "open"
    state_reason: str | None = None  # why it was muted, what it was merged into
    merged_into: str | None = Field(None, description="The pattern a person merged this one into.")
    created_at: datetime
    num_occurrences: int = 0  # under the current head: unique (run, sample), attempt 0, reflect split
    num_samples: int = 0  # distinct samples among them


class Rule(Noun):
    """One learned instruction."""

    id: str
    text: str = Field(min_length=1)
    pattern_ids: tuple[str, ...] = ()


class RuleOperation(Noun):
    """A delta on the list of rules."""

    op: Literal["add", "update", "remove"]
    rule_id: str | None = None  # update, remove
    text: str | None = None  # add, update
    pattern_ids: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> RuleOperation:
        if self.op in ("update", "remove") and not self.rule_id:
            raise ValueError(f"{self.op} needs a rule_id")
        if self.op in ("add", "update") and not (self.text or "").strip():
            raise ValueError(f"{self.op} needs a text")
        return self


class PromptVersion(Noun):
    """An immutable version: frozen template plus rules. ``text_hash`` covers both."""

    id: str
    prompt_name: str
    number: int
    template: str
    rules: tuple[Rule, ...] = ()
    text_hash: str
    parent_id: str | None = None
    source: VersionSource
    proposal_id: str | None = None
    revision: int | None = None
    created_by: str
    created_at: datetime


class GuardFinding(Noun):
    """Why a revision was refused before any compute."""

    guard: str
    reason: str


class Revision(Noun):
    """One text of a proposal. An edit makes the next. Unique by (proposal_id, revision)."""

    proposal_id: str
    revision: int
    operations: tuple[RuleOperation, ...]
    rules: tuple[Rule, ...] = Field(description="The whole list after the operations.")
    text_hash: str = Field(description="Of template plus these rules: what a decision must name.")
    rationale: str = ""
    author: str
    findings: tuple[GuardFinding, ...] = ()
    created_at: datetime


class Proposal(Noun):
    """A change to one prompt, made for ``base_version_id``, waiting for a person."""

    id: str
    prompt_name: str
    task_name: str
    task_hash: str
    base_version_id: str
    pattern_ids: tuple[str, ...]
    kind: ProposalKind = "change"  # a rollback takes back what a watched commit changed
    state: ProposalState = "drafting"
    state_reason: str | None = None
    revision: int = 0  # the current one; 0 before the first is drafted
    expires_at: datetime | None = None
    snoozed_until: datetime | None = None  # state snoozed: pending again from then on
    created_at: datetime

    @property
    def decidable(self) -> bool:
        """Whether a decision would be taken now (expiry is computed by the store on read)."""
        return self.state in DECIDABLE_STATES


class Decision(Noun):
    """A person's word, append-only. Unique by (proposal_id, revision) where it settles a revision.

    What settles none (snooze, rebase, merge, mute, rollback) has no revision.
    """

    id: str
    action: Action
    prompt_name: str
    proposal_id: str | None = None
    revision: int | None = None
    version_id: str | None = None  # rollback: the version the head moves to
    by: str
    reason: str = ""
    seen_hash: str
    evidence: dict[str, Any] = {}  # what the person saw: verdict and counts at that moment
    accepted_untested: bool = False
    automatic: bool = False  # made by the autonomy level "commit", not by a person
    created_at: datetime


class WatchCheck(Noun):
    """What distinct later samples say about a watched pattern, after a run."""

    outcome: WatchOutcome
    num_samples: int
    num_failures: int
    e_value: float = Field(description="Evidence against 'the rate is no higher than the upper bound'.")
    e_value_fixed: float = Field(description="Evidence against 'the rate is no lower than before', by its lower bound.")
    run_id: str
    checked_at: datetime


class Watch(Noun):
    """A committed change under observation. One per (prompt version, pattern)."""

    prompt_version_id: str
    pattern_id: str
    proposal_id: str
    rate_before: float
    rate_after: float
    lower_bound: float = 0.0  # of the rate before: below it the failure counts as fixed
    upper_bound: float = 1.0  # of the rate after, at the gate: what later runs are tested against
    check: WatchCheck | None = None  # the newest
    created_at: datetime


class Suggestion(Noun):
    """What a reflector suggested for a proposal and what became of it. Unique by (proposal_id, number)."""

    proposal_id: str
    number: int  # from 1, in the reflector's order; a malformed reply has one of its own
    outcome: SuggestionOutcome
    reason: str = ""  # why it was refused, outscored or could not be read
    operations: tuple[RuleOperation, ...] = ()
    text_hash: str | None = None
    rationale: str = ""
    reply: str | None = None  # of a model, as it came
    num_passed: int | None = None  # on the reflect samples it was screened on
    num_screened: int | None = None
    created_at: datetime


class Delivery(Noun):
    """A webhook call that tells of a pending revision. Unique by (proposal_id, revision)."""

    proposal_id: str
    revision: int
    url: str
    num_tries: int = 0
    next_try_at: datetime | None = None  # None once it is delivered or given up
    delivered_at: datetime | None = None
    last_error: str | None = None
    created_at: datetime

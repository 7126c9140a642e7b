"""What leads to a prompt change and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, model_validator

from loopeng.schema.attempts import Arm
from loopeng.schema.base import FaultSide, Noun

__all__ = [
    "DECIDABLE_STATES",
    "OPEN_STATES",
    "Action",
    "ArmCount",
    "Decision",
    "FailurePattern",
    "GateReport",
    "GateVerdict",
    "GuardFinding",
    "PairedCount",
    "PatternState",
    "PromptVersion",
    "Proposal",
    "ProposalState",
    "Revision",
    "Rule",
    "RuleOperation",
    "VersionSource",
    "Watch",
]

PatternState = Literal["open", "proposed", "watching", "fixed", "reopened", "muted"]
ProposalState = Literal[
    "drafting", "testing", "pending", "snoozed", "approved", "committed", "rejected", "expired", "stale", "archived"
]
OPEN_STATES: frozenset[str] = frozenset({"drafting", "testing", "pending", "snoozed", "approved"})
DECIDABLE_STATES: frozenset[str] = frozenset({"pending", "snoozed"})
GateVerdict = Literal["pass", "fail", "underpowered", "noisy", "not_replayable", "untested", "error"]
Action = Literal["approve", "edit", "reject", "rollback"]
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
    state: ProposalState = "drafting"
    state_reason: str | None = None
    revision: int = 0  # the current one; 0 before the first is drafted
    expires_at: datetime | None = None
    created_at: datetime

    @property
    def decidable(self) -> bool:
        """Whether a decision would be taken now (expiry is computed by the store on read)."""
        return self.state in DECIDABLE_STATES


class PairedCount(Noun):
    """Both arms on the same samples with the same seeds, first attempts only."""

    num_pairs: int
    both_passed: int
    fixed: int  # baseline failed, candidate passed
    broken: int  # baseline passed, candidate failed
    both_failed: int

    @property
    def baseline_passed(self) -> int:
        return self.both_passed + self.broken

    @property
    def candidate_passed(self) -> int:
        return self.both_passed + self.fixed


class ArmCount(Noun):
    """What one arm cost."""

    arm: Arm
    run_id: str
    prompt_tokens: int
    generated_tokens: int


class GateReport(Noun):
    """Paired evidence for one revision on one split. Unique by (proposal_id, revision, split)."""

    proposal_id: str
    revision: int
    split: Literal["gate", "holdout"]
    verdict: GateVerdict
    pairs: PairedCount
    num_errors: int = 0  # pairs dropped because an arm was in error
    by_evaluator: dict[str, PairedCount] = {}
    arms: tuple[ArmCount, ...] = ()
    fixed_samples: tuple[str, ...] = ()
    broken_samples: tuple[str, ...] = ()
    fingerprint: str | None = None
    deterministic: bool = True
    note: str = ""
    created_at: datetime

    @property
    def summary(self) -> str:
        """One line for cards and tables."""
        pairs = self.pairs
        if not pairs.num_pairs:
            return f"no pairs counted ({self.num_errors} in error)" if self.num_errors else "no pairs counted"
        return (
            f"{pairs.baseline_passed}/{pairs.num_pairs} -> {pairs.candidate_passed}/{pairs.num_pairs} "
            f"first attempts pass ({pairs.fixed} fixed, {pairs.broken} broken)"
        )


class Decision(Noun):
    """A person's word, append-only. Unique by (proposal_id, revision) where it concerns a proposal."""

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
    created_at: datetime


class Watch(Noun):
    """A committed change under observation. One per (prompt version, pattern)."""

    prompt_version_id: str
    pattern_id: str
    proposal_id: str
    rate_before: float
    rate_after: float
    created_at: datetime

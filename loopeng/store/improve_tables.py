"""The tables of what leads to a prompt change: proposals, their evidence, decisions. Made like those of ``tables``."""
# ruff: noqa: D101  what the rows mean is said once, where the nouns are

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint, false
from sqlmodel import Field

from loopeng.store.columns import Table, json_column, time_column

__all__ = [
    "DecisionRow",
    "DeliveryRow",
    "GateReportRow",
    "LookRow",
    "ProposalRow",
    "RevisionRow",
    "SuggestionRow",
    "WatchRow",
]


class ProposalRow(Table, table=True):
    __tablename__ = "proposal"
    __table_args__ = (Index("ix_proposal_prompt_name_state", "prompt_name", "state"),)
    seq: int | None = Field(default=None, primary_key=True)
    id: str = Field(unique=True)
    prompt_name: str
    task_name: str
    task_hash: str = Field(foreign_key="task_version.hash")
    base_version_id: str = Field(foreign_key="prompt_version.id")
    pattern_ids: Any = json_column()
    kind: str = Field(sa_column_kwargs={"server_default": "change"})
    state: str
    state_reason: str | None
    revision: int
    expires_at: datetime | None = time_column(nullable=True)
    snoozed_until: datetime | None = time_column(nullable=True)
    created_at: datetime = time_column()


class RevisionRow(Table, table=True):
    __tablename__ = "revision"
    proposal_id: str = Field(primary_key=True, foreign_key="proposal.id")
    revision: int = Field(primary_key=True)
    operations: Any = json_column()
    rules: Any = json_column()
    text_hash: str
    rationale: str
    author: str
    findings: Any = json_column()
    created_at: datetime = time_column()


class GateReportRow(Table, table=True):
    __tablename__ = "gate_report"
    __table_args__ = (ForeignKeyConstraint(["proposal_id", "revision"], ["revision.proposal_id", "revision.revision"]),)
    proposal_id: str = Field(primary_key=True)
    revision: int = Field(primary_key=True)
    split: str = Field(primary_key=True)
    verdict: str
    pairs: Any = json_column()
    num_errors: int
    by_evaluator: Any = json_column()
    arms: Any = json_column()
    fixed_samples: Any = json_column()
    broken_samples: Any = json_column()
    fingerprint: str | None
    deterministic: bool
    note: str
    test: Any = json_column(nullable=True)
    created_at: datetime = time_column()


class DecisionRow(Table, table=True):
    """Append-only: triggers of the first migration refuse UPDATE, DELETE and REPLACE."""

    __tablename__ = "decision"
    __table_args__ = (
        UniqueConstraint("proposal_id", "revision"),
        ForeignKeyConstraint(["proposal_id", "revision"], ["revision.proposal_id", "revision.revision"]),
    )
    seq: int | None = Field(default=None, primary_key=True)
    id: str = Field(unique=True)
    action: str
    prompt_name: str = Field(foreign_key="prompt.name")
    proposal_id: str | None
    revision: int | None
    version_id: str | None = Field(foreign_key="prompt_version.id")
    by: str
    reason: str
    seen_hash: str
    evidence: Any = json_column()
    accepted_untested: bool
    automatic: bool = Field(sa_column_kwargs={"server_default": false()})
    created_at: datetime = time_column()


class WatchRow(Table, table=True):
    __tablename__ = "watch"
    prompt_version_id: str = Field(primary_key=True, foreign_key="prompt_version.id")
    pattern_id: str = Field(primary_key=True, foreign_key="failure_pattern.id")
    proposal_id: str = Field(foreign_key="proposal.id")
    rate_before: float
    rate_after: float
    lower_bound: float = Field(sa_column_kwargs={"server_default": "0.0"})
    upper_bound: float = Field(sa_column_kwargs={"server_default": "1.0"})
    check: Any = json_column(nullable=True)
    created_at: datetime = time_column()


class LookRow(Table, table=True):
    """The alpha ledger."""

    __tablename__ = "look"
    __table_args__ = (ForeignKeyConstraint(["proposal_id", "revision"], ["revision.proposal_id", "revision.revision"]),)
    proposal_id: str = Field(primary_key=True)
    revision: int = Field(primary_key=True)
    prompt_name: str = Field(foreign_key="prompt.name", index=True)
    dataset: str
    number: int
    alpha_total: float
    sample_keys: Any = json_column()
    void: bool
    created_at: datetime = time_column()


class SuggestionRow(Table, table=True):
    __tablename__ = "suggestion"
    proposal_id: str = Field(primary_key=True, foreign_key="proposal.id")
    number: int = Field(primary_key=True)
    outcome: str
    reason: str
    operations: Any = json_column()
    text_hash: str | None
    rationale: str
    reply: str | None
    num_passed: int | None
    num_screened: int | None
    created_at: datetime = time_column()


class DeliveryRow(Table, table=True):
    """The outbox of the webhook."""

    __tablename__ = "delivery"
    __table_args__ = (ForeignKeyConstraint(["proposal_id", "revision"], ["revision.proposal_id", "revision.revision"]),)
    proposal_id: str = Field(primary_key=True)
    revision: int = Field(primary_key=True)
    url: str
    num_tries: int
    next_try_at: datetime | None = time_column(nullable=True)
    delivered_at: datetime | None = time_column(nullable=True)
    last_error: str | None
    created_at: datetime = time_column()

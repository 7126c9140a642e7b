"""The tables of tasks, prompts, runs and failures, with the natural keys as constraints of the database.

A field has the name it has in its noun (``rows.py`` relies on that); ``seq`` is the order of insertion; nested values
are JSON text. Validation is not here but where the nouns are made, on the way out.
"""
# ruff: noqa: D101  what the rows mean is said once, where the nouns are

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Column, ForeignKeyConstraint, Index, UniqueConstraint
from sqlmodel import Field

from loopeng.store.columns import JsonText, Table, WideInteger, json_column, time_column

__all__ = [
    "AttemptRow",
    "EvalResultRow",
    "FailurePatternRow",
    "LeaseRow",
    "OccurrenceRow",
    "PromptRow",
    "PromptVersionRow",
    "RunEngineRow",
    "RunRow",
    "SampleResultRow",
    "TaskVersionRow",
]


class TaskVersionRow(Table, table=True):
    __tablename__ = "task_version"
    hash: str = Field(primary_key=True)
    name: str = Field(index=True)
    content: Any = json_column()  # the whole task, samples included
    created_at: datetime = time_column()


class PromptVersionRow(Table, table=True):
    __tablename__ = "prompt_version"
    __table_args__ = (
        UniqueConstraint("prompt_name", "number"),
        UniqueConstraint("prompt_name", "id"),  # what a head refers to
        UniqueConstraint("proposal_id"),  # a proposal is committed once
    )
    id: str = Field(primary_key=True)
    prompt_name: str
    number: int
    template: str
    rules: Any = json_column()
    text_hash: str
    parent_id: str | None = Field(foreign_key="prompt_version.id")
    source: str
    proposal_id: str | None
    revision: int | None
    created_by: str
    created_at: datetime = time_column()


class PromptRow(Table, table=True):
    __tablename__ = "prompt"
    __table_args__ = (ForeignKeyConstraint(["name", "head_id"], ["prompt_version.prompt_name", "prompt_version.id"]),)
    name: str = Field(primary_key=True)
    head_id: str


class RunRow(Table, table=True):
    __tablename__ = "run"
    __table_args__ = (
        UniqueConstraint("proposal_id", "kind", "revision", "arm"),
        Index("ix_run_task_name_kind", "task_name", "kind"),
    )
    seq: int | None = Field(default=None, primary_key=True)
    id: str = Field(unique=True)
    kind: str
    task_name: str
    task_hash: str = Field(foreign_key="task_version.hash")
    prompt_name: str
    prompt_version_id: str = Field(foreign_key="prompt_version.id")
    proposal_id: str | None = Field(foreign_key="proposal.id")
    revision: int | None
    arm: str | None
    seed: int = Field(sa_column=Column(WideInteger, nullable=False))
    status: str
    stop_reason: str | None
    engine: Any = json_column()
    created_at: datetime = time_column()
    finished_at: datetime | None = time_column(nullable=True)


class RunEngineRow(Table, table=True):
    """Another engine description that a resumed run met."""

    __tablename__ = "run_engine"
    __table_args__ = (UniqueConstraint("run_id", "engine_hash"),)
    seq: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id")
    engine_hash: str
    engine: Any = json_column()
    created_at: datetime = time_column()


class AttemptRow(Table, table=True):
    __tablename__ = "attempt"
    run_id: str = Field(primary_key=True, foreign_key="run.id")
    sample_id: str = Field(primary_key=True)
    repeat: int = Field(primary_key=True)
    attempt_index: int = Field(primary_key=True)
    policy: str
    seed: int = Field(sa_column=Column(WideInteger, nullable=False))
    temperature: float
    messages: Any = json_column()
    text: str
    token_ids: Any = json_column(nullable=True)
    finish_reason: str | None
    trajectory: Any = json_column(nullable=True)
    prompt_tokens: int  # usage, in columns so that the database adds up
    generated_tokens: int
    decode_passes: int
    draft_tokens: int
    accepted_tokens: int
    latency_s: float
    fingerprint: str | None
    duplicate_of: int | None
    verdict: str
    score: float | None
    error: str | None
    created_at: datetime = time_column()


class EvalResultRow(Table, table=True):
    __tablename__ = "eval_result"
    __table_args__ = (
        ForeignKeyConstraint(
            ["run_id", "sample_id", "repeat", "attempt_index"],
            ["attempt.run_id", "attempt.sample_id", "attempt.repeat", "attempt.attempt_index"],
        ),
    )
    run_id: str = Field(primary_key=True)
    sample_id: str = Field(primary_key=True)
    repeat: int = Field(primary_key=True)
    attempt_index: int = Field(primary_key=True)
    position: int = Field(primary_key=True)  # among the attempt's results
    evaluator: str
    score: float | None
    passed: bool | None
    reason: str
    feedback: str
    category: str | None
    remedy: str | None
    fault_side: str
    error: str | None
    metadata_: Any = Field(sa_column=Column("metadata", JsonText, nullable=False))
    latency_s: float


class SampleResultRow(Table, table=True):
    __tablename__ = "sample_result"
    run_id: str = Field(primary_key=True, foreign_key="run.id")
    sample_id: str = Field(primary_key=True)
    repeat: int = Field(primary_key=True)
    split: str
    first_verdict: str
    verdict: str
    score: float | None
    best_attempt_index: int
    num_attempts: int


class FailurePatternRow(Table, table=True):
    __tablename__ = "failure_pattern"
    __table_args__ = (UniqueConstraint("prompt_name", "fingerprint"),)
    seq: int | None = Field(default=None, primary_key=True)
    id: str = Field(unique=True)
    prompt_name: str
    fingerprint: str
    evaluator: str
    category: str
    reason: str
    remedy: str | None
    fault_side: str
    state: str
    state_reason: str | None
    merged_into: str | None
    created_at: datetime = time_column()


class OccurrenceRow(Table, table=True):
    __tablename__ = "occurrence"
    pattern_id: str = Field(primary_key=True, foreign_key="failure_pattern.id")
    run_id: str = Field(primary_key=True, foreign_key="run.id")
    sample_id: str = Field(primary_key=True)
    prompt_version_id: str = Field(foreign_key="prompt_version.id", index=True)
    created_at: datetime = time_column()


class LeaseRow(Table, table=True):
    __tablename__ = "lease"
    name: str = Field(primary_key=True)
    host: str
    pid: int
    started_at: str
    heartbeat_at: datetime = time_column()

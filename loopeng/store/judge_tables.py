"""The tables of judges: replies kept from run to run, and how far a run's judges agreed with people."""
# ruff: noqa: D101  what the rows mean is said once, where the nouns are

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index
from sqlmodel import Field

from loopeng.store.columns import Table, json_column, time_column

__all__ = ["AnchorReportRow", "JudgeReplyRow"]


class JudgeReplyRow(Table, table=True):
    __tablename__ = "judge_reply"
    __table_args__ = (Index("ix_judge_reply_created_at", "created_at"),)
    key: str = Field(primary_key=True)  # hash of everything that decides the reply
    text: str
    created_at: datetime = time_column()


class AnchorReportRow(Table, table=True):
    __tablename__ = "anchor_report"
    run_id: str = Field(primary_key=True, foreign_key="run.id")
    evaluator: str = Field(primary_key=True)
    num_anchors: int
    num_errors: int
    first_error: str | None
    criteria: Any = json_column()
    min_agreement: float
    usage: Any = json_column()
    created_at: datetime = time_column()

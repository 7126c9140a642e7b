"""The tables of an application's traffic: the inputs it sent, and its calls."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field

from loopeng.store.columns import Table, json_column, time_column

__all__ = ["LiveCallRow", "LiveSampleRow"]


class LiveSampleRow(Table, table=True):
    """An input, as long as it is kept."""

    __tablename__ = "live_sample"
    __table_args__ = (Index("ix_live_sample_prompt_name_seen_at", "prompt_name", "seen_at"),)
    prompt_name: str = Field(primary_key=True)
    sample_id: str = Field(primary_key=True)
    inputs: Any = json_column()
    split: str
    created_at: datetime = time_column()
    seen_at: datetime = time_column()  # by the latest call


class LiveCallRow(Table, table=True):
    """A call, from before it is answered: which repeat of its sample it is, in which run."""

    __tablename__ = "live_call"
    __table_args__ = (
        UniqueConstraint("run_id", "sample_id", "repeat"),
        Index("ix_live_call_sample_id", "sample_id"),
        Index("ix_live_call_purged_created_at", "purged", "created_at"),
    )
    id: str = Field(primary_key=True)  # made by the process that answers: what is written twice is written once
    run_id: str = Field(foreign_key="run.id")
    sample_id: str
    repeat: int
    purged: bool
    created_at: datetime = time_column()

"""Inputs and calls of applications.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "live_sample",
        Column("prompt_name", sa.String(), nullable=False),
        Column("sample_id", sa.String(), nullable=False),
        Column("inputs", sa.Text(), nullable=False),
        Column("split", sa.String(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        Column("seen_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("prompt_name", "sample_id", name="pk_live_sample"),
    )
    op.create_index("ix_live_sample_prompt_name_seen_at", "live_sample", ["prompt_name", "seen_at"])
    op.create_table(
        "live_call",
        Column("id", sa.String(), nullable=False),
        Column("run_id", sa.String(), nullable=False),
        Column("sample_id", sa.String(), nullable=False),
        Column("repeat", sa.Integer(), nullable=False),
        Column("purged", sa.Boolean(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_live_call_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_live_call"),
        sa.UniqueConstraint("run_id", "sample_id", "repeat", name="uq_live_call_run_id_sample_id_repeat"),
    )
    op.create_index("ix_live_call_sample_id", "live_call", ["sample_id"])
    op.create_index("ix_live_call_purged_created_at", "live_call", ["purged", "created_at"])
    op.create_index("ix_judge_reply_created_at", "judge_reply", ["created_at"])

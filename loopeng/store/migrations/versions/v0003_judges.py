"""Replies of judges, kept from run to run, and how far a run's judges agreed with people.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "judge_reply",
        Column("key", sa.String(), nullable=False),
        Column("text", sa.String(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_judge_reply"),
    )
    op.create_table(
        "anchor_report",
        Column("run_id", sa.String(), nullable=False),
        Column("evaluator", sa.String(), nullable=False),
        Column("num_anchors", sa.Integer(), nullable=False),
        Column("num_errors", sa.Integer(), nullable=False),
        Column("first_error", sa.String(), nullable=True),
        Column("criteria", sa.Text(), nullable=False),
        Column("min_agreement", sa.Float(), nullable=False),
        Column("usage", sa.Text(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_anchor_report_run_id"),
        sa.PrimaryKeyConstraint("run_id", "evaluator", name="pk_anchor_report"),
    )

"""The alpha ledger, suggestions, the webhook's outbox, snoozing, merged patterns, checks of watches.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _add_columns()
    _create_looks()
    _create_suggestions()
    _create_deliveries()


def _add_columns() -> None:
    op.add_column("failure_pattern", Column("state_reason", sa.String(), nullable=True))
    op.add_column("failure_pattern", Column("merged_into", sa.String(), nullable=True))
    op.add_column("proposal", Column("kind", sa.String(), nullable=False, server_default="change"))
    op.add_column("proposal", Column("snoozed_until", sa.Text(), nullable=True))
    op.add_column("gate_report", Column("test", sa.Text(), nullable=True))
    op.add_column("decision", Column("automatic", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("watch", Column("lower_bound", sa.Float(), nullable=False, server_default="0.0"))
    op.add_column("watch", Column("upper_bound", sa.Float(), nullable=False, server_default="1.0"))
    op.add_column("watch", Column("check", sa.Text(), nullable=True))


def _create_looks() -> None:
    op.create_table(
        "look",
        Column("proposal_id", sa.String(), nullable=False),
        Column("revision", sa.Integer(), nullable=False),
        Column("prompt_name", sa.String(), nullable=False),
        Column("dataset", sa.String(), nullable=False),
        Column("number", sa.Integer(), nullable=False),
        Column("alpha_total", sa.Float(), nullable=False),
        Column("sample_keys", sa.Text(), nullable=False),
        Column("void", sa.Boolean(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["prompt_name"], ["prompt.name"], name="fk_look_prompt_name"),
        sa.ForeignKeyConstraint(
            ["proposal_id", "revision"],
            ["revision.proposal_id", "revision.revision"],
            name="fk_look_proposal_id_revision",
        ),
        sa.PrimaryKeyConstraint("proposal_id", "revision", name="pk_look"),
    )
    op.create_index("ix_look_prompt_name", "look", ["prompt_name"])


def _create_suggestions() -> None:
    op.create_table(
        "suggestion",
        Column("proposal_id", sa.String(), nullable=False),
        Column("number", sa.Integer(), nullable=False),
        Column("outcome", sa.String(), nullable=False),
        Column("reason", sa.String(), nullable=False),
        Column("operations", sa.Text(), nullable=False),
        Column("text_hash", sa.String(), nullable=True),
        Column("rationale", sa.String(), nullable=False),
        Column("reply", sa.String(), nullable=True),
        Column("num_passed", sa.Integer(), nullable=True),
        Column("num_screened", sa.Integer(), nullable=True),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name="fk_suggestion_proposal_id"),
        sa.PrimaryKeyConstraint("proposal_id", "number", name="pk_suggestion"),
    )


def _create_deliveries() -> None:
    op.create_table(
        "delivery",
        Column("proposal_id", sa.String(), nullable=False),
        Column("revision", sa.Integer(), nullable=False),
        Column("url", sa.String(), nullable=False),
        Column("num_tries", sa.Integer(), nullable=False),
        Column("next_try_at", sa.Text(), nullable=True),
        Column("delivered_at", sa.Text(), nullable=True),
        Column("last_error", sa.String(), nullable=True),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["proposal_id", "revision"],
            ["revision.proposal_id", "revision.revision"],
            name="fk_delivery_proposal_id_revision",
        ),
        sa.PrimaryKeyConstraint("proposal_id", "revision", name="pk_delivery"),
    )

"""The first schema.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_REFUSE = "SELECT RAISE(ABORT, 'decisions are append-only')"
_SAME_DECISION = (
    "seq = NEW.seq OR id = NEW.id OR (proposal_id = NEW.proposal_id AND revision = NEW.revision)"  # INSERT OR REPLACE
)


def upgrade() -> None:
    _create_prompts()
    _create_patterns()
    _create_proposals()
    _create_decisions()
    _create_runs()
    _create_attempts()
    _create_occurrences()
    _create_leases()
    _make_decisions_append_only()


def _create_prompts() -> None:
    op.create_table(
        "task_version",
        Column("hash", sa.String(), nullable=False),
        Column("name", sa.String(), nullable=False),
        Column("content", sa.Text(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_task_version"),
    )
    op.create_index("ix_task_version_name", "task_version", ["name"])
    op.create_table(
        "prompt_version",
        Column("id", sa.String(), nullable=False),
        Column("prompt_name", sa.String(), nullable=False),
        Column("number", sa.Integer(), nullable=False),
        Column("template", sa.String(), nullable=False),
        Column("rules", sa.Text(), nullable=False),
        Column("text_hash", sa.String(), nullable=False),
        Column("parent_id", sa.String(), nullable=True),
        Column("source", sa.String(), nullable=False),
        Column("proposal_id", sa.String(), nullable=True),
        Column("revision", sa.Integer(), nullable=True),
        Column("created_by", sa.String(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["prompt_version.id"], name="fk_prompt_version_parent_id"),
        sa.PrimaryKeyConstraint("id", name="pk_prompt_version"),
        sa.UniqueConstraint("prompt_name", "id", name="uq_prompt_version_prompt_name_id"),
        sa.UniqueConstraint("prompt_name", "number", name="uq_prompt_version_prompt_name_number"),
        sa.UniqueConstraint("proposal_id", name="uq_prompt_version_proposal_id"),
    )
    op.create_table(
        "prompt",
        Column("name", sa.String(), nullable=False),
        Column("head_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["name", "head_id"], ["prompt_version.prompt_name", "prompt_version.id"], name="fk_prompt_name_head_id"
        ),
        sa.PrimaryKeyConstraint("name", name="pk_prompt"),
    )


def _create_patterns() -> None:
    op.create_table(
        "failure_pattern",
        Column("seq", sa.Integer(), nullable=False),
        Column("id", sa.String(), nullable=False),
        Column("prompt_name", sa.String(), nullable=False),
        Column("fingerprint", sa.String(), nullable=False),
        Column("evaluator", sa.String(), nullable=False),
        Column("category", sa.String(), nullable=False),
        Column("reason", sa.String(), nullable=False),
        Column("remedy", sa.String(), nullable=True),
        Column("fault_side", sa.String(), nullable=False),
        Column("state", sa.String(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_failure_pattern"),
        sa.UniqueConstraint("id", name="uq_failure_pattern_id"),
        sa.UniqueConstraint("prompt_name", "fingerprint", name="uq_failure_pattern_prompt_name_fingerprint"),
    )


def _create_proposals() -> None:
    op.create_table(
        "proposal",
        Column("seq", sa.Integer(), nullable=False),
        Column("id", sa.String(), nullable=False),
        Column("prompt_name", sa.String(), nullable=False),
        Column("task_name", sa.String(), nullable=False),
        Column("task_hash", sa.String(), nullable=False),
        Column("base_version_id", sa.String(), nullable=False),
        Column("pattern_ids", sa.Text(), nullable=False),
        Column("state", sa.String(), nullable=False),
        Column("state_reason", sa.String(), nullable=True),
        Column("revision", sa.Integer(), nullable=False),
        Column("expires_at", sa.Text(), nullable=True),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["base_version_id"], ["prompt_version.id"], name="fk_proposal_base_version_id"),
        sa.ForeignKeyConstraint(["task_hash"], ["task_version.hash"], name="fk_proposal_task_hash"),
        sa.PrimaryKeyConstraint("seq", name="pk_proposal"),
        sa.UniqueConstraint("id", name="uq_proposal_id"),
    )
    op.create_index("ix_proposal_prompt_name_state", "proposal", ["prompt_name", "state"])
    op.create_table(
        "revision",
        Column("proposal_id", sa.String(), nullable=False),
        Column("revision", sa.Integer(), nullable=False),
        Column("operations", sa.Text(), nullable=False),
        Column("rules", sa.Text(), nullable=False),
        Column("text_hash", sa.String(), nullable=False),
        Column("rationale", sa.String(), nullable=False),
        Column("author", sa.String(), nullable=False),
        Column("findings", sa.Text(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name="fk_revision_proposal_id"),
        sa.PrimaryKeyConstraint("proposal_id", "revision", name="pk_revision"),
    )
    op.create_table(
        "gate_report",
        Column("proposal_id", sa.String(), nullable=False),
        Column("revision", sa.Integer(), nullable=False),
        Column("split", sa.String(), nullable=False),
        Column("verdict", sa.String(), nullable=False),
        Column("pairs", sa.Text(), nullable=False),
        Column("num_errors", sa.Integer(), nullable=False),
        Column("by_evaluator", sa.Text(), nullable=False),
        Column("arms", sa.Text(), nullable=False),
        Column("fixed_samples", sa.Text(), nullable=False),
        Column("broken_samples", sa.Text(), nullable=False),
        Column("fingerprint", sa.String(), nullable=True),
        Column("deterministic", sa.Boolean(), nullable=False),
        Column("note", sa.String(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["proposal_id", "revision"],
            ["revision.proposal_id", "revision.revision"],
            name="fk_gate_report_proposal_id_revision",
        ),
        sa.PrimaryKeyConstraint("proposal_id", "revision", "split", name="pk_gate_report"),
    )


def _create_decisions() -> None:
    op.create_table(
        "decision",
        Column("seq", sa.Integer(), nullable=False),
        Column("id", sa.String(), nullable=False),
        Column("action", sa.String(), nullable=False),
        Column("prompt_name", sa.String(), nullable=False),
        Column("proposal_id", sa.String(), nullable=True),
        Column("revision", sa.Integer(), nullable=True),
        Column("version_id", sa.String(), nullable=True),
        Column("by", sa.String(), nullable=False),
        Column("reason", sa.String(), nullable=False),
        Column("seen_hash", sa.String(), nullable=False),
        Column("evidence", sa.Text(), nullable=False),
        Column("accepted_untested", sa.Boolean(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["prompt_name"], ["prompt.name"], name="fk_decision_prompt_name"),
        sa.ForeignKeyConstraint(
            ["proposal_id", "revision"],
            ["revision.proposal_id", "revision.revision"],
            name="fk_decision_proposal_id_revision",
        ),
        sa.ForeignKeyConstraint(["version_id"], ["prompt_version.id"], name="fk_decision_version_id"),
        sa.PrimaryKeyConstraint("seq", name="pk_decision"),
        sa.UniqueConstraint("id", name="uq_decision_id"),
        sa.UniqueConstraint("proposal_id", "revision", name="uq_decision_proposal_id_revision"),
    )


def _create_runs() -> None:
    op.create_table(
        "run",
        Column("seq", sa.Integer(), nullable=False),
        Column("id", sa.String(), nullable=False),
        Column("kind", sa.String(), nullable=False),
        Column("task_name", sa.String(), nullable=False),
        Column("task_hash", sa.String(), nullable=False),
        Column("prompt_name", sa.String(), nullable=False),
        Column("prompt_version_id", sa.String(), nullable=False),
        Column("proposal_id", sa.String(), nullable=True),
        Column("revision", sa.Integer(), nullable=True),
        Column("arm", sa.String(), nullable=True),
        Column("seed", sa.Text(), nullable=False),
        Column("status", sa.String(), nullable=False),
        Column("stop_reason", sa.String(), nullable=True),
        Column("engine", sa.Text(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        Column("finished_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["prompt_version_id"], ["prompt_version.id"], name="fk_run_prompt_version_id"),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name="fk_run_proposal_id"),
        sa.ForeignKeyConstraint(["task_hash"], ["task_version.hash"], name="fk_run_task_hash"),
        sa.PrimaryKeyConstraint("seq", name="pk_run"),
        sa.UniqueConstraint("id", name="uq_run_id"),
        sa.UniqueConstraint("proposal_id", "kind", "revision", "arm", name="uq_run_proposal_id_kind_revision_arm"),
    )
    op.create_index("ix_run_task_name_kind", "run", ["task_name", "kind"])
    op.create_table(
        "run_engine",
        Column("seq", sa.Integer(), nullable=False),
        Column("run_id", sa.String(), nullable=False),
        Column("engine_hash", sa.String(), nullable=False),
        Column("engine", sa.Text(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_run_engine_run_id"),
        sa.PrimaryKeyConstraint("seq", name="pk_run_engine"),
        sa.UniqueConstraint("run_id", "engine_hash", name="uq_run_engine_run_id_engine_hash"),
    )


def _create_attempts() -> None:
    op.create_table(
        "attempt",
        Column("run_id", sa.String(), nullable=False),
        Column("sample_id", sa.String(), nullable=False),
        Column("repeat", sa.Integer(), nullable=False),
        Column("attempt_index", sa.Integer(), nullable=False),
        Column("policy", sa.String(), nullable=False),
        Column("seed", sa.Text(), nullable=False),
        Column("temperature", sa.Float(), nullable=False),
        Column("messages", sa.Text(), nullable=False),
        Column("text", sa.String(), nullable=False),
        Column("token_ids", sa.Text(), nullable=True),
        Column("finish_reason", sa.String(), nullable=True),
        Column("trajectory", sa.Text(), nullable=True),
        Column("prompt_tokens", sa.Integer(), nullable=False),
        Column("generated_tokens", sa.Integer(), nullable=False),
        Column("decode_passes", sa.Integer(), nullable=False),
        Column("draft_tokens", sa.Integer(), nullable=False),
        Column("accepted_tokens", sa.Integer(), nullable=False),
        Column("latency_s", sa.Float(), nullable=False),
        Column("fingerprint", sa.String(), nullable=True),
        Column("duplicate_of", sa.Integer(), nullable=True),
        Column("verdict", sa.String(), nullable=False),
        Column("score", sa.Float(), nullable=True),
        Column("error", sa.String(), nullable=True),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_attempt_run_id"),
        sa.PrimaryKeyConstraint("run_id", "sample_id", "repeat", "attempt_index", name="pk_attempt"),
    )
    op.create_table(
        "eval_result",
        Column("run_id", sa.String(), nullable=False),
        Column("sample_id", sa.String(), nullable=False),
        Column("repeat", sa.Integer(), nullable=False),
        Column("attempt_index", sa.Integer(), nullable=False),
        Column("position", sa.Integer(), nullable=False),
        Column("evaluator", sa.String(), nullable=False),
        Column("score", sa.Float(), nullable=True),
        Column("passed", sa.Boolean(), nullable=True),
        Column("reason", sa.String(), nullable=False),
        Column("feedback", sa.String(), nullable=False),
        Column("category", sa.String(), nullable=True),
        Column("remedy", sa.String(), nullable=True),
        Column("fault_side", sa.String(), nullable=False),
        Column("error", sa.String(), nullable=True),
        Column("metadata", sa.Text(), nullable=False),
        Column("latency_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "sample_id", "repeat", "attempt_index"],
            ["attempt.run_id", "attempt.sample_id", "attempt.repeat", "attempt.attempt_index"],
            name="fk_eval_result_run_id_sample_id_repeat_attempt_index",
        ),
        sa.PrimaryKeyConstraint("run_id", "sample_id", "repeat", "attempt_index", "position", name="pk_eval_result"),
    )
    op.create_table(
        "sample_result",
        Column("run_id", sa.String(), nullable=False),
        Column("sample_id", sa.String(), nullable=False),
        Column("repeat", sa.Integer(), nullable=False),
        Column("split", sa.String(), nullable=False),
        Column("first_verdict", sa.String(), nullable=False),
        Column("verdict", sa.String(), nullable=False),
        Column("score", sa.Float(), nullable=True),
        Column("best_attempt_index", sa.Integer(), nullable=False),
        Column("num_attempts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_sample_result_run_id"),
        sa.PrimaryKeyConstraint("run_id", "sample_id", "repeat", name="pk_sample_result"),
    )


def _create_occurrences() -> None:
    op.create_table(
        "occurrence",
        Column("pattern_id", sa.String(), nullable=False),
        Column("run_id", sa.String(), nullable=False),
        Column("sample_id", sa.String(), nullable=False),
        Column("prompt_version_id", sa.String(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["pattern_id"], ["failure_pattern.id"], name="fk_occurrence_pattern_id"),
        sa.ForeignKeyConstraint(["prompt_version_id"], ["prompt_version.id"], name="fk_occurrence_prompt_version_id"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_occurrence_run_id"),
        sa.PrimaryKeyConstraint("pattern_id", "run_id", "sample_id", name="pk_occurrence"),
    )
    op.create_index("ix_occurrence_prompt_version_id", "occurrence", ["prompt_version_id"])
    op.create_table(
        "watch",
        Column("prompt_version_id", sa.String(), nullable=False),
        Column("pattern_id", sa.String(), nullable=False),
        Column("proposal_id", sa.String(), nullable=False),
        Column("rate_before", sa.Float(), nullable=False),
        Column("rate_after", sa.Float(), nullable=False),
        Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["pattern_id"], ["failure_pattern.id"], name="fk_watch_pattern_id"),
        sa.ForeignKeyConstraint(["prompt_version_id"], ["prompt_version.id"], name="fk_watch_prompt_version_id"),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name="fk_watch_proposal_id"),
        sa.PrimaryKeyConstraint("prompt_version_id", "pattern_id", name="pk_watch"),
    )


def _create_leases() -> None:
    op.create_table(
        "lease",
        Column("name", sa.String(), nullable=False),
        Column("host", sa.String(), nullable=False),
        Column("pid", sa.Integer(), nullable=False),
        Column("started_at", sa.String(), nullable=False),
        Column("heartbeat_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lease"),
    )


def _make_decisions_append_only() -> None:
    op.execute(f"CREATE TRIGGER decision_no_update BEFORE UPDATE ON decision BEGIN {_REFUSE}; END")
    op.execute(f"CREATE TRIGGER decision_no_delete BEFORE DELETE ON decision BEGIN {_REFUSE}; END")
    op.execute(
        "CREATE TRIGGER decision_no_replace BEFORE INSERT ON decision "
        f"WHEN EXISTS (SELECT 1 FROM decision WHERE {_SAME_DECISION}) BEGIN {_REFUSE}; END"
    )

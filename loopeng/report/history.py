"""The history of a prompt: versions and decisions in one list, oldest first."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.report.layout import columns, moment
from loopeng.schema import Decision, PromptVersion

__all__ = ["history_text"]


def history_text(head: PromptVersion, versions: Sequence[PromptVersion], decisions: Sequence[Decision]) -> str:
    """One line for each version made and each decision taken; the current version is marked."""
    lines = [
        (
            version.created_at,
            f"version {version.number}",
            version.created_by,
            f"{version.source}, text {version.text_hash[:8]}, {len(version.rules)} rules"
            + (f", {version.proposal_id}" if version.proposal_id else "")
            + ("  <- current" if version.id == head.id else ""),
        )
        for version in versions
    ]
    lines += [
        (decision.created_at, decision.action, decision.by, _what(decision, {each.id: each for each in versions}))
        for decision in decisions
    ]
    rows = [(moment(when), kind, by, what) for when, kind, by, what in sorted(lines, key=lambda line: line[0])]
    return columns(rows)


def _what(decision: Decision, versions: dict[str, PromptVersion]) -> str:
    parts = []
    if decision.automatic:
        parts.append("automatic")
    if decision.proposal_id and decision.revision is None:  # it settles none: snooze, rebase
        parts.append(f"{decision.proposal_id} revision {decision.evidence.get('revision')}")
        parts += [f"until {until}" for until in [decision.evidence.get("until")] if until]
    elif decision.proposal_id:
        parts.append(f"{decision.proposal_id} revision {decision.revision}, saw {decision.seen_hash[:8]}")
    if decision.version_id in versions:
        parts.append(f"to version {versions[decision.version_id].number}")
    if decision.accepted_untested:
        parts.append("accepted without evidence")
    if decision.reason:
        parts.append(f"reason: {decision.reason}")
    return ", ".join(parts)

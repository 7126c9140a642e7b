"""The history of a prompt: versions, decisions and watches in one list, oldest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from loopeng.improve.watch.undoing import watch_summary
from loopeng.report.layout import columns, moment
from loopeng.schema import Decision, PromptVersion, Watch

__all__ = ["evidence_text", "history_text"]

_Line = tuple[datetime, str, str, str]
_WIDTH = 60


def history_text(
    head: PromptVersion,
    versions: Sequence[PromptVersion],
    decisions: Sequence[Decision],
    watches: Sequence[Watch] = (),
) -> str:
    """One line for each version made, each decision taken and each failure watched; the current version is marked.

    A decision says who, why, and what evidence they had; a watch what the newest run that had a say found.
    """
    numbers = {version.id: version.number for version in versions}
    lines: list[_Line] = [
        (version.created_at, f"version {version.number}", version.created_by, _version(version, head))
        for version in versions
    ]
    lines += [
        (decision.created_at, decision.action, decision.by, _decision(decision, numbers)) for decision in decisions
    ]
    lines += [
        (
            watch.created_at,
            "watch",
            "loopeng",
            f"{watch.pattern_id} from version {numbers.get(watch.prompt_version_id, '?')} on: {watch_summary(watch)}"
            + (f", {watch.check.run_id} at {moment(watch.check.checked_at)}" if watch.check else ""),
        )
        for watch in watches
    ]
    return columns([(moment(when), *rest) for when, *rest in sorted(lines, key=lambda line: line[0])])


def evidence_text(evidence: Mapping[str, Any]) -> str:
    """What was known at a decision, in one line: verdict, counts and p for each split, anything else as it is.

    >>> pairs = {"num_pairs": 16, "both_passed": 0, "fixed": 14, "broken": 0, "both_failed": 2}
    >>> evidence_text({"gate": {"verdict": "pass", "pairs": pairs, "test": {"p_value": 0.00006, "alpha": 0.025}}})
    'gate pass, 0/16 -> 14/16 (14 fixed, 0 broken), p = 6e-05 at alpha 0.025'
    >>> evidence_text({"until": "2026-01-02", "why": None})
    'until 2026-01-02'
    """
    parts = []
    for name, value in evidence.items():
        if name == "watch" and isinstance(value, list | tuple):
            parts += [_watched(each) for each in value]
        elif isinstance(value, Mapping):
            parts.append(f"{name} {_counts(value)}")
        elif value not in (None, "", [], ()):
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            parts.append(f"{name.replace('_', ' ')} {text if len(text) <= _WIDTH else text[: _WIDTH - 1] + '…'}")
    return "; ".join(parts)


def _counts(report: Mapping[str, Any]) -> str:
    pairs, test = report.get("pairs") or {}, report.get("test") or {}
    parts = [str(report["verdict"]).replace("_", " ")] if "verdict" in report else []
    if pairs.get("num_pairs"):
        total, both = pairs["num_pairs"], pairs["both_passed"]
        before, after = both + pairs["broken"], both + pairs["fixed"]
        parts.append(f"{before}/{total} -> {after}/{total} ({pairs['fixed']} fixed, {pairs['broken']} broken)")
    p_value, alpha = (test.get(key, report.get(key)) for key in ("p_value", "alpha"))
    if p_value is not None:
        parts.append(f"p = {p_value:.2g}" + (f" at alpha {alpha:.3g}" if alpha is not None else ""))
    if report.get("num_errors"):
        parts.append(f"{report['num_errors']} in error")
    return ", ".join(parts) or evidence_text(report)


def _watched(watch: Mapping[str, Any]) -> str:
    check = watch["check"]
    outcome = str(check["outcome"]).replace("_", " ")
    return f"watch of {watch['pattern_id']}: {check['num_failures']} of {check['num_samples']} samples fail, {outcome}"


def _version(version: PromptVersion, head: PromptVersion) -> str:
    made_by = f", {version.proposal_id}" if version.proposal_id else ""
    here = "  <- current" if version.id == head.id else ""
    return f"{version.source}, text {version.text_hash[:8]}, {len(version.rules)} rules{made_by}{here}"


def _decision(decision: Decision, numbers: Mapping[str, int]) -> str:
    parts, evidence = [], dict(decision.evidence)
    if patterns := evidence.pop("pattern_ids", ()):
        parts.append(" into ".join(patterns))
    if decision.proposal_id:
        number = decision.revision if decision.revision is not None else evidence.pop("revision", None)
        revision = f" revision {number}" if number is not None else ""
        seen = f", saw {decision.seen_hash[:8]}" if decision.seen_hash else ""
        parts.append(f"{decision.proposal_id}{revision}{seen}")
    if decision.version_id is not None and decision.version_id in numbers:
        parts.append(f"to version {numbers[decision.version_id]}")
    if decision.action == "rebase":
        parts.append(f"from version {evidence.pop('from_version', '?')} to version {evidence.pop('to_version', '?')}")
        evidence = {name: value for name, value in evidence.items() if not name.endswith("_version_id")}
    if decision.automatic:
        parts.append("automatic")
    if decision.accepted_untested:
        parts.append("accepted without evidence")
    if decision.reason:
        parts.append(f"reason: {decision.reason}")
    left = str(evidence.get("from_version_id"))
    if left in numbers:
        evidence["from_version_id"] = f"{left} ({numbers[left]})"
    if found := evidence_text(evidence):
        parts.append(f"evidence: {found}")
    return ", ".join(parts)

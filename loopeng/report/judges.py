"""What judges cost, and how far they agree with people: a part of a run's report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopeng.report.layout import count, excerpt, rate
from loopeng.schema import AnchorReport, JudgeUsage

__all__ = ["JudgeView", "judge_document", "judges_text"]

_WIDTH = 200


@dataclass(frozen=True)
class JudgeView:
    """A judge in one run."""

    evaluator: str
    usage: JudgeUsage  # of the attempts; that of the anchors is in their report
    anchors: AnchorReport | None = None


def judges_text(views: Sequence[JudgeView]) -> str:
    """A line of costs for each judge, its agreement with its anchors, and a warning where that is low."""
    lines = ["judges"]
    for view in views:
        own = view.usage != JudgeUsage() or view.anchors is None  # what a part costs is told with the whole
        lines.append(f"  {view.evaluator}:" + (f" {_costs(view.usage)}" if own else ""))
        if view.anchors is not None:
            lines += [f"      {line}" for line in _anchor_lines(view.anchors)]
    return "\n".join(lines)


def _costs(usage: JudgeUsage) -> str:
    parts = [
        count(usage.num_calls, "call"),
        f"{usage.num_cached:,} from the cache",
        f"{usage.generated_tokens:,} tokens generated",
        f"{usage.prompt_tokens:,} prompt tokens",
        f"{usage.latency_s:.1f} s",
    ]
    if usage.num_asked_again:
        parts.insert(2, f"{usage.num_asked_again:,} asked again")
    return " · ".join(parts)


def _anchor_lines(report: AnchorReport) -> list[str]:
    lines = []
    for each in report.criteria:
        kappa = "" if each.kappa is None else f", kappa {each.kappa:.2f}"
        lines.append(f"anchors, {each.criterion}: agrees with {rate(each.num_agreed, each.num_items)}{kappa}")
    if report.num_errors:
        lines.append(f"anchors: {report.num_errors} of {report.num_anchors} could not be judged")
        lines.append(f"    {excerpt(report.first_error or '', _WIDTH)}")
    if report.doubtful:
        least = f"{report.min_agreement:.0%}".replace("%", " %")
        lines.append(
            f"warning: below {least} agreement on {', '.join(report.doubtful)}: do not trust this judge there; "
            "word the criterion more plainly, or take a stronger judge"
        )
    return lines


def judge_document(view: JudgeView) -> dict[str, object]:
    """The same as plain values."""
    report = view.anchors
    anchors = None
    if report is not None:
        accuracies = {each.criterion: each.accuracy for each in report.criteria}
        anchors = {**report.model_dump(mode="json"), "accuracy": accuracies, "doubtful": list(report.doubtful)}
    return {"evaluator": view.evaluator, "usage": view.usage.model_dump(), "anchors": anchors}

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

    @property
    def total_usage(self) -> JudgeUsage:
        """Of attempts and anchors."""
        return self.usage if self.anchors is None else self.usage + self.anchors.usage

    @property
    def lines(self) -> list[str]:
        """What it cost, its agreement with its anchors, and a warning where that is low."""
        anchors = [] if self.anchors is None else _anchor_lines(self.anchors)
        apart = self.usage == JudgeUsage() and self.anchors is not None  # of a part: its costs are told with the whole
        return [f"{self.evaluator}:" if apart else f"{self.evaluator}: {_costs(self.usage)}", *anchors]


def judges_text(views: Sequence[JudgeView]) -> str:
    """A line of costs for each judge, its agreement with its anchors, and a warning where that is low."""
    lines = ["judges"]
    for view in views:
        first, *others = view.lines
        lines += [f"  {first}", *(f"      {line}" for line in others)]
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

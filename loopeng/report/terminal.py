"""The report at the end of a run, and of ``runs show``: rates, costs, what keeps failing, what waits for a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from loopeng.report.evidence import finding_line, holdout_text
from loopeng.report.layout import both_errors, columns, count, excerpt, moment, rate
from loopeng.schema import FailurePattern, GateReport, Revision
from loopeng.schema.task import RunSpec

if TYPE_CHECKING:
    from loopeng.run_summary import RunSummary, SplitSummary

__all__ = [
    "FailureView",
    "NextCommands",
    "ProposalView",
    "commands_document",
    "commands_text",
    "comparison_line",
    "evidence_lines",
    "failures_text",
    "final_rate",
    "first_rate",
    "goal_text",
    "proposal_text",
    "run_text",
    "short_evidence",
    "state_text",
]

_VERDICT_NOTES = {
    "pass": "evidence of improvement",
    "fail": "no improvement",
    "underpowered": "no evidence: too few samples to tell",
    "noisy": "no evidence: the engine's answers vary too much",
    "not_replayable": "no evidence: cannot be replayed",
    "untested": "no evidence: not tested",
    "error": "the test could not be finished",
}


@dataclass(frozen=True)
class FailureView:
    """A failure pattern with how often this run showed it, and one real output."""

    pattern: FailurePattern
    num_samples: int
    sample_id: str = ""
    reason: str = ""
    output: str = ""
    unproposed: str = ""  # why it leads to no proposal, where it came back often enough for one


@dataclass(frozen=True)
class NextCommands:
    """What a person may type next, exact from the current folder; empty where it would be refused."""

    show: str = ""
    approve: str = ""
    edit: str = ""
    reject: str = ""
    snooze: str = ""
    rebase: str = ""
    work: str = ""
    undo: str = ""


@dataclass(frozen=True)
class ProposalView:
    """A proposal as the end of a run shows it."""

    revision: Revision
    state: str
    state_reason: str | None
    changes: tuple[str, ...]  # the changed rules, marked + - or ~
    gate: GateReport | None
    holdout: GateReport | None
    commands: NextCommands | None  # None where nothing is left to do
    watched: tuple[str, ...] = ()  # the evidence of a rollback, which has no gate
    snoozed_until: datetime | None = None


def run_text(
    summary: RunSummary,
    *,
    version: int | None = None,
    goal: RunSpec | None = None,
    repeats: int = 1,
    previous: tuple[RunSummary, int] | None = None,
) -> str:
    """The run itself: one table of rates, one line of costs, one that compares with ``previous`` (run and version).

    With ``repeats`` every sample counts so many times, and the table says so.
    """
    run = summary.run
    prompt = run.prompt_name + (f" version {version}" if version is not None else "")
    status = run.status + (f" ({run.stop_reason})" if run.stop_reason else "")
    lines = [
        f"run {run.id}  {run.task_name}, prompt {prompt}: {status}",
        *([f"agent {run.own_agent}"] if run.own_agent is not None else []),
        "",
        _rates(summary, repeats),
        "",
        _costs(summary),
    ]
    if goal is not None and run.status == "finished":
        lines.append(goal_text(summary, goal))
    if previous is not None:
        lines.append(comparison_line(*previous, summary))
    return "\n".join(lines)


def goal_text(summary: RunSummary, goal: RunSpec) -> str:
    """What a run had to reach, and whether it did."""
    when = "in the end" if goal.on == "final" else "at the first attempt"
    text = f"goal: {goal.min_pass_rate:.0%} of the samples pass {when}: ".replace("%", " %")
    return text + _reached(summary, goal)


def _reached(summary: RunSummary, goal: RunSpec) -> str:
    """A sample in error says nothing about the prompt: where nothing else is left, nor does the run."""
    total = summary.total
    errors = total.errors if goal.on == "final" else total.first_errors
    if summary.run.status != "finished":
        return f"cannot be said, the run is not complete ({summary.run.status})"
    if errors == total.samples:
        return "cannot be judged, every sample is in error" if errors else "cannot be judged, nothing was run"
    reached = "reached" if summary.pass_rate(goal.on) >= goal.min_pass_rate else "not reached"
    return reached + (f" by those that could be judged ({errors} could not)" if errors else "")


def _rates(summary: RunSummary, repeats: int) -> str:
    samples = "samples" if repeats == 1 else f"samples x {repeats} repeats"
    rows = [("", samples, "first attempt", "final", "errors")]
    for name, part in (("total", summary.total), *summary.splits.items()):
        rows.append(
            (name, str(part.samples), first_rate(part), final_rate(part), both_errors(part.first_errors, part.errors))
        )
    return columns(rows, right=(1, 4), indent="  ")


def _costs(summary: RunSummary) -> str:
    parts = [
        count(summary.attempts, "attempt"),
        f"{summary.usage.generated_tokens:,} tokens generated",
        f"{summary.usage.prompt_tokens:,} prompt tokens",
    ]
    if summary.tokens_per_second is not None and summary.usage.decode_passes:  # else nobody decoded: words, not tokens
        parts.append(f"{summary.tokens_per_second:,.1f} tokens/s")
    if summary.acceptance_length is not None:
        parts.append(f"acceptance length {summary.acceptance_length:.2f}")
    spent = " · ".join(parts)
    return spent if summary.run.rescore_of is None else f"nothing was generated; the original took: {spent}"


def comparison_line(before: RunSummary, version: int, after: RunSummary) -> str:
    """One line: this run against the one before it, which had prompt ``version``."""
    old, new = before.total, after.total
    return (
        f"before: {before.run.id} under version {version} had first attempts {first_rate(old)}, "
        f"final {final_rate(old)}; now first attempts {first_rate(new)}, final {final_rate(new)}"
    )


def first_rate(part: SplitSummary) -> str:
    """First attempts passed, among those that could be judged."""
    return rate(part.first_passed, part.samples - part.first_errors)


def final_rate(part: SplitSummary) -> str:
    """Samples passed in the end, among those that could be judged."""
    return rate(part.final_passed, part.samples - part.errors)


def failures_text(failures: Sequence[FailureView]) -> str:
    """The mistakes that came back, most frequent first."""
    if not failures:
        return "no recurring failures (first attempts, reflect split)"
    lines = ["recurring failures (first attempts, reflect split)"]
    for view in failures:
        pattern = view.pattern
        lines.append(
            f"  {pattern.id}  {count(view.num_samples, 'sample')}  {pattern.evaluator}: {pattern.category}"
            f"  [{pattern.state}]"
        )
        if view.sample_id:
            lines.append(f"      sample {view.sample_id}: {view.reason or pattern.reason}")
            lines.append(f"      {excerpt(view.output)}")
        else:
            lines.append(f"      {view.reason or pattern.reason}")
        if view.unproposed:
            lines.append(f"      no proposal: {view.unproposed}")
    return "\n".join(lines)


def evidence_lines(gate: GateReport | None, holdout: GateReport | None) -> list[str]:
    """Before and after on the gate and on the hold-out samples, how much that is worth, and the test behind it."""
    if gate is None:
        return ["gate: not run"]
    parts = [f"gate {gate.summary}"] if gate.pairs.num_pairs else []
    if holdout is not None:
        parts.append(holdout_text(holdout))
    verdict = gate.note or _VERDICT_NOTES.get(gate.verdict, gate.verdict)
    errors = gate.num_errors + (holdout.num_errors if holdout is not None else 0)
    parts.append(f"{verdict}; {count(errors, 'pair')} dropped for errors" if errors else verdict)
    return [*parts, *filter(None, [finding_line(gate)])]


def short_evidence(gate: GateReport | None) -> str:
    """The same for one cell of a table: samples that pass before and after, and the verdict."""
    if gate is None:
        return "not run"
    pairs, verdict = gate.pairs, gate.verdict.replace("_", " ")
    if not pairs.num_pairs:
        return verdict
    return f"{pairs.baseline_passed} -> {pairs.candidate_passed} of {pairs.num_pairs}, {verdict}"


def state_text(state: str, reason: str | None, snoozed_until: datetime | None = None) -> str:
    """A proposal's state, until when it lasts, and the reason if there is one.

    >>> state_text("stale", "the head moved"), state_text("pending", None)
    ('stale (the head moved)', 'pending')
    """
    lasting = f"{state} until {moment(snoozed_until)}" if snoozed_until is not None else state
    return f"{lasting} ({reason})" if reason else lasting


def proposal_text(view: ProposalView) -> str:
    """One proposal: the rules it changes, its evidence, and the commands that decide it."""
    revision, kind = view.revision, "rollback" if view.watched else "proposal"
    state = state_text(view.state, view.state_reason, view.snoozed_until)
    lines = [f"{kind} {revision.proposal_id}  revision {revision.revision}, {state}, text {revision.text_hash[:8]}"]
    lines += [f"    {line}" for line in view.changes]
    lines += [f"    {line}" for line in view.watched or evidence_lines(view.gate, view.holdout)]
    if view.commands is not None:
        lines.append(commands_text(view.commands, indent="    "))
    return "\n".join(lines)


def commands_document(commands: NextCommands | None) -> dict[str, str] | None:
    """The commands there are, by name."""
    return None if commands is None else {name: line for name, line in vars(commands).items() if line}


def commands_text(commands: NextCommands, indent: str = "") -> str:
    """The commands that show and decide a proposal."""
    rows = [(name, line) for name, line in vars(commands).items() if line]
    return columns(rows, indent=indent)

"""Runs from database rows to the report and to its JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from loopeng.attempt.best import best_attempt
from loopeng.cli.error_views import error_views
from loopeng.cli.failure_views import failure_document, failure_views
from loopeng.cli.judge_views import judge_views
from loopeng.cli.proposal_views import proposal_document, proposal_summary, proposal_view
from loopeng.errors import UsageError
from loopeng.live import with_samples
from loopeng.report.judges import judge_document, judges_text
from loopeng.report.layout import moment
from loopeng.report.notices import errors_text
from loopeng.report.terminal import failures_text, final_rate, first_rate, run_text
from loopeng.schema.attempts import RunKind

if TYPE_CHECKING:
    from loopeng.report.diff_text import Answers
    from loopeng.run_diff import Key, RunDiff
    from loopeng.run_summary import RunSummary
    from loopeng.schema import Proposal, Run, Task
    from loopeng.store import LoopStore

__all__ = [
    "diff_answers",
    "previous_summary",
    "report_text",
    "run_document",
    "run_kind",
    "run_proposals",
    "run_rows",
    "run_task",
    "summary_document",
]

_LOOK_BACK = 1000
_NUM_COMPARED = 20


def run_task(store: LoopStore, run: Run) -> Task:
    """The task as it was when the run was made; of traffic, with the inputs that are kept."""
    return with_samples(store, store.task(run.task_hash))


def run_kind(text: str) -> RunKind | None:
    """The kind of ``--kind``; None for ``all``."""
    kinds = get_args(RunKind)
    if text != "all" and text not in kinds:
        raise UsageError(f"--kind {text!r}: give one of {', '.join(kinds)}, all")
    return None if text == "all" else cast(RunKind, text)


def previous_summary(store: LoopStore, run: Run) -> RunSummary | None:
    """The newest finished suite run of the same task before this one that covers the same samples and repeats."""
    from loopeng.run_summary import summarize

    if run.kind != "suite" or run.status != "finished":
        return None
    newest_first = store.runs(task_name=run.task_name, kind="suite", limit=_LOOK_BACK)
    place = next((place for place, row in enumerate(newest_first) if row.id == run.id), len(newest_first))
    finished = [row for row in newest_first[place + 1 :] if row.status == "finished"][:_NUM_COMPARED]
    covered = _covered(store, run)
    before = next((row for row in finished if _covered(store, row) == covered), None)
    return None if before is None else summarize(store, before.id)


def _covered(store: LoopStore, run: Run) -> set[tuple[str, int]]:
    return {(result.sample_id, result.repeat) for result in store.sample_results(run.id)}


def run_proposals(store: LoopStore, run: Run, moved: Sequence[str] = ()) -> list[Proposal]:
    """The proposals a run's report names: those it moved, and all that wait for a decision on its prompt."""
    return [
        proposal
        for proposal in store.proposals(prompt_name=run.prompt_name)
        if proposal.decidable or proposal.id in moved
    ]


def report_text(store: LoopStore, summary: RunSummary, task: Task, proposals: Sequence[Proposal], db: Path) -> str:
    """The whole report of a run, for people."""
    run, before = summary.run, previous_summary(store, summary.run)
    parts = [
        run_text(
            summary,
            version=_version_number(store, run),
            goal=task.run if run.kind == "suite" else None,
            repeats=_repeats(task, run),
            previous=None if before is None else (before, _version_number(store, before.run)),
        )
    ]
    if errors := error_views(store, summary, task.watching):
        parts.append(errors_text(errors))
    if judges := judge_views(store, run.id):
        parts.append(judges_text(judges))
    failures = failure_views(store, run, _unproposed(store, run, task, proposals))
    if failures or (run.kind, run.status) == ("suite", "finished"):
        parts.append(failures_text(failures))
    parts += [proposal_summary(store, proposal, db) for proposal in proposals]
    return "\n\n".join(parts)


def _repeats(task: Task, run: Run) -> int:
    return task.run.repeats if run.kind in ("suite", "rescore") else 1


def diff_answers(store: LoopStore, diff: RunDiff, *, most: int) -> dict[Key, Answers]:
    """Both answers of the first samples that ended otherwise in the second run, ``most`` fixed and ``most`` broken."""
    from loopeng.report.diff_text import Answers

    def kept(run: Run, key: Key) -> str:
        return best_attempt(store.attempts(run.id, key.sample_id, key.repeat)).text

    keys = [*diff.final.total.fixed[:most], *diff.final.total.broken[:most]]
    return {key: Answers(kept(diff.before, key), kept(diff.after, key)) for key in keys}


def _unproposed(store: LoopStore, run: Run, task: Task, proposals: Sequence[Proposal]) -> dict[str, str]:
    """By pattern, why a frequent failure leads to no proposal; nothing where the report shows the proposal itself."""
    from loopeng.improve.unproposed import find_unproposed

    if not task.improve.enabled or run.prompt_version_id != store.head(run.prompt_name).id:
        return {}
    shown = {proposal.id for proposal in proposals}
    found = find_unproposed(store, task)
    return {each.pattern.id: each.reason for each in found if each.frequent and each.proposal_id not in shown}


def _version_number(store: LoopStore, run: Run) -> int:
    return store.prompt_version(run.prompt_version_id).number


def run_document(
    store: LoopStore, summary: RunSummary, task: Task, proposals: Sequence[Proposal], db: Path
) -> dict[str, Any]:
    """The same as plain values."""
    previous = previous_summary(store, summary.run)
    views = (proposal_view(store, proposal, db) for proposal in proposals)
    return {
        "run": summary.run,
        "exit_code": summary.exit_code(task),
        "pass_rate": summary.pass_rate(task.run.on),
        **summary_document(summary),
        "previous": None if previous is None else {"run": previous.run, **summary_document(previous)},
        "errors": [vars(view) for view in error_views(store, summary, task.watching)],
        "judges": [judge_document(view) for view in judge_views(store, summary.run.id)],
        "failures": [
            failure_document(view)
            for view in failure_views(store, summary.run, _unproposed(store, summary.run, task, proposals))
        ],
        "proposals": [proposal_document(view) for view in views if view is not None],
    }


def summary_document(summary: RunSummary) -> dict[str, Any]:
    """The counts of a run as plain values."""
    return {
        "total": vars(summary.total),
        "splits": {name: vars(part) for name, part in summary.splits.items()},
        "attempts": summary.attempts,
        "error_attempts": summary.error_attempts,
        "usage": summary.usage,
        "tokens_per_second": summary.tokens_per_second,
        "acceptance_length": summary.acceptance_length,
    }


def run_rows(store: LoopStore, summaries: Sequence[RunSummary]) -> list[tuple[str, ...]]:
    """Rows of ``runs list``, with their head."""
    rows: list[tuple[str, ...]] = [
        ("run", "started", "task", "kind", "status", "prompt", "samples", "first attempt", "final", "errors")
    ]
    for summary in summaries:
        run, total = summary.run, summary.total
        repeats = _repeats(store.task(run.task_hash), run)
        rows.append(
            (
                run.id,
                moment(run.created_at),
                run.task_name,
                f"{run.kind} {run.arm}" if run.arm else run.kind,
                run.status,
                f"{run.prompt_name} v{_version_number(store, run)}",
                str(total.samples) if repeats == 1 else f"{total.samples} ({repeats} repeats)",
                first_rate(total),
                final_rate(total),
                str(total.errors),
            )
        )
    return rows

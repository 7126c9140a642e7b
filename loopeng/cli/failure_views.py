"""Failure patterns with real outputs, for the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopeng.cli.places import command, found_task_file
from loopeng.report.layout import count, excerpt
from loopeng.report.terminal import FailureView

if TYPE_CHECKING:
    from loopeng.schema import FailurePattern, Run
    from loopeng.store import LoopStore

__all__ = ["failure_document", "failure_views", "pattern_examples", "pattern_rows", "pattern_text"]


def failure_views(store: LoopStore, run: Run, reasons: Mapping[str, str] | None = None) -> list[FailureView]:
    """The patterns this run showed, most frequent first, each with one real output.

    ``reasons`` says by pattern why it leads to no proposal.
    """
    views, why = [], reasons or {}
    for pattern in store.patterns(run.prompt_name):
        samples = sorted(sample for run_id, sample in store.occurrences(pattern.id) if run_id == run.id)
        if samples:
            example = _example(store, pattern, run.id, samples[0])
            views.append(FailureView(pattern, len(samples), **(example or {}), unproposed=why.get(pattern.id, "")))
    return sorted(views, key=lambda view: (-view.num_samples, view.pattern.id))


def failure_document(view: FailureView) -> dict[str, Any]:
    """A failure of a run as plain values."""
    example = {"sample_id": view.sample_id, "reason": view.reason, "output": view.output} if view.sample_id else None
    return {
        "pattern": view.pattern,
        "num_samples": view.num_samples,
        "example": example,
        "no_proposal": view.unproposed or None,
    }


def pattern_examples(store: LoopStore, pattern: FailurePattern, number: int) -> list[dict[str, str]]:
    """The newest first attempts that showed the pattern, of distinct samples."""
    found: dict[str, dict[str, str]] = {}
    for run_id, sample_id in reversed(store.occurrences(pattern.id)):
        if len(found) < number and sample_id not in found:
            example = _example(store, pattern, run_id, sample_id)
            if example is not None:
                found[sample_id] = {"run_id": run_id, **example}
    return list(found.values())


def pattern_rows(patterns: Sequence[FailurePattern]) -> list[tuple[str, ...]]:
    """Rows of ``failures list``, with their head."""
    rows: list[tuple[str, ...]] = [
        ("pattern", "state", "samples", "times", "prompt", "evaluator", "category", "example")
    ]
    rows += [
        (
            pattern.id,
            pattern.state,
            str(pattern.num_samples),
            str(pattern.num_occurrences),
            pattern.prompt_name,
            pattern.evaluator,
            pattern.category,
            excerpt(pattern.reason, 60),
        )
        for pattern in patterns
    ]
    return rows


def pattern_text(store: LoopStore, pattern: FailurePattern, examples: list[dict[str, str]], db: Path) -> str:
    """One pattern for people, and how to propose a change for it."""
    lines = [
        f"{pattern.id}  {pattern.evaluator}: {pattern.category}  [{pattern.state}]",
        f"prompt {pattern.prompt_name}; under its current version {count(pattern.num_samples, 'sample')}, "
        f"{count(pattern.num_occurrences, 'occurrence')}",
    ]
    if pattern.fault_side != "model":
        lines.append(f"fault of the {pattern.fault_side}, not the model: no prompt change is proposed for it")
    if pattern.remedy:
        lines.append(f"remedy: {pattern.remedy}")
    for example in examples:
        lines += ["", f"{example['run_id']}, sample {example['sample_id']}: {example['reason']}"]
        lines.append(f"    {excerpt(example['output'], 300)}")
    task_path = found_task_file(_task_path(store, pattern), db)
    if pattern.fault_side == "model" and pattern.state in ("open", "reopened") and task_path is not None:
        lines += [
            "",
            "propose a change:",
            f"    {command('propose', '--pattern', pattern.id, db=db, task_path=task_path)}",
        ]
    return "\n".join(lines)


def _example(store: LoopStore, pattern: FailurePattern, run_id: str, sample_id: str) -> dict[str, str] | None:
    for attempt in store.attempts(run_id, sample_id):
        for result in attempt.failed_results if attempt.attempt_index == 0 else ():
            if (result.evaluator, result.category) == (pattern.evaluator, pattern.category):
                return {"sample_id": sample_id, "reason": result.reason, "output": attempt.text}
    return None


def _task_path(store: LoopStore, pattern: FailurePattern) -> Path | None:
    for run_id, _ in reversed(store.occurrences(pattern.id)):
        return store.task(store.run(run_id).task_hash).path
    return None

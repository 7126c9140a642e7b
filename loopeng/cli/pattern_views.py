"""What ``loopeng failures`` shows of patterns: the table, one pattern in full, and what to type next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopeng.cli.failure_views import shown_example
from loopeng.cli.places import command, found_task_file
from loopeng.patterns.similarity import MergeSuggestion, suggest_merges
from loopeng.patterns.trigger import why_never
from loopeng.report.layout import columns, count, excerpt, moment, rate
from loopeng.report.terminal import state_text
from loopeng.schema.live import live_prompt

if TYPE_CHECKING:
    from datetime import datetime

    from loopeng.schema import FailurePattern, Task
    from loopeng.store import LoopStore

__all__ = [
    "PatternView",
    "is_hidden",
    "pattern_document",
    "pattern_table",
    "pattern_text",
    "pattern_views",
    "suggestions_text",
]


@dataclass(frozen=True)
class PatternView:
    """A pattern as people see it. ``num_judged`` reflect samples could have shown it under the prompt's head."""

    pattern: FailurePattern
    num_judged: int
    examples: tuple[dict[str, str], ...]
    suggestion: MergeSuggestion | None = None


def is_hidden(pattern: FailurePattern) -> bool:
    """Whether ``failures list`` leaves it out unless it is asked for all."""
    return pattern.state == "muted" or pattern.merged_into is not None


def pattern_views(store: LoopStore, patterns: Sequence[FailurePattern], num_examples: int = 1) -> list[PatternView]:
    """Views with the first real examples, of distinct samples, and what each could be merged into."""
    judged = {name: _judged(store, name) for name in {pattern.prompt_name for pattern in patterns}}
    alike = {each.source: each for name in sorted(judged) for each in suggest_merges(store.patterns(name))}
    return [
        PatternView(
            pattern,
            judged[pattern.prompt_name][pattern.id, pattern.fault_side == "model"],
            tuple(_examples(store, pattern, num_examples)),
            alike.get(pattern.id),
        )
        for pattern in patterns
    ]


def pattern_table(views: Sequence[PatternView]) -> str:
    """The table of ``failures list``, with its head."""
    rows: list[tuple[str, ...]] = [
        ("pattern", "state", "fault", "samples", "times", "rate", "prompt", "evaluator", "category", "first example")
    ]
    for view in views:
        pattern = view.pattern
        shown = view.examples[0]["reason"] if view.examples else pattern.reason
        rows.append(
            (
                pattern.id,
                "merged" if pattern.merged_into else pattern.state,
                pattern.fault_side,
                str(pattern.num_samples),
                str(pattern.num_occurrences),
                _share(view),
                pattern.prompt_name,
                pattern.evaluator,
                pattern.category,
                excerpt(shown, 60),
            )
        )
    return columns(rows, right=(3, 4, 5))


def suggestions_text(views: Sequence[PatternView], db: Path) -> str:
    """The merges that could be made, as commands; empty where there are none."""
    lines = [
        f"  {_merge_command(view.suggestion, db)}    # {view.suggestion.similarity:.0%} alike".replace("% ", " % ")
        for view in views
        if view.suggestion is not None
    ]
    return "\n".join(["these read nearly alike; if they are one mistake, merge them:", *lines]) if lines else ""


def pattern_document(view: PatternView, db: Path) -> dict[str, Any]:
    """A line of the table as plain values."""
    suggestion = view.suggestion
    return {
        **view.pattern.model_dump(mode="json"),
        "num_judged": view.num_judged,
        "example": view.examples[0] if view.examples else None,
        "suggestion": None if suggestion is None else vars(suggestion) | {"command": _merge_command(suggestion, db)},
    }


def pattern_text(store: LoopStore, view: PatternView, db: Path) -> str:
    """One pattern for people: what it is, real outputs, its history, and what can be done about it."""
    pattern = view.pattern
    state = "merged" if pattern.merged_into else pattern.state
    failed = rate(pattern.num_samples, view.num_judged)
    lines = [
        f"{pattern.id}  {pattern.evaluator}: {pattern.category}  [{state_text(state, pattern.state_reason)}]",
        f"prompt {pattern.prompt_name}; under its current version {failed} reflect samples, "
        f"{count(pattern.num_occurrences, 'occurrence')}",
    ]
    if pattern.fault_side != "model":
        lines.append(f"fault of the {pattern.fault_side}, not the model: no prompt change is proposed for it")
    if pattern.remedy:
        lines.append(f"remedy: {pattern.remedy}")
    for example in view.examples:
        lines += ["", f"{example['run_id']}, sample {example['sample_id']}: {example['reason']}"]
        lines.append(f"    {excerpt(example['output'], 300)}")
    lines += ["", "history", *(f"    {line}" for line in _history(store, pattern))]
    if view.suggestion is not None:
        into = store.pattern(view.suggestion.into)
        lines += ["", f"reads nearly like {into.id}  {into.evaluator}: {into.category}  {excerpt(into.reason, 80)}"]
    lines += ["", columns(_commands(store, view, db))]
    return "\n".join(lines)


def _judged(store: LoopStore, prompt_name: str) -> dict[tuple[str, bool], int]:
    """By pattern and whether the model is to blame, how many reflect samples could have shown it under the head."""
    head = store.head(prompt_name)
    failing: defaultdict[str, set[str]] = defaultdict(set)
    for failure in store.failures_under(head.id):
        failing[failure.pattern_id].add(failure.sample_id)
    seen = [*store.seen_samples(head.id), *store.seen_samples(head.id, "live")]
    could = {by_model: {each.sample_id for each in seen if each.judged or not by_model} for by_model in (True, False)}
    patterns = store.patterns(prompt_name)
    return {(each.id, by_model): len(could[by_model] | failing[each.id]) for each in patterns for by_model in could}


def _share(view: PatternView) -> str:
    return f"{view.pattern.num_samples / view.num_judged:.0%}".replace("%", " %") if view.num_judged else "-"


def _examples(store: LoopStore, pattern: FailurePattern, number: int) -> list[dict[str, str]]:
    """The newest first attempts that showed the pattern, of distinct samples."""
    found: dict[str, dict[str, str]] = {}
    for run_id, sample_id in reversed(store.occurrences(pattern.id)):
        if len(found) < number and sample_id not in found:
            example = shown_example(store, pattern, run_id, sample_id)
            if example is not None:
                found[sample_id] = {"run_id": run_id, **example}
    return list(found.values())


def _history(store: LoopStore, pattern: FailurePattern) -> list[str]:
    """When it was first seen, what was proposed for it, what people decided about it; the oldest first."""
    entries: list[tuple[datetime, str]] = [(pattern.created_at, "first seen")]
    for proposal in store.proposals(prompt_name=pattern.prompt_name):
        if pattern.id in proposal.pattern_ids:
            what = state_text(proposal.state, proposal.state_reason)
            entries.append((proposal.created_at, f"proposal {proposal.id} started, now {what}"))
    for decision in store.pattern_decisions(pattern.id):
        source, *into = decision.evidence["pattern_ids"]
        what = f"{decision.action} {source}" + (f" into {into[0]}" if into else "") + f" by {decision.by}"
        entries.append((decision.created_at, f"{what}: {decision.reason}" if decision.reason else what))
    return [f"{moment(at)}  {what}" for at, what in sorted(entries)]


def _commands(store: LoopStore, view: PatternView, db: Path) -> list[tuple[str, str]]:
    pattern = view.pattern
    if pattern.merged_into is not None:
        return [("show", command("failures", "show", pattern.merged_into, db=db))]
    if pattern.state == "muted":
        return [("unmute", command("failures", "unmute", pattern.id, db=db))]
    rows = []
    if view.suggestion is not None:
        rows.append(("merge", _merge_command(view.suggestion, db)))
    rows.append(("mute", command("failures", "mute", pattern.id, "--reason", "why it is no mistake", db=db)))
    task = _latest_task(store, pattern)
    if task is not None and why_never(pattern) is None and pattern.state in ("open", "reopened"):
        named, task_path = ("propose", "--pattern", pattern.id), found_task_file(task.path, db)
        if live_prompt(task.name) is not None:
            rows.append(("propose", command(*named, task.name, db=db)))
        elif task_path is not None:
            rows.append(("propose", command(*named, db=db, task_path=task_path)))
    return rows


def _merge_command(suggestion: MergeSuggestion, db: Path) -> str:
    return command("failures", "merge", suggestion.source, suggestion.into, db=db)


def _latest_task(store: LoopStore, pattern: FailurePattern) -> Task | None:
    for run_id, _ in reversed(store.occurrences(pattern.id)):
        return store.task(store.run(run_id).task_hash)
    return None

"""Screening: which of several suggestions is worth the gate. Reflect samples decide, so that the gate's stay unseen."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from loopeng.attempt.events import EngineRetried, GateProgress, ProgressEvent, RunStarted, SampleFinished
from loopeng.attempt.harness import Harness
from loopeng.errors import BudgetStop
from loopeng.improve.gate import why_not_replayable
from loopeng.improve.rules import apply_operations
from loopeng.improve.spending import Spending
from loopeng.schema import PromptVersion, Proposal, Run, Sample, Suggestion, Task

__all__ = ["screen", "screening_samples"]


def screen(
    harness: Harness, proposal: Proposal, suggestions: Sequence[Suggestion], spending: Spending
) -> list[Suggestion]:
    """Settle which suggestion is chosen: most reflect samples passed, then fewest characters, then the first.

    One run each, first attempts, the same samples and seeds. Where the task's attempts cannot be run again nothing is
    run, and length decides. Raises BudgetStop at one of the limits; finished runs are not made again.
    """
    base, reason = harness.store.prompt_version(proposal.base_version_id), why_not_replayable(harness, proposal)
    samples = [] if reason else screening_samples(harness.task)
    counted = [
        _counted(harness, _run(harness, proposal, _version(base, each), each.number, samples, spending), each)
        if samples
        else each
        for each in suggestions
    ]
    best = min(counted, key=lambda each: (-(each.num_passed or 0), _num_chars(base, each), each.number))
    return [each if each is best else _outscored(each, best, reason) for each in counted]


def screening_samples(task: Task) -> list[Sample]:
    """At most ``gate.samples`` of the reflect split, the same ones every time, in the task's order."""
    reflect = [sample for sample in task.samples if sample.split == "reflect"]
    chosen = {sample.id for sample in sorted(reflect, key=lambda sample: _digest(sample.id))[: task.gate.samples]}
    return [sample for sample in reflect if sample.id in chosen]


def _outscored(suggestion: Suggestion, best: Suggestion, why_not_screened: str | None) -> Suggestion:
    if suggestion.num_screened is None:
        reason = f"suggestion {best.number} is not longer; not tried out: {why_not_screened or 'no reflect samples'}"
    elif suggestion.num_passed == best.num_passed:
        reason = f"suggestion {best.number} passed as many samples and is not longer"
    else:
        reason = f"suggestion {best.number} passed {best.num_passed}"
    return suggestion.model_copy(update={"outcome": "outscored", "reason": reason})


def _version(base: PromptVersion, suggestion: Suggestion) -> PromptVersion:
    """A suggestion is no version yet: it keeps the id of its base."""
    rules = apply_operations(base.rules, suggestion.operations)
    return base.model_copy(update={"rules": rules, "text_hash": suggestion.text_hash, "source": "proposal"})


def _num_chars(base: PromptVersion, suggestion: Suggestion) -> int:
    return sum(len(rule.text) for rule in apply_operations(base.rules, suggestion.operations))


def _run(
    harness: Harness,
    proposal: Proposal,
    version: PromptVersion,
    number: int,
    samples: Sequence[Sample],
    spending: Spending,
) -> Run:
    from loopeng.runner import execute_run  # brings langgraph, which looking at the queue does not need

    run = harness.store.create_run(
        kind="screen",
        task=harness.task,
        version=version,
        seed=int(_digest(f"{proposal.id}:screen")[:8], 16),
        proposal_id=proposal.id,
        revision=number,
        arm="candidate",
        engine=harness.description(),
    )
    if run.status == "finished":
        return run
    left = spending.left_for(run)  # before the run is opened again
    run = execute_run(
        replace(harness, on_event=_Progress(harness, proposal, number, len(samples))),
        harness.store.reopen_run(run.id),
        version,
        samples,
        max_attempts=1,
        repeats=1,
        limits=left,
    )
    if run.status == "budget":
        raise BudgetStop(f"improve.{run.stop_reason}")
    return run


def _counted(harness: Harness, run: Run, suggestion: Suggestion) -> Suggestion:
    """A sample in error is no sample that passed; it is not counted as screened either."""
    verdicts = [result.first_verdict for result in harness.store.sample_results(run.id)]
    counts = {"num_passed": verdicts.count("pass"), "num_screened": len(verdicts) - verdicts.count("error")}
    return suggestion.model_copy(update=counts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Progress:
    """Tells of the samples as progress of a comparison; these runs are not runs of the user's."""

    def __init__(self, harness: Harness, proposal: Proposal, number: int, num_samples: int) -> None:
        self._harness, self._proposal, self._number = harness, proposal, number
        self._num_samples, self._num_finished = num_samples, 0

    def __call__(self, event: ProgressEvent) -> None:
        if isinstance(event, RunStarted):
            self._num_finished = event.num_finished
        elif isinstance(event, SampleFinished):
            self._num_finished += 1
            where = f"suggestion {self._number}"
            progress = GateProgress(self._proposal.id, "screen", where, self._num_finished, self._num_samples)
            self._harness.on_event(progress)
        elif isinstance(event, EngineRetried):
            self._harness.on_event(event)

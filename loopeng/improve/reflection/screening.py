"""Screening: which of several suggestions is worth the gate. Reflect samples decide, so that the gate's stay unseen."""

from __future__ import annotations

from collections.abc import Sequence

from loopeng.attempt.harness import Harness
from loopeng.improve.choosing import choose_samples
from loopeng.improve.replaying import candidate_version, replay, replay_seed, why_not_replayable
from loopeng.improve.rules import apply_operations
from loopeng.improve.spending import Spending
from loopeng.schema import PromptVersion, Proposal, Run, Sample, Suggestion

__all__ = ["screen"]


def screen(
    harness: Harness, proposal: Proposal, suggestions: Sequence[Suggestion], spending: Spending
) -> list[Suggestion]:
    """Settle which suggestion is chosen: most reflect samples passed, then fewest characters, then the first.

    One run each, first attempts, the same samples and seeds. Where the task's attempts cannot be run again nothing is
    run, and length decides. Raises BudgetStop at one of the limits; finished runs are not made again.
    """
    base, reason = harness.store.prompt_version(proposal.base_version_id), why_not_replayable(harness, proposal)
    samples = [] if reason else choose_samples(harness.task, "reflect")
    counted = [
        _counted(harness, _run(harness, proposal, each, samples, spending), each) if samples else each
        for each in suggestions
    ]
    best = min(counted, key=lambda each: (-(each.num_passed or 0), _num_chars(base, each), each.number))
    return [each if each is best else _outscored(each, best, reason) for each in counted]


def _outscored(suggestion: Suggestion, best: Suggestion, why_not_screened: str | None) -> Suggestion:
    if suggestion.num_screened is None:
        reason = f"suggestion {best.number} is not longer; not tried out: {why_not_screened or 'no reflect samples'}"
    elif suggestion.num_passed == best.num_passed:
        reason = f"suggestion {best.number} passed as many samples and is not longer"
    else:
        reason = f"suggestion {best.number} passed {best.num_passed}"
    return suggestion.model_copy(update={"outcome": "outscored", "reason": reason})


def _num_chars(base: PromptVersion, suggestion: Suggestion) -> int:
    return sum(len(rule.text) for rule in apply_operations(base.rules, suggestion.operations))


def _run(
    harness: Harness, proposal: Proposal, suggestion: Suggestion, samples: Sequence[Sample], spending: Spending
) -> Run:
    base, number = harness.store.prompt_version(proposal.base_version_id), suggestion.number
    run = harness.store.create_run(
        kind="screen",
        task=harness.task,
        version=base,
        seed=replay_seed(harness.task, proposal.id, "screen"),
        proposal_id=proposal.id,
        revision=number,
        arm="candidate",
        engine=harness.description(),
    )
    version = candidate_version(base, apply_operations(base.rules, suggestion.operations))
    return replay(harness, run, version, samples, spending, told_as=f"suggestion {number}")


def _counted(harness: Harness, run: Run, suggestion: Suggestion) -> Suggestion:
    """A sample in error is no sample that passed; it is not counted as screened either."""
    verdicts = [result.first_verdict for result in harness.store.sample_results(run.id)]
    counts = {"num_passed": verdicts.count("pass"), "num_screened": len(verdicts) - verdicts.count("error")}
    return suggestion.model_copy(update=counts)

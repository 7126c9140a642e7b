"""The arms of a paired comparison: same samples, same seeds, and what is reported of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loopeng.attempt.harness import Harness
from loopeng.improve.gate.pairing import Comparison
from loopeng.improve.replaying import candidate_version, replay, replay_seed
from loopeng.improve.spending import Spending
from loopeng.schema import ArmCount, GateReport, PromptVersion, Proposal, Revision, Run, Sample, utc_now
from loopeng.schema.attempts import Arm
from loopeng.schema.evidence import GateVerdict
from loopeng.schema.live import source_of
from loopeng.store import LoopStore

__all__ = ["Trial", "TrialSplit", "arm_count", "run_arm"]

TrialSplit = Literal["gate", "holdout"]


@dataclass(frozen=True)
class Trial:
    """One revision on one split."""

    proposal: Proposal
    revision: Revision
    base: PromptVersion
    split: TrialSplit

    def version(self, arm: Arm) -> PromptVersion:
        """What an arm runs under."""
        return candidate_version(self.base, self.revision.rules) if arm == "candidate" else self.base

    def report(self, verdict: GateVerdict, note: str, comparison: Comparison, **details: object) -> GateReport:
        """The report of this trial."""
        return GateReport.model_validate(
            {
                "proposal_id": self.proposal.id,
                "revision": self.revision.revision,
                "split": self.split,
                "verdict": verdict,
                "note": note,
                "pairs": comparison.pairs,
                "num_errors": comparison.num_errors,
                "by_evaluator": comparison.by_evaluator,
                "fixed_samples": comparison.fixed_samples,
                "broken_samples": comparison.broken_samples,
                "fingerprint": min(comparison.fingerprints, default=None),
                "created_at": utc_now(),
                **details,
            }
        )


def run_arm(harness: Harness, trial: Trial, arm: Arm, samples: Sequence[Sample], spending: Spending) -> Run:
    """Run an arm, or what is left of it. Raises BudgetStop at a limit of ``spending``.

    All arms of a revision on a split have the same seed.
    """
    run = harness.store.create_run(
        kind=trial.split,
        task=harness.task,
        version=trial.base,
        seed=replay_seed(harness.task, trial.proposal.id, trial.revision.revision, trial.split),
        proposal_id=trial.proposal.id,
        revision=trial.revision.revision,
        arm=arm,
        engine=harness.description(),
    )
    references = _earlier_outputs(harness, trial, samples)
    return replay(harness, run, trial.version(arm), samples, spending, told_as=arm, references=references)


def arm_count(store: LoopStore, arm: Arm, run: Run) -> ArmCount:
    """What an arm cost."""
    _, usage = store.run_usage(run.id)
    return ArmCount(arm=arm, run_id=run.id, prompt_tokens=usage.prompt_tokens, generated_tokens=usage.generated_tokens)


def _earlier_outputs(harness: Harness, trial: Trial, samples: Sequence[Sample]) -> Mapping[str, Sequence[str]]:
    """What the latest run answered, as text that drafts may follow."""
    name = trial.proposal.task_name
    return {
        sample.id: [attempt.text for attempt in harness.store.attempts(run.id, sample.id) if attempt.text]
        for run in harness.store.runs(task_name=name, kind=source_of(name), limit=1)
        for sample in samples
    }

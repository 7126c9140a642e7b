"""The gate: both arms on the same samples with the same seeds, first attempts only, and what the counts say.

``compare`` makes the runs and returns the report. Its runs are rows under natural keys, so a comparison that was cut
off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from loopeng.attempt.events import EngineRetried, GateProgress, ProgressEvent, RunStarted, SampleFinished
from loopeng.attempt.harness import Harness
from loopeng.errors import BudgetStop
from loopeng.improve.pairing import Comparison, compare_attempts, count_pairs
from loopeng.improve.spending import Spending
from loopeng.schema import (
    ArmCount,
    Attempt,
    GateReport,
    PromptVersion,
    Proposal,
    Revision,
    Run,
    Sample,
    Task,
    utc_now,
)
from loopeng.schema.attempts import Arm
from loopeng.schema.evidence import GateVerdict
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore

__all__ = [
    "NO_EVIDENCE",
    "Trial",
    "TrialSplit",
    "choose_samples",
    "compare",
    "judge",
    "trial_seed",
    "why_not_replayable",
]

_ARMS: tuple[Arm, Arm] = ("baseline", "candidate")
NO_EVIDENCE: frozenset[GateVerdict] = frozenset({"underpowered", "noisy", "not_replayable", "untested"})
TrialSplit = Literal["gate", "holdout"]


@dataclass(frozen=True)
class Trial:
    """One revision on one split."""

    proposal: Proposal
    revision: Revision
    base: PromptVersion
    split: TrialSplit

    def version(self, arm: Arm) -> PromptVersion:
        """What an arm runs under. A candidate is no version yet: it keeps the id of its base."""
        if arm == "baseline":
            return self.base
        changes = {"rules": self.revision.rules, "text_hash": self.revision.text_hash, "source": "proposal"}
        return self.base.model_copy(update=changes)

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


def compare(harness: Harness, trial: Trial, limits: BudgetSpec) -> GateReport:
    """Run both arms, or what is left of them, and report. Raises BudgetStop at one of ``limits``."""
    if reason := why_not_replayable(harness, trial.proposal):
        return trial.report("not_replayable", f"no evidence: {reason}", _NOTHING, deterministic=False)
    samples = choose_samples(harness.task, trial.split)
    spending = Spending(harness.store, trial.proposal, limits)
    runs = {arm: _run_arm(harness, trial, arm, samples, spending) for arm in _ARMS}
    firsts = {arm: _first_attempts(harness, run) for arm, run in runs.items()}
    comparison = compare_attempts(firsts["baseline"], firsts["candidate"])
    verdict, note = judge(comparison)
    arms = [_arm_count(harness, arm, run) for arm, run in runs.items()]
    return trial.report(verdict, note, comparison, arms=arms, deterministic=harness.engine.describe().deterministic)


def judge(comparison: Comparison) -> tuple[GateVerdict, str]:
    """The verdict and why. Counts alone prove nothing yet, so nothing is called a pass."""
    if len(comparison.fingerprints) > 1:
        found = ", ".join(sorted(comparison.fingerprints))
        return "error", f"the attempts were made under different numerics ({found}), so the arms cannot be compared"
    if comparison.num_errors and not comparison.pairs.num_pairs:
        return "error", f"all {comparison.num_errors} pairs had an attempt in error"
    return "untested", "not yet tested for significance"


def why_not_replayable(harness: Harness, proposal: Proposal) -> str | None:
    """What keeps the gate from running the task's attempts again, or None.

    Another process must be able to make engine, agent and evaluators; the run behind the proposal counts too, since a
    rebuilt harness need not be the one that made it.
    """
    if not getattr(harness.agent, "replayable", False):
        return "the agent may have side effects; say 'replayable: true' in the task if it has none"
    here, behind = harness.description(), _engine_behind(harness.store, proposal)
    if here["reference"] is None or behind.get("reference", "") is None:
        return "the engine is a live object that no other process can make"
    if here["agent"] is None or behind.get("agent", here["agent"]) is None:
        return "the agent is a live object that no other process can make"
    if behind.get("agent", here["agent"]) != here["agent"]:
        return f"the agent at hand is {here['agent']!r}, the failures were made by {behind['agent']!r}"
    live = [each.id for each in harness.evaluators if getattr(each, "reference", None) is None]
    return f"no other process can make the evaluators {', '.join(live)}" if live else None


def _engine_behind(store: LoopStore, proposal: Proposal) -> Mapping[str, Any]:
    """What the latest suite run of the proposal's very task says of engine and agent; else that of its namesake."""
    runs = store.runs(task_name=proposal.task_name, kind="suite")
    own = [run for run in runs if run.task_hash == proposal.task_hash]
    return next((run.engine for run in (*own, *runs)), {})


def choose_samples(task: Task, split: TrialSplit) -> list[Sample]:
    """At most ``gate.samples`` of a split, the same ones every time, in the task's order."""
    candidates = [sample for sample in task.samples if sample.split == split]
    chosen = {sample.id for sample in sorted(candidates, key=lambda sample: _digest(sample.id))[: task.gate.samples]}
    return [sample for sample in candidates if sample.id in chosen]


def trial_seed(task: Task, trial: Trial) -> int:
    """The seed of both arms' runs: of this revision and split alone, and never that of the suite."""
    seed = int(_digest(f"{trial.proposal.id}:{trial.revision.revision}:{trial.split}")[:8], 16)
    return seed if seed != task.run.seed else seed + 1


def _run_arm(harness: Harness, trial: Trial, arm: Arm, samples: Sequence[Sample], spending: Spending) -> Run:
    from loopeng.runner import execute_run  # brings langgraph, which looking at the queue does not need

    run = harness.store.create_run(
        kind=trial.split,
        task=harness.task,
        version=trial.base,
        seed=trial_seed(harness.task, trial),
        proposal_id=trial.proposal.id,
        revision=trial.revision.revision,
        arm=arm,
        engine=harness.description(),
    )
    if run.status == "finished":
        return run
    left = spending.left_for(run)  # before the run is opened again
    run = execute_run(
        replace(harness, on_event=_Progress(harness, trial, arm, len(samples))),
        harness.store.reopen_run(run.id),
        trial.version(arm),
        samples,
        max_attempts=1,
        repeats=1,
        limits=left,
        references=_earlier_outputs(harness, trial, samples),
    )
    if run.status == "budget":
        raise BudgetStop(f"improve.{run.stop_reason}")
    return run


def _earlier_outputs(harness: Harness, trial: Trial, samples: Sequence[Sample]) -> Mapping[str, Sequence[str]]:
    """What the latest suite run answered, as text that drafts may follow."""
    return {
        sample.id: [attempt.text for attempt in harness.store.attempts(run.id, sample.id) if attempt.text]
        for run in harness.store.runs(task_name=trial.proposal.task_name, kind="suite", limit=1)
        for sample in samples
    }


def _first_attempts(harness: Harness, run: Run) -> dict[str, Attempt]:
    return {attempt.sample_id: attempt for attempt in harness.store.attempts(run.id) if attempt.attempt_index == 0}


def _arm_count(harness: Harness, arm: Arm, run: Run) -> ArmCount:
    _, usage = harness.store.run_usage(run.id)
    return ArmCount(arm=arm, run_id=run.id, prompt_tokens=usage.prompt_tokens, generated_tokens=usage.generated_tokens)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_NOTHING = Comparison(count_pairs(()), {}, (), (), 0, frozenset())


class _Progress:
    """Tells of an arm's samples as progress of the gate; a gate's run is not a run of the user's."""

    def __init__(self, harness: Harness, trial: Trial, arm: Arm, num_samples: int) -> None:
        self._harness, self._trial, self._arm = harness, trial, arm
        self._num_samples, self._num_finished = num_samples, 0

    def __call__(self, event: ProgressEvent) -> None:
        if isinstance(event, RunStarted):
            self._num_finished = event.num_finished
        elif isinstance(event, SampleFinished):
            self._num_finished += 1
            trial = self._trial
            self._harness.on_event(
                GateProgress(trial.proposal.id, trial.split, self._arm, self._num_finished, self._num_samples)
            )
        elif isinstance(event, EngineRetried):
            self._harness.on_event(event)

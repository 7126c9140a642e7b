"""Running the arms of a paired comparison: same samples, same seeds, first attempts only.

Runs are rows under natural keys, so an arm that was cut off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from loopeng.attempt.events import EngineRetried, GateProgress, ProgressEvent, RunStarted, SampleFinished
from loopeng.attempt.harness import Harness
from loopeng.errors import BudgetStop
from loopeng.improve.pairing import Comparison
from loopeng.improve.spending import Spending
from loopeng.prompts import find_placeholders
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
    content_hash,
    utc_now,
)
from loopeng.schema.attempts import Arm
from loopeng.schema.evidence import GateVerdict
from loopeng.store import LoopStore

__all__ = [
    "Trial",
    "TrialSplit",
    "arm_count",
    "choose_samples",
    "first_attempts",
    "foreseen_obstacle",
    "is_deterministic",
    "run_arm",
    "sample_key",
    "sample_keys",
    "trial_seed",
    "why_not_replayable",
]

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
        if arm != "candidate":
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


def why_not_replayable(harness: Harness, proposal: Proposal) -> str | None:
    """What keeps the gate from running the task's attempts again, or None.

    Another process must be able to make engine, agent and evaluators; the run behind the proposal counts too, since a
    rebuilt harness need not be the one that made it.
    """
    if (obstacle := foreseen_obstacle(harness, proposal)) is not None:
        return obstacle
    return _LIVE_ENGINE if harness.engine.describe().reference is None else None


def foreseen_obstacle(harness: Harness, proposal: Proposal) -> str | None:
    """The same as far as it can be known before the engine is made."""
    if not getattr(harness.agent, "replayable", False):
        return "the agent may have side effects; say 'replayable: true' in the task if it has none"
    behind, agent = _engine_behind(harness.store, proposal), getattr(harness.agent, "reference", None)
    if behind.get("reference", "") is None:
        return _LIVE_ENGINE
    if agent is None or behind.get("agent", agent) is None:
        return "the agent is a live object that no other process can make"
    if behind.get("agent", agent) != agent:
        return f"the agent at hand is {agent!r}, the failures were made by {behind['agent']!r}"
    live = [each.id for each in harness.evaluators if getattr(each, "reference", None) is None]
    return f"no other process can make the evaluators {', '.join(live)}" if live else None


_LIVE_ENGINE = "the engine is a live object that no other process can make"


def _engine_behind(store: LoopStore, proposal: Proposal) -> Mapping[str, Any]:
    """What the latest suite run of the proposal's very task says of engine and agent; else that of its namesake."""
    runs = store.runs(task_name=proposal.task_name, kind="suite")
    own = [run for run in runs if run.task_hash == proposal.task_hash]
    return next((run.engine for run in (*own, *runs)), {})


def is_deterministic(harness: Harness) -> bool:
    """Whether the same seed gives the same text again: the engine says so, and the agent is the built-in one."""
    return getattr(harness.agent, "reference", None) == "llm" and harness.engine.describe().deterministic


def choose_samples(task: Task, split: TrialSplit) -> list[Sample]:
    """At most ``gate.samples`` of a split, the same ones every time, in the task's order.

    Of samples that ask and expect the same only one, as counting it twice is no more evidence; none that stands in the
    reflect split too, under another name, as the change was made from it.
    """
    names = _names_only(task)
    taken = {sample_key(sample, names) for sample in task.samples if sample.split == "reflect"}
    candidates = [sample for sample in task.samples if sample.split == split]
    chosen = set[str]()
    for sample in sorted(candidates, key=lambda sample: _digest(sample.id)):
        if len(chosen) < task.gate.samples and (key := sample_key(sample, names)) not in taken:
            taken.add(key)
            chosen.add(sample.id)
    return [sample for sample in candidates if sample.id in chosen]


def sample_keys(task: Task, samples: Iterable[Sample]) -> frozenset[str]:
    """What a look at samples of a task is entered under in the alpha ledger."""
    names = _names_only(task)
    return frozenset(sample_key(sample, names) for sample in samples)


def sample_key(sample: Sample, names: Collection[str] = ()) -> str:
    """Hash of what a sample asks and expects: another name for it, or for its file, makes it no new sample.

    ``names`` are the inputs that only name it.
    """
    asked = {name: value for name, value in sample.inputs.items() if name not in names}
    return content_hash({"inputs": asked or sample.inputs, "target": sample.target})


def _names_only(task: Task) -> frozenset[str]:
    """``dataset.id`` and ``dataset.group``, which are inputs like the rest, unless the template shows them.

    What an agent of the user's own reads of its input nobody knows: there they are part of the question.
    """
    if task.agent.kind != "llm":
        return frozenset()
    named = {name for name in (task.dataset.id, task.dataset.group) if name is not None}
    return frozenset(named - find_placeholders(task.template))


def trial_seed(task: Task, trial: Trial) -> int:
    """The seed of all arms' runs: of this revision and split alone, and never that of the suite."""
    seed = int(_digest(f"{trial.proposal.id}:{trial.revision.revision}:{trial.split}")[:8], 16)
    return seed if seed != task.run.seed else seed + 1


def run_arm(harness: Harness, trial: Trial, arm: Arm, samples: Sequence[Sample], spending: Spending) -> Run:
    """Run an arm, or what is left of it. Raises BudgetStop at a limit of ``spending``."""
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


def first_attempts(store: LoopStore, run: Run) -> dict[str, Attempt]:
    """By sample id."""
    return {attempt.sample_id: attempt for attempt in store.attempts(run.id) if attempt.attempt_index == 0}


def arm_count(store: LoopStore, arm: Arm, run: Run) -> ArmCount:
    """What an arm cost."""
    _, usage = store.run_usage(run.id)
    return ArmCount(arm=arm, run_id=run.id, prompt_tokens=usage.prompt_tokens, generated_tokens=usage.generated_tokens)


def _earlier_outputs(harness: Harness, trial: Trial, samples: Sequence[Sample]) -> Mapping[str, Sequence[str]]:
    """What the latest suite run answered, as text that drafts may follow."""
    return {
        sample.id: [attempt.text for attempt in harness.store.attempts(run.id, sample.id) if attempt.text]
        for run in harness.store.runs(task_name=trial.proposal.task_name, kind="suite", limit=1)
        for sample in samples
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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

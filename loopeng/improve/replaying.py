"""Running a task's attempts again, first attempts only: what gate, screening and reproduction have in common.

Runs are rows under natural keys, so one that was cut off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from loopeng.attempt.events import EngineRetried, GateProgress, ProgressEvent, RunStarted, SampleFinished
from loopeng.attempt.harness import Harness
from loopeng.errors import BudgetStop
from loopeng.evaluators.judge import ModelJudge
from loopeng.evaluators.parts import walk_parts
from loopeng.improve.spending import Spending
from loopeng.prompts import text_hash
from loopeng.schema import Attempt, PromptVersion, Proposal, Rule, Run, Sample, Task
from loopeng.schema.live import source_of
from loopeng.store import LoopStore

__all__ = [
    "candidate_version",
    "first_attempts",
    "foreseen_obstacle",
    "is_deterministic",
    "replay",
    "replay_seed",
    "run_behind",
    "why_not_replayable",
]

_LIVE_ENGINE = "the engine is a live object that no other process can make"


def replay(
    harness: Harness,
    run: Run,
    version: PromptVersion,
    samples: Sequence[Sample],
    spending: Spending,
    *,
    told_as: str,
    references: Mapping[str, Sequence[str]] | None = None,
) -> Run:
    """Make a run's first attempts, or what is left of them. Raises BudgetStop at a limit of ``spending``.

    It is no run of the user's: its samples are told of as progress of the proposal, under the name ``told_as``.
    """
    from loopeng.runner import execute_run  # brings langgraph, which looking at the queue does not need

    if run.status == "finished":
        return run
    left = spending.left_for(run)  # before the run is opened again
    run = execute_run(
        replace(harness, on_event=_Progress(harness, run, told_as, len(samples))),
        harness.store.reopen_run(run.id),
        version,
        samples,
        max_attempts=1,
        repeats=1,
        limits=left,
        references=references,
    )
    if run.status == "budget":
        raise BudgetStop(f"improve.{run.stop_reason}")
    return run


def candidate_version(base: PromptVersion, rules: tuple[Rule, ...]) -> PromptVersion:
    """What a candidate runs under. It is no version yet: it keeps the id of its base."""
    changes = {"rules": rules, "text_hash": text_hash(base.template, rules), "source": "proposal"}
    return base.model_copy(update=changes)


def replay_seed(task: Task, *about: object) -> int:
    """The seed of the runs for one purpose, and never that of the suite."""
    seed = int(hashlib.sha256(":".join(map(str, about)).encode()).hexdigest()[:8], 16)
    return seed if seed != task.run.seed else seed + 1


def first_attempts(store: LoopStore, run: Run, sample_ids: Collection[str] | None = None) -> dict[str, Attempt]:
    """By sample id, of all samples or of some."""
    return {each.sample_id: each for each in store.attempts(run.id, sample_ids) if each.attempt_index == 0}


def why_not_replayable(harness: Harness, proposal: Proposal) -> str | None:
    """What keeps the task's attempts from being run again, or None.

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
    run, agent = run_behind(harness.store, proposal), getattr(harness.agent, "reference", None)
    behind = run.engine if run is not None else {}
    if behind.get("reference", "") is None:
        return _LIVE_ENGINE
    if agent is None or behind.get("agent", agent) is None:
        return "the agent is a live object that no other process can make"
    if behind.get("agent", agent) != agent:
        return f"the agent at hand is {agent!r}, the failures were made by {behind['agent']!r}"
    live = [each.id for each in harness.evaluators if getattr(each, "reference", None) is None]
    return f"no other process can make the evaluators {', '.join(live)}" if live else None


def run_behind(store: LoopStore, proposal: Proposal) -> Run | None:
    """The latest suite run of the proposal's very task; else that of its namesake.

    Of traffic, which several engines and agents may answer side by side, the run with most of the failures; else the
    latest.
    """
    source = source_of(proposal.task_name)
    if source == "live":
        failures = store.failures_under(proposal.base_version_id, source)
        shown = [each for each in failures if each.pattern_id in proposal.pattern_ids]
        num_shown = Counter(each.run_id for each in shown[::-1] if each.at <= proposal.created_at)
        if num_shown:
            return store.run(num_shown.most_common(1)[0][0])
    runs = store.runs(task_name=proposal.task_name, kind=source)
    own = [run for run in runs if run.task_hash == proposal.task_hash]
    return next(iter((*own, *runs)), None)


def is_deterministic(harness: Harness) -> bool:
    """Whether the same seed gives the same verdict again.

    The engine says so, and so do the judges that have one of their own; the agent is the built-in one.
    """
    if getattr(harness.agent, "reference", None) != "llm" or not harness.engine.describe().deterministic:
        return False
    return all(each.is_deterministic for _, each in walk_parts(harness.evaluators) if isinstance(each, ModelJudge))


class _Progress:
    def __init__(self, harness: Harness, run: Run, told_as: str, num_samples: int) -> None:
        self._harness, self._run, self._told_as = harness, run, told_as
        self._num_samples, self._num_finished = num_samples, 0

    def __call__(self, event: ProgressEvent) -> None:
        if isinstance(event, RunStarted):
            self._num_finished = event.num_finished
        elif isinstance(event, SampleFinished):
            self._num_finished += 1
            self._harness.on_event(
                GateProgress(
                    self._run.proposal_id or "", self._run.kind, self._told_as, self._num_finished, self._num_samples
                )
            )
        elif isinstance(event, EngineRetried):
            self._harness.on_event(event)

"""Before a change is thought of: failing samples are run again with a new seed, to see that it was not chance.

Re-running before fixing is the idea of RHO (arXiv 2606.05922). What came of it is read from the rows of the run, so a
reproduction that was cut off goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar

from loopeng.attempt.harness import Harness
from loopeng.improve.choosing import order_key
from loopeng.improve.replaying import replay, replay_seed, run_behind, why_not_replayable
from loopeng.improve.spending import Spending
from loopeng.patterns.fingerprint import is_current
from loopeng.patterns.miner import faults_of
from loopeng.patterns.standing import rate_at_least
from loopeng.schema import Attempt, FailurePattern, Proposal, Sample, Task
from loopeng.schema.live import source_of
from loopeng.schema.task import BudgetSpec
from loopeng.store import LoopStore

__all__ = [
    "MAX_REPRODUCED",
    "NOT_REPRODUCED",
    "PatternCheck",
    "Reproduction",
    "confirmed_patterns",
    "reproduce",
    "reproduction",
    "take_turns",
]

MAX_REPRODUCED = 8  # samples: two of eight are enough at the default improve.min_rate, one is not
NOT_REPRODUCED = "not reproduced"  # how the reason of a proposal begins that ended here

T = TypeVar("T")

_LLM_AGENT = "llm"
_SAME_AGAIN = "decoding is greedy and deterministic: the same outputs would come again"
_NO_SAMPLES = "none of the failing samples is a reflect sample of the task any more"


@dataclass(frozen=True)
class PatternCheck:
    """How often a pattern came back on those of the samples that had shown it; attempts in error are left out."""

    pattern_id: str
    num_shown: int
    num_run: int
    confirmed: bool

    @property
    def summary(self) -> str:
        """In a few words."""
        return f"{self.pattern_id} came back on {self.num_shown} of {self.num_run} samples"


@dataclass(frozen=True)
class Reproduction:
    """What became of it: ``skipped`` says why nothing was learned, else ``patterns`` has a count for each pattern."""

    skipped: str | None = None
    patterns: tuple[PatternCheck, ...] = ()
    num_errors: int = 0

    @property
    def refuted(self) -> bool:
        """Whether the failures were looked for and none of them was found again often enough."""
        return self.skipped is None and not any(check.confirmed for check in self.patterns)

    @property
    def summary(self) -> str:
        """One line."""
        return self.skipped or "; ".join(check.summary for check in self.patterns)


def reproduce(harness: Harness, proposal: Proposal, limits: BudgetSpec) -> Reproduction:
    """Run up to 8 failing reflect samples again, first attempts under the proposal's base, or what is left of them.

    Skipped where decoding is greedy, the engine deterministic and the agent the built-in one; where another process
    could not run the attempts again; and where there is no sample. Raises BudgetStop at one of ``limits``.
    """
    store, base = harness.store, harness.store.prompt_version(proposal.base_version_id)
    chosen = _chosen(store, harness.task, proposal)
    why = _why_pointless(store, harness.task, proposal, chosen) or why_not_replayable(harness, proposal)
    if why is not None:
        return Reproduction(skipped=why)
    run = store.create_run(
        kind="reproduce",
        task=harness.task,
        version=base,
        seed=replay_seed(harness.task, proposal.id, "reproduce"),
        proposal_id=proposal.id,
        engine=harness.description(),
    )
    replay(
        harness,
        run,
        base,
        [sample for sample in harness.task.samples if sample.id in chosen],
        Spending.of(store, proposal, limits),
        told_as="baseline",
        references={sample_id: _texts(store.attempts(run_id, sample_id)) for sample_id, run_id in chosen.items()},
    )
    return _counted(store, harness.task, proposal, run.id)


def reproduction(store: LoopStore, proposal: Proposal) -> Reproduction | None:
    """What the rows say of a proposal's reproduction; None where there was none, or it is not finished."""
    if proposal.kind != "change":
        return None
    task = store.task(proposal.task_hash)
    run = next(iter(store.runs(proposal_id=proposal.id, kind="reproduce")), None)
    if run is not None:
        return _counted(store, task, proposal, run.id) if run.status == "finished" else None
    why = _why_pointless(store, task, proposal, _chosen(store, task, proposal))
    gate = store.gate_report(proposal.id, proposal.revision)
    if why is None and gate is not None and gate.verdict == "not_replayable":
        why = gate.note.removeprefix("no evidence: ")
    return None if why is None else Reproduction(skipped=why)


def confirmed_patterns(store: LoopStore, proposal: Proposal) -> tuple[str, ...]:
    """The patterns of a proposal that a reflector gets: those that came back, or all where that was not looked at."""
    found = reproduction(store, proposal)
    if found is None or found.skipped is not None:
        return proposal.pattern_ids
    return tuple(check.pattern_id for check in found.patterns if check.confirmed)


def take_turns(queues: Iterable[Iterable[T]]) -> list[T]:
    """The first of each, then the second of each, and so on.

    >>> take_turns([[1, 2, 3], [], [4]])
    [1, 4, 2, 3]
    """
    return [each for turn in zip_longest(*queues) for each in turn if each is not None]


def _why_pointless(store: LoopStore, task: Task, proposal: Proposal, chosen: Mapping[str, str]) -> str | None:
    if not chosen:
        return _NO_SAMPLES
    engine = _engine_behind(store, task, proposal)
    same_again = engine.get("deterministic") and engine.get("agent") == _LLM_AGENT and task.temperature(0) == 0
    return _SAME_AGAIN if same_again else None


def _engine_behind(store: LoopStore, task: Task, proposal: Proposal) -> Mapping[str, Any]:
    """What the run behind the proposal says of engine and agent, where they are those of the task."""
    run = run_behind(store, proposal)
    if run is None:
        return {}
    made_by = store.task(run.task_hash)
    return run.engine if (made_by.engine, made_by.agent) == (task.engine, task.agent) else {}


def _chosen(store: LoopStore, task: Task, proposal: Proposal) -> dict[str, str]:
    """The samples to run again, each with a run that failed on it. Patterns take turns; every time the same samples."""
    chosen: dict[str, str] = {}
    failing = _failing(store, task, proposal)
    queues = [sorted(shown.items(), key=lambda item: order_key(item[0])) for shown in failing.values()]
    for sample_id, run_id in take_turns(queues):
        if len(chosen) < MAX_REPRODUCED:
            chosen.setdefault(sample_id, run_id)
    return chosen


def _failing(store: LoopStore, task: Task, proposal: Proposal) -> dict[str, dict[str, str]]:
    """By pattern the reflect samples that had shown it when the proposal was started, each with its latest run."""
    reflect = {sample.id for sample in task.samples if sample.split == "reflect"}
    failing: dict[str, dict[str, str]] = {pattern_id: {} for pattern_id in proposal.pattern_ids}
    for failure in store.failures_under(proposal.base_version_id, source_of(task.name)):
        if failure.pattern_id in failing and failure.sample_id in reflect and failure.at <= proposal.created_at:
            failing[failure.pattern_id][failure.sample_id] = failure.run_id
    return failing


def _counted(store: LoopStore, task: Task, proposal: Proposal, run_id: str) -> Reproduction:
    attempts = {attempt.sample_id: attempt for attempt in store.attempts(run_id)}
    judged = {sample_id: attempt for sample_id, attempt in attempts.items() if attempt.verdict != "error"}
    num_errors = len(attempts) - len(judged)
    if not judged:
        return Reproduction(f"nothing could be judged: all {num_errors} attempts were in error", num_errors=num_errors)
    samples = {sample.id: sample for sample in task.samples}
    failing = _failing(store, task, proposal)
    checks = []
    for pattern_id in proposal.pattern_ids:
        pattern, again = store.pattern(pattern_id), sorted(judged.keys() & failing[pattern_id].keys())
        num_shown = sum(_shows(store, judged[each], samples[each], pattern) for each in again)
        confirmed = num_shown > 0 and rate_at_least(num_shown, len(again)) >= task.improve.min_rate
        checks.append(PatternCheck(pattern_id, num_shown, len(again), confirmed))
    return Reproduction(patterns=tuple(checks), num_errors=num_errors)


def _shows(store: LoopStore, attempt: Attempt, sample: Sample, pattern: FailurePattern) -> bool:
    """The very mistake; a pattern whose fingerprint is of an earlier version is known by evaluator and category."""
    for fault in faults_of(attempt):
        if store.pattern_of_fingerprint(pattern.prompt_name, fault.fingerprint(sample)) == pattern.id:
            return True
        same = (fault.source, fault.category, fault.side) == (pattern.evaluator, pattern.category, pattern.fault_side)
        if same and not is_current(pattern.fingerprint):
            return True
    return False


def _texts(attempts: Iterable[Attempt]) -> list[str]:
    return [attempt.text for attempt in attempts if attempt.text]

"""After a run: note which mistakes its first attempts show, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from loopeng.attempt.generation import ERROR_SIDES
from loopeng.patterns.fingerprint import fingerprint, normalise
from loopeng.schema import Attempt, EvalResult, FaultSide, Run, Sample, Task
from loopeng.store import LoopStore, ShownFailure

__all__ = ["Fault", "faults_in", "faults_of", "mine", "shown_failures"]


@dataclass(frozen=True)
class Fault:
    """One thing that went wrong in an attempt. ``source`` is the evaluator; prompt, agent or engine where they broke.

    ``side`` is whose fault it is: only the model's own may lead to a rule.
    """

    source: str
    category: str
    reason: str
    side: FaultSide
    remedy: str | None = None

    def fingerprint(self, sample: Sample) -> str:
        """The key of the pattern it belongs to; what the reason quotes of the sample does not count."""
        category = self.category if self.side == "model" else f"{self.side}:{self.category}"
        return fingerprint(self.source, category, self.reason, _own_texts(sample))


def faults_of(attempt: Attempt) -> Iterator[Fault]:
    """What evaluators found, and what broke: the engine is the environment's fault, an evaluator says whose it is."""
    if attempt.error is not None:
        why = attempt.finish_reason if attempt.finish_reason in ERROR_SIDES else "engine_error"
        assert why is not None
        yield Fault(why.removesuffix("_error"), why.replace("_", "."), attempt.error, ERROR_SIDES[why])
    yield from faults_in(attempt.results)


def faults_in(results: Iterable[EvalResult]) -> Iterator[Fault]:
    """What evaluators found, and those of them that broke."""
    for result in results:
        if result.error is not None:
            side = result.side_of_error
            yield Fault(result.evaluator, f"{side}.error", result.error, side)
        elif result.passed is False:
            yield Fault(result.evaluator, result.category or "", result.reason, result.fault_side, result.remedy)


def _own_texts(sample: Sample) -> dict[str, object]:
    """The sample's texts: what a reason quotes of them is no part of the mistake."""
    return {"inputs": sample.inputs, "target": sample.target}


def mine(store: LoopStore, run_id: str, task: Task) -> list[str]:
    """Record an occurrence per (pattern, run, sample); the ids of the patterns seen, most samples first.

    Only first attempts of the reflect split: the gate and hold-out samples must not shape a proposal, and retries of
    one sample are no further failures. What is not the model's fault is recorded as such. What evaluators see that
    only watch is no mistake. Idempotent.
    """
    run = store.run(run_id)
    seen: dict[str, int] = {}
    for sample in task.samples:
        if sample.split == "reflect":
            made = store.attempts(run.id, sample.id)
            firsts = [attempt for attempt in made if attempt.attempt_index == 0]
            for pattern_id in set().union(*(_record(store, run, sample, each, task.watching) for each in firsts)):
                seen[pattern_id] = seen.get(pattern_id, 0) + 1
    return sorted(seen, key=lambda pattern_id: (-seen[pattern_id], pattern_id))


def _without(attempt: Attempt, evaluators: frozenset[str]) -> Attempt:
    results = tuple(result for result in attempt.results if result.evaluator not in evaluators)
    return attempt.model_copy(update={"results": results})


def shown_failures(sample: Sample, attempt: Attempt, watching: frozenset[str]) -> list[ShownFailure]:
    """What a first attempt shows of mistakes, as the store keeps them; evaluators that only ``watching`` see none."""
    return [
        ShownFailure(
            fingerprint=fault.fingerprint(sample),
            evaluator=fault.source,
            category=fault.category,
            reason=normalise(fault.reason, _own_texts(sample)),
            remedy=fault.remedy,
            fault_side=fault.side,
        )
        for fault in faults_of(_without(attempt, watching))
    ]


def _record(store: LoopStore, run: Run, sample: Sample, attempt: Attempt, watching: frozenset[str]) -> set[str]:
    return {
        store.record_occurrence(
            prompt_name=run.prompt_name,
            prompt_version_id=run.prompt_version_id,
            run_id=run.id,
            sample_id=sample.id,
            **vars(shown),
        )
        for shown in shown_failures(sample, attempt, watching)
    }

"""After a run: note which mistakes its first attempts show."""

from __future__ import annotations

from loopeng.patterns.fingerprint import fingerprint, normalise
from loopeng.schema import Attempt, EvalResult, Run, Sample, Task
from loopeng.store import LoopStore

__all__ = ["mine"]


def mine(store: LoopStore, run_id: str, task: Task) -> list[str]:
    """Record an occurrence per (pattern, run, sample); the ids of the patterns seen, most samples first.

    Only first attempts of the reflect split, and only what is the model's own fault: the gate and hold-out samples must
    not shape a proposal, retries of one sample are no further failures, and errors are nobody's mistake. Idempotent.
    """
    run = store.run(run_id)
    seen: dict[str, int] = {}
    for sample in task.samples:
        if sample.split == "reflect":
            firsts = [attempt for attempt in store.attempts(run.id, sample.id) if attempt.attempt_index == 0]
            for pattern_id in set().union(*(_record(store, run, sample, attempt) for attempt in firsts)):
                seen[pattern_id] = seen.get(pattern_id, 0) + 1
    return sorted(seen, key=lambda pattern_id: (-seen[pattern_id], pattern_id))


def _record(store: LoopStore, run: Run, sample: Sample, attempt: Attempt) -> set[str]:
    own = {**sample.inputs, "target": sample.target}  # what a reason quotes of them is no part of the mistake
    return {
        store.record_occurrence(
            prompt_name=run.prompt_name,
            prompt_version_id=run.prompt_version_id,
            run_id=run.id,
            sample_id=sample.id,
            fingerprint=fingerprint(result.evaluator, result.category or "", result.reason, own),
            evaluator=result.evaluator,
            category=result.category or "",
            reason=normalise(result.reason, own),
            remedy=result.remedy,
            fault_side=result.fault_side,
        )
        for result in attempt.failed_results
        if _is_models_fault(result)
    }


def _is_models_fault(result: EvalResult) -> bool:
    return result.fault_side == "model"

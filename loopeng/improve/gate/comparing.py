"""The gate: a planned, paired, exact test of one revision on samples that nothing was chosen by.

``compare`` plans the test, makes the runs and returns the report. A comparison that was cut off goes on where it
stopped: its look and its runs are rows under natural keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopeng.attempt.events import GatePlanned
from loopeng.attempt.harness import Harness
from loopeng.errors import UsageError
from loopeng.improve.choosing import choose_samples
from loopeng.improve.gate.pairing import Comparison, compare_attempts, count_pairs
from loopeng.improve.gate.planning import no_samples, plan_gate
from loopeng.improve.gate.trials import Trial, TrialSplit, arm_count, run_arm
from loopeng.improve.gate.verdicts import NO_EVIDENCE, judge, judge_holdout, weigh
from loopeng.improve.replaying import first_attempts, is_deterministic, why_not_replayable
from loopeng.improve.spending import Spending
from loopeng.schema import GateReport, Run, Sample
from loopeng.schema.attempts import Arm
from loopeng.schema.task import BudgetSpec

__all__ = ["NO_EVIDENCE", "Trial", "TrialSplit", "check_noise", "compare"]


def compare(harness: Harness, trial: Trial, limits: BudgetSpec) -> GateReport:
    """Run both arms, or what is left of them, and report. Raises BudgetStop at one of ``limits``.

    A gate runs the baseline once more where decoding is not deterministic, or where somebody asked for that check.
    """
    if reason := why_not_replayable(harness, trial.proposal):
        return trial.report("not_replayable", f"no evidence: {reason}", _NOTHING, deterministic=False)
    if trial.split == "holdout":
        return _show_holdout(harness, trial, limits)
    plan = plan_gate(harness.store, harness.task, trial)
    if isinstance(plan, str):
        return trial.report("untested", plan, _NOTHING)
    planned = plan.test
    harness.on_event(
        GatePlanned(trial.proposal.id, len(plan.samples), planned.look, planned.alpha, planned.base_rate, planned.power)
    )
    deterministic = is_deterministic(harness)
    arms: list[Arm] = ["baseline", "candidate"]
    if not deterministic or _was_repeated(harness, trial):
        arms.append("repeat")
    runs = _run_arms(harness, trial, arms, plan.samples, limits)
    comparison = _compared(harness, runs, "candidate")
    repeat = _compared(harness, runs, "repeat") if "repeat" in runs else None
    about = {harness.store.pattern(pattern_id).evaluator for pattern_id in trial.proposal.pattern_ids}
    test = weigh(planned, comparison, about=about | harness.task.watching, repeat=repeat)
    verdict, note = judge(test, comparison, harness.task.gate, repeat)
    if verdict == "error":
        test, comparison = planned, _without_counts(comparison)  # nothing is revealed of a look that will be void
    counts = [arm_count(harness.store, arm, run) for arm, run in runs.items()]
    return trial.report(verdict, note, comparison, arms=counts, deterministic=deterministic, test=test)


def check_noise(harness: Harness, trial: Trial, limits: BudgetSpec) -> Comparison:
    """The A/A check: the baseline against itself on the gate samples; its fixed and broken pairs are flips.

    Changes no verdict. Raises UsageError where nothing can be run again, BudgetStop at one of ``limits``.
    """
    if reason := why_not_replayable(harness, trial.proposal):
        raise UsageError(f"no A/A check of {trial.proposal.id}: {reason}")
    samples = choose_samples(harness.task, "gate")
    if not samples:
        raise UsageError(
            f"no A/A check of {trial.proposal.id}: {no_samples(harness.task).removeprefix('not tested: ')}"
        )
    return _compared(harness, _run_arms(harness, trial, ["baseline", "repeat"], samples, limits), "repeat")


def _show_holdout(harness: Harness, trial: Trial, limits: BudgetSpec) -> GateReport:
    runs = _run_arms(harness, trial, ["baseline", "candidate"], choose_samples(harness.task, "holdout"), limits)
    comparison = _compared(harness, runs, "candidate")
    verdict, note = judge_holdout(comparison)
    counts = [arm_count(harness.store, arm, run) for arm, run in runs.items()]
    return trial.report(verdict, note, comparison, arms=counts, deterministic=is_deterministic(harness))


def _run_arms(
    harness: Harness, trial: Trial, arms: Sequence[Arm], samples: Sequence[Sample], limits: BudgetSpec
) -> dict[Arm, Run]:
    spending = Spending.of(harness.store, trial.proposal, limits)
    return {arm: run_arm(harness, trial, arm, samples, spending) for arm in arms}


def _compared(harness: Harness, runs: dict[Arm, Run], other: Arm) -> Comparison:
    store = harness.store
    return compare_attempts(first_attempts(store, runs["baseline"]), first_attempts(store, runs[other]))


def _without_counts(comparison: Comparison) -> Comparison:
    return replace(_NOTHING, num_errors=comparison.num_errors, fingerprints=comparison.fingerprints)


def _was_repeated(harness: Harness, trial: Trial) -> bool:
    runs = harness.store.runs(proposal_id=trial.proposal.id, kind="gate", limit=None)
    return any((run.arm, run.revision) == ("repeat", trial.revision.revision) for run in runs)


_NOTHING = Comparison(count_pairs(()), {}, (), (), 0, frozenset())

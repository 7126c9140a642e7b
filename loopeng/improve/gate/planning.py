"""What a gate is going to do, said before it does it: samples, look, alpha, and the power to be expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from loopeng.improve.choosing import choose_samples, sample_keys
from loopeng.improve.gate.statistics import expected_power
from loopeng.improve.gate.trials import Trial
from loopeng.improve.replaying import first_attempts
from loopeng.schema import GateReport, GateTest, Look, PromptVersion, Run, Sample, Task
from loopeng.schema.live import source_of
from loopeng.store import LoopStore
from loopeng.store.looks import connected_looks, next_look_number

__all__ = [
    "GatePlan",
    "LedgerEntry",
    "base_rate",
    "foresee_gate",
    "ledger",
    "no_alpha_left",
    "no_samples",
    "plan_gate",
    "rate_under",
]


@dataclass(frozen=True)
class GatePlan:
    """The samples of both arms, and the test that will be made of their counts."""

    samples: tuple[Sample, ...]
    test: GateTest


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the alpha ledger, with what the look found."""

    look: Look
    report: GateReport | None  # None while the test is under way


def plan_gate(store: LoopStore, task: Task, trial: Trial) -> GatePlan | str:
    """Reserve the look of this revision and plan its test; or say why there can be none. Said twice, the same."""
    samples = choose_samples(task, "gate")
    if not samples:
        return no_samples(task)
    keys = sample_keys(task, samples)
    look = store.reserve_look(
        prompt_name=trial.proposal.prompt_name,
        dataset=task.dataset.path or task.name,
        proposal_id=trial.proposal.id,
        revision=trial.revision.revision,
        alpha_total=task.gate.alpha,
        sample_keys=keys,
    )
    if look is None:
        return no_alpha_left(connected_looks(store.looks(trial.proposal.prompt_name), keys))
    return _plan(store, trial, samples, look, until=look.created_at)


def foresee_gate(store: LoopStore, task: Task, trial: Trial, now: datetime) -> GatePlan | str:
    """The plan as it would be made now; nothing is reserved."""
    samples, prompt_name = choose_samples(task, "gate"), trial.proposal.prompt_name
    if not samples:
        return no_samples(task)
    look = store.look(trial.proposal.id, trial.revision.revision)
    if look is None or look.void:
        keys, looks = sample_keys(task, samples), store.looks(prompt_name)
        number = next_look_number(looks, keys)
        if number is None:
            return no_alpha_left(connected_looks(looks, keys))
        look = Look(
            prompt_name=prompt_name,
            dataset=task.dataset.path or task.name,
            proposal_id=trial.proposal.id,
            revision=trial.revision.revision,
            number=number,
            alpha_total=task.gate.alpha,
            sample_keys=tuple(keys),
            created_at=now,
        )
    return _plan(store, trial, samples, look, until=look.created_at)


def _plan(store: LoopStore, trial: Trial, samples: Sequence[Sample], look: Look, *, until: datetime) -> GatePlan:
    rate = base_rate(store, trial, samples, until=until)
    power = None if rate is None else expected_power(len(samples), rate, look.alpha)
    test = GateTest(look=look.number, alpha=look.alpha, alpha_total=look.alpha_total, base_rate=rate, power=power)
    return GatePlan(tuple(samples), test)


def base_rate(store: LoopStore, trial: Trial, samples: Sequence[Sample], *, until: datetime) -> float | None:
    """The share of these samples that pass at the first attempt under the trial's base; None where nothing is known."""
    proposal = trial.proposal
    known = rate_under(store, trial.base, (proposal.task_name, proposal.task_hash), samples, until=until)
    return None if known is None else known[0]


def rate_under(
    store: LoopStore, version: PromptVersion, task: tuple[str, str], samples: Sequence[Sample], *, until: datetime
) -> tuple[float, Run] | None:
    """The share of these samples that pass at the first attempt under a version, as runs until then found it, and the
    best of those runs; None where nothing is known.

    Of each sample the latest suite run that judged it, of this very task (name and hash) or else of its namesake; else
    the gate that the version came through as a candidate. A run that was stopped early speaks of few samples, not of
    all.
    """
    ids, passed = {sample.id for sample in samples}, dict[str, bool]()
    best: Run | None = None
    for run in _runs_under(store, version, *task):
        if run.created_at <= until and len(passed) < len(ids):
            for name, each in first_attempts(store, run, ids).items():
                if each.verdict != "error":
                    passed.setdefault(name, each.verdict == "pass")
                    best = best or run
    return None if best is None else (sum(passed.values()) / len(passed), best)


def _runs_under(store: LoopStore, base: PromptVersion, task_name: str, task_hash: str) -> list[Run]:
    """The best source first, and of each the newest."""
    suites = store.runs(task_name=task_name, kind=source_of(task_name), limit=None)
    suites = [run for run in suites if run.prompt_version_id == base.id]
    suites.sort(key=lambda run: run.task_hash != task_hash)  # what passes is the evaluators' word
    if base.proposal_id is None:
        return suites
    gates = store.runs(proposal_id=base.proposal_id, kind="gate", limit=None)
    return suites + [run for run in gates if (run.arm, run.revision) == ("candidate", base.revision)]


def ledger(store: LoopStore, prompt_name: str) -> tuple[LedgerEntry, ...]:
    """Every look of a prompt, the oldest first."""
    return tuple(
        LedgerEntry(look, store.gate_report(look.proposal_id, look.revision, "gate"))
        for look in store.looks(prompt_name)
    )


def no_samples(task: Task) -> str:
    """Why nothing can be tested where no sample can be chosen."""
    if any(sample.split == "gate" for sample in task.samples):
        return "not tested: every sample in the gate split stands in the reflect split too, which changes are made from"
    return "not tested: the task has no samples in the gate split"


def no_alpha_left(connected: Sequence[Look]) -> str:
    """Why nothing can be tested where the looks before have spent everything."""
    return (
        f"not tested: these samples join {len(connected)} looks that were taken apart, which together have spent "
        "all of gate.alpha; keep to the samples of one of them, or bring new ones"
    )

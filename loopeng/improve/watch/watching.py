"""Whether a committed change keeps its failures away: what is written down at the commit, and what later runs say.

After every finished suite run the samples it brings are counted, each sample once, and two claims are tested at 5 %
however often one looks (``e_process``): "the failure rate is no higher than the gate allows" and "it is no lower than
it was before". Giving up the first reopens the pattern, giving up the second calls it fixed. Everything is computed
from rows, so it may be done again at any time.

The 5 % are those of looking again and again, with the rate it is held against taken as known. The first rate is a 95 %
bound, so both chances add up; the second is what the gate counted, which from few samples may be too high by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from loopeng.attempt.events import ProgressEvent, WatchMoved
from loopeng.attempt.harness import ignore_event
from loopeng.improve.watch.e_process import e_value_above, e_value_below, rejects
from loopeng.patterns.showing import fingerprints_of_pattern, shown_fingerprints
from loopeng.schema import (
    FailurePattern,
    GateReport,
    PromptVersion,
    Proposal,
    Run,
    Sample,
    Task,
    Watch,
    WatchCheck,
    content_hash,
    utc_now,
)
from loopeng.schema.improvement import WatchOutcome
from loopeng.store import LoopStore

__all__ = ["check_watches", "lower_bound", "upper_bound", "versions_under", "watch_rows"]

_CONFIDENCE = 0.95


def watch_rows(store: LoopStore, proposal: Proposal) -> list[Watch]:
    """One row per pattern of a committed change, with the failure rates to hold later runs against.

    The rates are the pattern's own: the share of the gate's pairs whose first attempt shows it, before and after;
    ``lower_bound`` and ``upper_bound`` are the one-sided 95 % Clopper-Pearson bounds of the rates before and after.

    A commit without counts promised nothing, so it is held to the least that makes a change worth its place, what the
    gate's power is planned for: that it halves the rate. Both rates are then that of the reflect split under the base
    version, and the upper bound is half of it, or that of no failure on so many samples where that is higher.

    Taking a change back is not watched.
    """
    version = store.commit_proposal(proposal.id)  # committed already: this only reads it
    if version is None or proposal.kind == "rollback":
        return []
    report = store.gate_report(proposal.id, store.revision(proposal.id).revision, "gate")
    looking, rows = _Looking(store, proposal.prompt_name), []
    for pattern_id in proposal.pattern_ids:
        rates = _rates(looking, proposal, store.pattern(pattern_id), report)
        rows.append(
            Watch(
                prompt_version_id=version.id,
                pattern_id=pattern_id,
                proposal_id=proposal.id,
                created_at=utc_now(),
                **rates,
            )
        )
    return rows


def upper_bound(num_failures: int, num_samples: int) -> float:
    """One-sided 95 % upper bound of a rate (Clopper and Pearson 1934, Biometrika 26).

    >>> round(upper_bound(0, 16), 3), upper_bound(5, 5), upper_bound(0, 0)
    (0.171, 1.0, 1.0)
    """
    from scipy.stats import beta

    if num_failures == num_samples:
        return 1.0
    return float(beta.ppf(_CONFIDENCE, num_failures + 1, num_samples - num_failures))


def lower_bound(num_failures: int, num_samples: int) -> float:
    """The other side of it: a rate counted on few samples may well have been lower.

    >>> round(lower_bound(16, 16), 3), lower_bound(0, 5), lower_bound(0, 0)
    (0.829, 0.0, 0.0)
    """
    return 1 - upper_bound(num_samples - num_failures, num_samples) if num_failures else 0.0


def check_watches(
    store: LoopStore, prompt_name: str, on_event: Callable[[ProgressEvent], None] = ignore_event
) -> list[Watch]:
    """Look at every watch of a prompt that a finished suite run says something new about; those come back, checked.

    Counted are the samples of suite runs under the watched version or one that descends from it, as long as nothing
    newer for the same pattern was committed and the change was not taken back: each sample's first attempt in the first
    such run where it is not in error, and never one of the gate's samples, which the change was chosen by. Where
    another model or agent answers the counting starts again. A run of a
    task without the pattern's evaluator says nothing, nor does any where the pattern's fingerprints are of an earlier
    version, nor where the head has moved away from the change. A pattern that was reopened stays so for this watch;
    one that others were merged into is held to the rates of them together.
    """
    watches = store.watches(prompt_name)
    if not watches:
        return []
    versions, looking, checked = store.prompt_versions(prompt_name), _Looking(store, prompt_name), []
    head = store.head(prompt_name)
    for kept in watches:
        ids = versions_under(store, kept, watches, versions)
        if head.id not in ids:
            continue  # a run that was under way when the head moved says nothing of what is in force
        pattern = store.pattern(kept.pattern_id)
        runs = [run for run in looking.runs(ids) if pattern.evaluator in looking.evaluators(run)]
        if runs and looking.fingerprints(pattern) and (kept.check is None or kept.check.run_id != runs[-1].id):
            runs = [run for run in runs if _who_answers(run) == _who_answers(runs[-1])]
            watch = looking.promised(kept, pattern)
            check = _judge(watch, looking.counts(runs, pattern, looking.gate_samples(watch.proposal_id)), runs[-1])
            if store.save_watch_check(watch, check):
                checked.append(watch.model_copy(update={"check": check}))
                if check.outcome != (watch.check.outcome if watch.check else "watching"):
                    on_event(WatchMoved(checked[-1]))
    return checked


def versions_under(
    store: LoopStore, watch: Watch, watches: Iterable[Watch], versions: Sequence[PromptVersion]
) -> frozenset[str]:
    """The ids of the versions in which the watched change is the newest for its pattern and was not taken back."""
    taken_back = {proposal.id for proposal in store.rollbacks_asked_for(watch)}
    newer = {other.prompt_version_id for other in watches if other.pattern_id == watch.pattern_id}
    inside = {watch.prompt_version_id}
    for version in versions:  # by number: a parent comes before its children
        ends = version.id in newer or version.proposal_id in taken_back
        if version.parent_id in inside and not ends:
            inside.add(version.id)
    return frozenset(inside)


def _judge(watch: Watch, counts: Sequence[tuple[int, int]], run: Run) -> WatchCheck:
    """``counts`` are (failures, samples) after each run, the newest last."""
    reopened = any(rejects(e_value_above(failures, samples, watch.upper_bound)) for failures, samples in counts)
    fixed = any(rejects(e_value_below(failures, samples, watch.lower_bound)) for failures, samples in counts)
    num_failures, num_samples = counts[-1]
    outcome: WatchOutcome = "fixed" if fixed else "watching"
    if reopened:
        outcome = "no_better" if num_failures >= watch.rate_before * num_samples else "reopened"
    return WatchCheck(
        outcome=outcome,
        num_samples=num_samples,
        num_failures=num_failures,
        e_value=e_value_above(num_failures, num_samples, watch.upper_bound),
        e_value_fixed=e_value_below(num_failures, num_samples, watch.lower_bound),
        run_id=run.id,
        checked_at=utc_now(),
    )


def _rates(
    looking: _Looking, proposal: Proposal, pattern: FailurePattern, report: GateReport | None
) -> dict[str, float]:
    """Before and after with their bounds, by the names they have in a Watch."""
    arms = {arm.arm: looking.shown(looking.store.run(arm.run_id)) for arm in report.arms} if report else {}
    both = arms["baseline"].keys() & arms["candidate"].keys() if arms.keys() >= {"baseline", "candidate"} else set()
    fingerprints = looking.fingerprints(pattern)
    if both:
        before, after = (
            sum(bool(fingerprints & arms[arm][sample_id]) for sample_id in both) for arm in ("baseline", "candidate")
        )
        return {
            "rate_before": before / len(both),
            "rate_after": after / len(both),
            "lower_bound": lower_bound(before, len(both)),
            "upper_bound": upper_bound(after, len(both)),
        }
    failures, samples = looking.on_reflect(proposal, fingerprints)
    rate = failures / samples if samples else 0.0
    lower, upper = lower_bound(failures, samples), max(rate / 2, upper_bound(0, samples))
    return {"rate_before": rate, "rate_after": rate, "lower_bound": lower, "upper_bound": upper}


def _who_answers(run: Run) -> str:
    """What is the same from run to run, however fast and on whatever machine: the model's weights, or its script."""
    engine, numerics = run.engine, run.engine.get("details", {}).get("fingerprint")
    weights = numerics.get("weights_hash") if isinstance(numerics, dict) else None
    return content_hash(
        [engine.get("kind"), engine.get("model"), weights or engine.get("fingerprint"), engine.get("agent")]
    )


@dataclass
class _Looking:
    """What first attempts show, read once per run and task."""

    store: LoopStore
    prompt_name: str
    _tasks: dict[str, Task] = field(default_factory=dict)
    _evaluators: dict[str, frozenset[str]] = field(default_factory=dict)
    _shown: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    def runs(self, version_ids: Collection[str]) -> list[Run]:
        return self.store.finished_suite_runs(version_ids)

    def evaluators(self, run: Run) -> frozenset[str]:
        if run.task_hash not in self._evaluators:
            self._evaluators[run.task_hash] = self.store.evaluator_ids(run.task_hash)
        return self._evaluators[run.task_hash]

    def fingerprints(self, pattern: FailurePattern) -> frozenset[str]:
        return fingerprints_of_pattern(pattern, self.store.patterns(self.prompt_name))

    def shown(self, run: Run) -> Mapping[str, frozenset[str]]:
        """By sample, the fingerprints that its first attempt shows; of repeats, the first that is not in error."""
        if run.id not in self._shown:
            samples: dict[str, Sample] = {sample.id: sample for sample in self._task(run.task_hash).samples}
            failures, found = self.store.first_failures(run.id), {}
            for sample_id, repeat, _ in self.store.first_judged(run.id):
                if sample_id in samples and sample_id not in found:
                    found[sample_id] = shown_fingerprints(samples[sample_id], failures.get((sample_id, repeat), ()))
            self._shown[run.id] = found
        return self._shown[run.id]

    def promised(self, watch: Watch, pattern: FailurePattern) -> Watch:
        """The watch with the rates of all that counts for its pattern by now."""
        if len(self.fingerprints(pattern)) == 1:
            return watch
        proposal = self.store.proposal(watch.proposal_id)
        report = self.store.gate_report(proposal.id, proposal.revision, "gate")
        return watch.model_copy(update=_rates(self, proposal, pattern, report))

    def counts(self, runs: Sequence[Run], pattern: FailurePattern, gate: Collection[str]) -> list[tuple[int, int]]:
        """(failures, samples) after each run, every sample once."""
        fingerprints, seen, failures, counts = self.fingerprints(pattern), set(gate), 0, []
        for run in runs:
            judged = self.store.first_judged(run.id)
            fresh = {sample_id for sample_id, _, split in judged if split != "gate"} - seen
            shown = self.shown(run) if fresh else {}
            failures += sum(bool(fingerprints & shown[sample_id]) for sample_id in fresh & shown.keys())
            seen |= fresh & shown.keys()
            counts.append((failures, len(seen) - len(gate)))
        return counts

    def gate_samples(self, proposal_id: str) -> set[str]:
        """The samples that the gate of a proposal has run."""
        runs = self.store.runs(kind="gate", proposal_id=proposal_id, limit=None)
        return {sample_id for run in runs for sample_id, _, _ in self.store.first_judged(run.id)}

    def on_reflect(self, proposal: Proposal, fingerprints: frozenset[str]) -> tuple[int, int]:
        """(failures, samples) of the reflect split under the base version, each sample counted once as it is later.

        A sample that is run often fails some time; one that is counted once later must not look better for that.
        """
        reflect = {sample.id for sample in self._task(proposal.task_hash).samples if sample.split == "reflect"}
        judged: dict[str, bool] = {}
        for run in self.runs([proposal.base_version_id]):
            for sample_id, shown in self.shown(run).items():
                if sample_id in reflect:
                    judged.setdefault(sample_id, bool(fingerprints & shown))
        return sum(judged.values()), len(judged)

    def _task(self, task_hash: str) -> Task:
        if task_hash not in self._tasks:
            self._tasks[task_hash] = self.store.task(task_hash)
        return self._tasks[task_hash]

"""Two runs side by side, paired by (sample, repeat): what the second one fixed and broke, and what that is worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from loopeng.improve.gate.pairing import count_pairs
from loopeng.run_records import Record, RunRecords
from loopeng.run_statistics import PairedCluster, paired_interval, two_sided_p
from loopeng.schema import PairedCount, Run, Task, content_hash
from loopeng.store import LoopStore

__all__ = ["Key", "PairedRate", "RunDiff", "Side", "diff_runs"]

_SIDES: tuple[Literal["first", "final"], ...] = ("first", "final")


class Key(NamedTuple):
    """A sample in one of its repeats."""

    sample_id: str
    repeat: int


@dataclass(frozen=True)
class PairedRate:
    """Pairs that were judged in both runs; what was in error in one of them is dropped and counted."""

    fixed: tuple[Key, ...]
    broken: tuple[Key, ...]
    pairs: PairedCount
    errors: int
    clusters: tuple[PairedCluster, ...]

    @property
    def difference(self) -> float | None:
        """Of the pass rates, after - before; None without pairs."""
        pairs = self.pairs
        return (pairs.candidate_passed - pairs.baseline_passed) / pairs.num_pairs if pairs.num_pairs else None

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 % of the difference; (-1, 1) without pairs."""
        return paired_interval(self.clusters, self.pairs)

    @cached_property
    def p_value(self) -> float:
        """Exact, two-sided: the runs differ by chance alone."""
        return two_sided_p(self.clusters)


@dataclass(frozen=True)
class Side:
    """What is compared: first attempts, or the attempts kept in the end. ``evaluators`` has those of both runs."""

    total: PairedRate
    evaluators: dict[str, PairedRate]


@dataclass(frozen=True)
class RunDiff:
    """``differences`` says what besides chance may explain a change; the code of evaluators and agents is not compared.

    ``only_before``, ``only_after`` are in one run only; ``other_inputs`` have an id in common and nothing else.
    """

    before: Run
    after: Run
    differences: tuple[str, ...]
    first: Side
    final: Side
    only_before: tuple[Key, ...]
    only_after: tuple[Key, ...]
    other_inputs: tuple[Key, ...]
    num_pairs: int
    num_same_text: int  # pairs whose kept answers are the same


@dataclass(frozen=True)
class _Outcome:
    """What is kept in memory of a record."""

    cluster: str
    passed: dict[tuple[str, str | None], bool | None]  # by (first or final, evaluator; None for the whole)
    text_hash: str
    inputs_hash: str


@dataclass
class _Pairing:
    outcomes: list[tuple[Key, str, bool, bool]] = field(default_factory=list)
    errors: int = 0

    def add(self, key: Key, cluster: str, before: bool | None, after: bool | None) -> None:
        if before is None or after is None:
            self.errors += 1
        else:
            self.outcomes.append((key, cluster, before, after))

    def done(self) -> PairedRate:
        clusters: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
        for _, cluster, before, after in self.outcomes:
            clusters[cluster].append((before, after))
        return PairedRate(
            fixed=tuple(key for key, _, before, after in self.outcomes if after and not before),
            broken=tuple(key for key, _, before, after in self.outcomes if before and not after),
            pairs=count_pairs((before, after) for _, _, before, after in self.outcomes),
            errors=self.errors,
            clusters=tuple(
                PairedCluster(sum(b for b, _ in each), sum(a for _, a in each), len(each)) for each in clusters.values()
            ),
        )


def diff_runs(store: LoopStore, before_id: str, after_id: str) -> RunDiff:
    """Compare two runs of one database. Raises NotFoundError."""
    before, after = store.run(before_id), store.run(after_id)
    tasks = store.task(before.task_hash), store.task(after.task_hash)
    first, second = (dict(_outcomes(store, run, task)) for run, task in zip((before, after), tasks, strict=True))
    common = [key for key in second if key in first]
    keys = [key for key in common if first[key].inputs_hash == second[key].inputs_hash]
    return RunDiff(
        before=before,
        after=after,
        differences=tuple(_differences(store, before, after, *tasks)),
        first=_side("first", keys, first, second),
        final=_side("final", keys, first, second),
        only_before=tuple(key for key in first if key not in second),
        only_after=tuple(key for key in second if key not in first),
        other_inputs=tuple(key for key in common if first[key].inputs_hash != second[key].inputs_hash),
        num_pairs=len(keys),
        num_same_text=sum(first[key].text_hash == second[key].text_hash for key in keys),
    )


def _outcomes(store: LoopStore, run: Run, task: Task) -> Iterator[tuple[Key, _Outcome]]:
    for record in RunRecords(store, run, task):
        passed: dict[tuple[str, str | None], bool | None] = {}
        for on in _SIDES:
            passed[on, None] = record.passed_on(on)
            for result in record.attempt_on(on).results:
                passed[on, result.evaluator] = None if result.error is not None else result.passed
        inputs_hash = content_hash(None if record.sample is None else record.sample.inputs)
        yield _key(record), _Outcome(record.cluster, passed, content_hash(record.best.text), inputs_hash)


def _key(record: Record) -> Key:
    return Key(record.result.sample_id, record.result.repeat)


def _side(on: str, keys: list[Key], first: dict[Key, _Outcome], second: dict[Key, _Outcome]) -> Side:
    pairings: dict[str | None, _Pairing] = {None: _Pairing()}
    for key in keys:
        before, after = first[key].passed, second[key].passed
        for name in (name for place, name in before if place == on and (on, name) in after):
            pairing = pairings.setdefault(name, _Pairing())
            pairing.add(key, second[key].cluster, before[on, name], after[on, name])
    total = pairings.pop(None).done()
    return Side(total, {name: pairing.done() for name, pairing in pairings.items() if name is not None})


def _differences(store: LoopStore, before: Run, after: Run, old: Task, new: Task) -> Iterator[str]:
    """What is not the same in both runs, besides the answers."""
    if after.rescore_of == before.id:
        yield f"{after.id} judges the outputs of {before.id} again: the answers are the same"
    if before.task_name != after.task_name:
        yield f"task: {before.task_name} -> {after.task_name}"
    changed = _changed_keys(old, new)
    if changed:
        yield f"task file: {', '.join(changed)}"
    if content_hash(_data(old)) != content_hash(_data(new)):
        yield f"dataset: {content_hash(_data(old))[:8]} -> {content_hash(_data(new))[:8]}"
    if before.prompt_version_id != after.prompt_version_id:
        names = (store.prompt_version(run.prompt_version_id) for run in (before, after))
        yield "prompt: " + " -> ".join(f"{each.prompt_name} version {each.number}" for each in names)
    for key in ("kind", "model", "fingerprint", "agent"):
        if before.engine.get(key) != after.engine.get(key):
            what = key if key == "agent" else f"engine {key}"
            yield f"{what}: {_shown(before.engine.get(key))} -> {_shown(after.engine.get(key))}"
    if before.seed != after.seed:
        yield f"seed: {before.seed} -> {after.seed}"
    for run in (before, after):
        if run.status != "finished":
            yield f"{run.id} is not complete ({run.status})"


def _changed_keys(old: Task, new: Task) -> list[str]:
    """The sections that differ and decide what a run does. The dataset is told by its samples, the prompt by itself."""
    free = {"path", "file_rules", "name", "prompt", "template", "dataset", "samples", "improve", "gate", "approval"}
    before, after = (task.model_dump(mode="json", by_alias=True, exclude=free) for task in (old, new))
    return [key for key in after if before.get(key) != after[key]]


def _data(task: Task) -> list[dict[str, Any]]:
    return [sample.model_dump(mode="json", exclude={"split"}) for sample in task.samples]


def _shown(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}…"

"""The finished samples of a run one by one, with all their attempts: a run may have more than memory should hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from loopeng.schema import Attempt, Run, Sample, SampleResult, Task, Usage
from loopeng.schema.attempts import Verdict
from loopeng.store import LoopStore

__all__ = ["Record", "RunRecords"]

_AT_A_TIME = 100


@dataclass(frozen=True)
class Record:
    """One (sample, repeat) of a run. ``sample`` is None where the task does not hold it, as for live inputs."""

    sample: Sample | None
    result: SampleResult
    attempts: tuple[Attempt, ...]  # by attempt index; never empty

    @property
    def first(self) -> Attempt:
        return self.attempts[0]

    @property
    def best(self) -> Attempt:
        """The attempt that was kept."""
        index = self.result.best_attempt_index
        return next((each for each in self.attempts if each.attempt_index == index), self.attempts[-1])

    @property
    def cluster(self) -> str:
        """What its outcome goes together with: its group, or the sample."""
        group = self.sample.group if self.sample is not None else None
        return f"sample {self.result.sample_id}" if group is None else f"group {group}"

    @property
    def usage(self) -> Usage:
        """Of all attempts together."""
        return sum((each.usage for each in self.attempts), Usage())

    @property
    def latency_s(self) -> float:
        """Generation, summed over the attempts."""
        return sum(each.latency_s for each in self.attempts)

    def attempt_on(self, on: Literal["final", "first"]) -> Attempt:
        """The attempt that a rate ``on`` first or final looks at."""
        return self.first if on == "first" else self.best

    def verdict_on(self, on: Literal["final", "first"]) -> Verdict:
        return self.result.first_verdict if on == "first" else self.result.verdict

    def passed_on(self, on: Literal["final", "first"]) -> bool | None:
        """None where it could not be judged."""
        verdict = self.verdict_on(on)
        return None if verdict == "error" else verdict == "pass"


class RunRecords:
    """Iterable again and again, by sample and repeat; each pass reads the database anew, a few samples at a time."""

    def __init__(self, store: LoopStore, run: Run, task: Task) -> None:
        self._store, self._run = store, run
        self._samples = {sample.id: sample for sample in task.samples}

    def __iter__(self) -> Iterator[Record]:
        results = self._store.sample_results(self._run.id)
        for start in range(0, len(results), _AT_A_TIME):
            yield from self._read(results[start : start + _AT_A_TIME])

    def _read(self, results: Sequence[SampleResult]) -> Iterator[Record]:
        attempts: dict[tuple[str, int], list[Attempt]] = defaultdict(list)
        for attempt in self._store.attempts(self._run.id, {result.sample_id for result in results}):
            attempts[attempt.sample_id, attempt.repeat].append(attempt)
        for result in results:
            made = attempts[result.sample_id, result.repeat]
            yield Record(self._samples.get(result.sample_id), result, tuple(made))

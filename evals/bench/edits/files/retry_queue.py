"""Jobs that are tried again later when they fail."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Work = Callable[[], None]


@dataclass(order=True)
class Job:
    """Work that is due at some time."""

    due: float
    number: int
    work: Work = field(compare=False)
    name: str = field(compare=False)
    attempts: int = field(default=0, compare=False)


class RetryQueue:
    """Runs jobs when they are due; a failed one waits twice as long each time."""

    def __init__(self, max_attempts: int = 5, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_attempts = max_attempts
        self.failed: list[str] = []
        self._clock = clock
        self._jobs: list[Job] = []
        self._numbers = itertools.count()

    def submit(self, name: str, work: Work) -> None:
        heapq.heappush(self._jobs, Job(self._clock(), next(self._numbers), work, name))

    def run_due(self) -> int:
        """Run everything that is due; how many jobs succeeded."""
        num_done = 0
        now = self._clock()
        while self._jobs and self._jobs[0].due <= now:
            job = heapq.heappop(self._jobs)
            if self._attempt(job):
                num_done += 1
        return num_done

    def _attempt(self, job: Job) -> bool:
        job.attempts += 1
        try:
            job.work()
        except OSError:
            self._again(job)
            return False
        return True

    def _again(self, job: Job) -> None:
        if job.attempts >= self.max_attempts:
            self.failed.append(job.name)
            return
        job.due = self._clock() + 2.0**job.attempts
        heapq.heappush(self._jobs, job)

    def __len__(self) -> int:
        return len(self._jobs)

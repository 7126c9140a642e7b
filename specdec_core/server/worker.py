"""One thread owns the engine. Requests wait in one line, first come first served, and get their chunks as they come.

The event loop and the worker meet in two places only: the line, under a lock, and a job's queue of chunks, which the
worker fills through ``call_soon_threadsafe``. The worker never waits for a client: no text is longer than the context,
so what a slow reader leaves unread is small.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field

from specdec_core.engine import Engine
from specdec_core.errors import RequestError
from specdec_core.server.access import Grant
from specdec_core.server.metrics import ServerMetrics
from specdec_core.server.refusals import Refusal, refusal_of
from specdec_core.types import GenerationChunk, GenerationOutput, GenerationRequest

__all__ = ["Job", "Worker"]

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Job:
    """A request in the line or at work, as its client sees it. Made and read in the event loop."""

    request: GenerationRequest
    grant: Grant | None = None
    cancelled: bool = False  # the client has left: nobody reads what comes
    submitted_at: float = field(default_factory=time.perf_counter)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop, repr=False)
    _arrived: asyncio.Queue[GenerationChunk | Exception] = field(default_factory=asyncio.Queue, repr=False)

    async def chunks(self) -> AsyncIterator[GenerationChunk]:
        """The chunks as they come, the last one with the output. Raises what ended the work early."""
        while True:
            arrived = await self._arrived.get()
            if isinstance(arrived, Exception):
                raise arrived
            yield arrived
            if arrived.output is not None:
                return

    async def output(self) -> GenerationOutput:
        """The whole text. Raises what ended the work early."""
        output = None
        async for chunk in self.chunks():
            output = chunk.output
        assert output is not None, "the last chunk carries the output"
        return output

    def deliver(self, arrived: GenerationChunk | Exception) -> None:
        """From any thread. Nothing happens where nobody reads, or the event loop is gone."""
        if not self.cancelled:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._arrived.put_nowait, arrived)


class Worker:
    """The line and the thread. At most ``max_waiting`` jobs wait; the next one is refused."""

    def __init__(self, engine: Engine, metrics: ServerMetrics, max_waiting: int) -> None:
        self._engine, self._metrics, self._max_waiting = engine, metrics, max_waiting
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._stop_at: float | None = None  # from then on nothing is worked at; None: not asked to stop
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="specdec-engine", daemon=True)
        metrics.watch(lambda: int(self._running is not None), lambda: len(self._waiting))

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, request: GenerationRequest, grant: Grant | None = None) -> Job:
        """Put a request at the end of the line. Raises Refusal (503) where the line is full or the server ends."""
        with self._changed:
            if self._stop_at is not None:
                raise _ending()
            if len(self._waiting) >= self._max_waiting:
                said = f"{self._max_waiting} requests are waiting already, the most that may: try again later"
                raise Refusal(503, said, code="overloaded", headers={"Retry-After": "1"})
            job = Job(request, grant)
            if grant is not None:
                grant.num_requests += 1
            self._waiting.append(job)
            self._changed.notify()
        return job

    def cancel(self, job: Job) -> None:
        """The client has left: the job leaves the line, or its text ends within a pass. Harmless after its end."""
        job.cancelled = True
        with self._changed, suppress(ValueError):
            self._waiting.remove(job)
            self._metrics.ended("abort")

    def end_grant(self, grant: Grant) -> None:
        """Refuse the jobs that wait under a grant that has ended; one that runs ends within a round."""
        self._refuse_waiting(lambda job: job.grant is grant, _no_longer_granted)

    def stop(self, grace_s: float) -> None:
        """Take no more, refuse all that wait, and end the running text after so many seconds."""
        with self._changed:
            self._stop_at = time.monotonic() + grace_s
            self._changed.notify()
        self._refuse_waiting(lambda _: True, _ending)

    def join(self) -> None:
        """Wait for the thread's end, after ``stop``."""
        self._thread.join()

    def _refuse_waiting(self, concerns: Callable[[Job], bool], refusal: Callable[[], Refusal]) -> None:
        with self._changed:
            refused = [job for job in self._waiting if concerns(job)]
            self._waiting = deque(job for job in self._waiting if not concerns(job))
        for job in refused:
            self._metrics.ended("abort")
            job.deliver(refusal())

    def _work(self) -> None:
        while self._work_at_next():
            pass

    def _work_at_next(self) -> bool:
        """The first of the line, from beginning to end; False when the worker is to stop."""
        with self._changed:
            while not self._waiting and self._stop_at is None:
                self._changed.wait()
            if self._stop_at is not None:
                return False
            job = self._running = self._waiting.popleft()
        try:
            self._generate(job)
        except Refusal as no_longer_wanted:
            self._metrics.ended("abort")
            job.deliver(no_longer_wanted)
        except BaseException as error:  # noqa: BLE001  this client hears of it, and the next one has its turn
            if not isinstance(error, RequestError):
                _log.exception("a request failed")
            self._metrics.ended("error")
            job.deliver(error if isinstance(error, RequestError) else refusal_of(error, {}))
        finally:
            self._running = None
        return True

    def _generate(self, job: Job) -> None:
        self._check_wanted(job)
        self._metrics.begun(job.submitted_at)
        stream = self._engine.stream(job.request, self._metrics.round_made, lambda: self._check_wanted(job))
        with closing(stream) as chunks:
            for num_before, chunk in enumerate(chunks):
                self._check_wanted(job)
                if num_before == 0:
                    self._metrics.first_token_made(job.submitted_at)
                self._metrics.tokens_made(len(chunk.token_ids))
                if chunk.output is not None:
                    self._account(job, chunk.output)
                job.deliver(chunk)

    def _account(self, job: Job, output: GenerationOutput) -> None:
        """Before the client hears of the end, so that who has the text finds its cost."""
        self._metrics.finished(output, job.submitted_at)
        if job.grant is not None:
            job.grant.stats.append(output.stats)

    def _check_wanted(self, job: Job) -> None:
        """Raises Refusal where the text is to end now."""
        if job.cancelled:
            raise Refusal(499, "the client has left")
        if job.grant is not None and job.grant.ended:
            raise _no_longer_granted()
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            raise _ending()


def _ending() -> Refusal:
    return Refusal(503, "the server is ending", code="server_ending", headers={"Retry-After": "5"})


def _no_longer_granted() -> Refusal:
    return Refusal(401, "the grant of this token has ended", code="grant_ended")

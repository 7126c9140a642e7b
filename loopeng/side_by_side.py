"""A run's samples side by side: threads make the attempts, the caller's thread hears of them.

The attempts of one sample stay in order, in one thread. Events come one at a time, in the order in which things
happened, in the thread that asked for the run: whoever listens need not know that there are threads.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from loopeng.attempt.events import ProgressEvent
from loopeng.attempt.graph import attempt_graph
from loopeng.attempt.state import AttemptContext
from loopeng.engines.interruption import Interruption
from loopeng.errors import BudgetStop

__all__ = ["make_attempts"]

_STEPS_PER_ATTEMPT = 4  # of the graph: generate, evaluate, decide, retry

_Pair = tuple[str, int]  # sample id and repeat


def make_attempts(context: AttemptContext, pairs: Sequence[_Pair], num_threads: int = 1) -> None:
    """All attempts of every (sample id, repeat): one pair after the other, or ``num_threads`` of them side by side.

    Raises BudgetStop at a limit: what was under way is finished and saved. Ctrl-C, and what a callback or the store
    raises, ends what waits for an engine's server too, and is raised once no thread is at work any more.
    """
    if num_threads == 1:
        for pair in pairs:
            _make(context, pair)
    else:
        _Crew(context, pairs).work(num_threads)


def _make(context: AttemptContext, pair: _Pair) -> None:
    sample_id, repeat = pair
    num_steps = 10 + _STEPS_PER_ATTEMPT * context.max_attempts
    attempt_graph().invoke({"sample_id": sample_id, "repeat": repeat}, {"recursion_limit": num_steps}, context=context)


@dataclass(frozen=True)
class _Left:
    """A thread has nothing left to do, or broke."""

    error: BaseException | None = None


class _Crew:
    """The threads of one call, and what is told between them and the caller's thread."""

    def __init__(self, context: AttemptContext, pairs: Sequence[_Pair]) -> None:
        self._told: SimpleQueue[ProgressEvent | _Left] = SimpleQueue()
        self._on_event = context.harness.on_event
        self._context = replace(context, harness=replace(context.harness, on_event=self._told.put))
        self._pairs = iter(pairs)
        self._handing_out = threading.Lock()
        self._interruption = Interruption()
        self._failure: BaseException | None = None  # no further pair is handed out

    def work(self, num_threads: int) -> None:
        """Start the threads, listen until the last one has left, and raise what went wrong."""
        attempt_graph()  # compiled once, before several threads need it
        threads = [
            threading.Thread(target=self._attempt, name=f"attempts-{number}", daemon=True)  # a second Ctrl-C leaves
            for number in range(num_threads)
        ]
        try:
            for thread in threads:
                thread.start()
            self._listen(num_threads)
        except BaseException as error:  # noqa: BLE001  Ctrl-C, or a callback that is broken: raised below
            self._stop(error)
        for thread in threads:
            if thread.ident is not None:  # it was started
                thread.join()
        if isinstance(self._failure, KeyboardInterrupt):
            self._hear_the_rest()  # what was saved meanwhile counts for whoever says how far the run came
        if self._failure is not None:
            raise self._failure

    def _attempt(self) -> None:
        """The life of a thread."""
        error: BaseException | None = None
        try:
            with self._interruption.covering():
                while (pair := self._next()) is not None:
                    _make(self._context, pair)
        except BaseException as caught:  # noqa: BLE001  the caller's thread raises it
            error = caught
        self._told.put(_Left(error))

    def _next(self) -> _Pair | None:
        with self._handing_out:
            return None if self._failure is not None else next(self._pairs, None)

    def _listen(self, num_threads: int) -> None:
        num_left = 0
        while num_left < num_threads:
            told = self._told.get()
            if not isinstance(told, _Left):
                self._on_event(told)
                continue
            num_left += 1
            if told.error is not None:
                self._stop(told.error)

    def _stop(self, error: BaseException) -> None:
        """Hand out no more. At a limit of the budget the others finish; anything else ends them where they wait."""
        if self._failure is None or (isinstance(self._failure, BudgetStop) and not isinstance(error, BudgetStop)):
            self._failure = error
        if not isinstance(error, BudgetStop):
            self._interruption.set()

    def _hear_the_rest(self) -> None:
        while True:
            try:
                told = self._told.get_nowait()
            except Empty:
                return
            if not isinstance(told, _Left):
                self._on_event(told)

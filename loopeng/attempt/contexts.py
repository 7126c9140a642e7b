"""Where the steps of the graph get their context: from the caller, or made anew for every call of an application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from loopeng.attempt.budget import Budget
from loopeng.attempt.harness import Harness
from loopeng.attempt.state import AttemptContext, AttemptState
from loopeng.errors import NotFoundError, UsageError
from loopeng.schema import PromptVersion, Sample, content_hash
from loopeng.schema.task import BudgetSpec

__all__ = ["Contexts", "GivenContext", "LiveContexts"]


class Contexts(Protocol):
    """The life of a context: ``begin`` at load (its result goes into the state), ``at`` in every step, ``end``."""

    def begin(self, state: AttemptState, given: Any) -> AttemptState: ...

    def at(self, state: AttemptState, given: Any) -> AbstractContextManager[AttemptContext]: ...

    def end(self, state: AttemptState) -> None: ...


class GivenContext:
    """The context that was passed to ``invoke``. Raises UsageError where there is none."""

    def begin(self, state: AttemptState, given: Any) -> AttemptState:
        return {"run_id": _given(given).run.id}

    @contextmanager
    def at(self, state: AttemptState, given: Any) -> Iterator[AttemptContext]:
        yield _given(given)

    def end(self, state: AttemptState) -> None:
        pass


def _given(context: Any) -> AttemptContext:
    if not isinstance(context, AttemptContext):
        raise UsageError("the attempt graph needs context=AttemptContext(...); live_graph() brings its own")
    return context


class LiveContexts:
    """A run of kind live for every call, under the prompt's head. The caller's own context is left alone."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._by_run: dict[str, AttemptContext] = {}

    def begin(self, state: AttemptState, given: Any) -> AttemptState:
        """Raises UsageError where the state holds neither inputs nor the id of a sample of the task."""
        harness, sample = self._harness, self._sample(state)
        run = harness.store.create_run(
            kind="live",
            task=harness.task,
            version=(version := self._head()),
            seed=harness.task.run.seed,
            engine=harness.description(),
        )
        self._by_run[run.id] = AttemptContext(
            harness=harness,
            run=run,
            version=version,
            samples={sample.id: sample},
            budget=Budget(BudgetSpec()),
            max_attempts=harness.task.loop.max_attempts,
        )
        return {"run_id": run.id, "sample_id": sample.id, "repeat": 0}

    @contextmanager
    def at(self, state: AttemptState, given: Any) -> Iterator[AttemptContext]:
        """What a step raises ends the run as interrupted: nobody will come back to it."""
        run_id = state["run_id"]
        try:
            yield self._by_run[run_id]
        except BaseException as error:
            self._by_run.pop(run_id, None)
            self._harness.store.finish_run(run_id, "interrupted", f"{type(error).__name__}: {error}")
            raise

    def end(self, state: AttemptState) -> None:
        self._by_run.pop(state["run_id"], None)
        self._harness.store.finish_run(state["run_id"], "finished")

    def _sample(self, state: AttemptState) -> Sample:
        inputs = state.get("inputs")
        if inputs is not None:
            return Sample(id=content_hash(inputs)[:16], inputs=inputs, split="reflect")
        for sample in self._harness.task.samples:
            if sample.id == state.get("sample_id"):
                return sample
        raise UsageError("give the graph 'inputs', or the 'sample_id' of one of the task's samples")

    def _head(self) -> PromptVersion:
        task = self._harness.task
        try:
            return self._harness.store.head(task.prompt.name)
        except NotFoundError:
            return self._harness.store.adopt_template(
                task.prompt.name, task.template, by="task file", rules=task.file_rules
            )[0]

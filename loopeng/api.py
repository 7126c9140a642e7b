"""The public Python surface: ``Loop`` runs tasks and single attempts, and is the queue's door for programs.

The command line goes through here too, so both behave alike. LangGraph is imported by the methods that need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from loopeng.attempt.events import ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.errors import EngineError, LoopError, UsageError
from loopeng.evaluators import EvaluatorSource, build_evaluators
from loopeng.live import arguments, live_sample, live_task
from loopeng.ports import AgentSource, Evaluator, GenerateFunction, TextEngine
from loopeng.queue_door import QueueDoor
from loopeng.results import AttemptResult, RescoreResult, RunResult
from loopeng.schema import Proposal, Task
from loopeng.schema.task import EngineSpec, LoopSpec, PromptSpec, RetryName, RunSpec
from loopeng.store import LoopStore
from loopeng.task_file import load_task

if TYPE_CHECKING:
    from loopeng.attempt.graph import AttemptGraph
    from loopeng.gepa_bridge import GepaAdapter

__all__ = ["AttemptResult", "Loop", "RescoreResult", "RunResult"]

_OnEvent = Callable[[ProgressEvent], None]


class Loop(QueueDoor):
    """One database and one engine. A context manager; safe to keep open for the life of a program."""

    def __init__(
        self, store: LoopStore, *, engine: TextEngine | GenerateFunction | None = None, agent: AgentSource | None = None
    ) -> None:
        self._store, self._engine, self._agent = store, engine, agent
        self._is_open = True

    @classmethod
    def open(
        cls,
        db: str | Path = "loop.db",
        *,
        engine: TextEngine | GenerateFunction | None = None,
        agent: AgentSource | None = None,
    ) -> Self:
        """Open or make the database. ``engine`` is any ``(messages, params) -> text``, sync or async, or a TextEngine.

        ``agent`` is a function of an AgentContext, sync or async, or a compiled graph of LangGraph. Without one each
        task's own ``agent:`` section is used, and without an engine its ``engine:`` section.
        """
        return cls(LoopStore.open(db), engine=engine, agent=agent)

    @property
    def store(self) -> LoopStore:
        """The open database. Raises UsageError after ``close``."""
        if not self._is_open:
            raise UsageError(f"this loop is closed: open {self._store.path} again with Loop.open")
        return self._store

    def close(self) -> None:
        """Close the database; a second time does nothing."""
        self._is_open = False
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        task: Task | str | Path,
        *,
        resume: bool = False,
        limit: int | None = None,
        improve: bool | None = None,
        on_event: _OnEvent | None = None,
    ) -> RunResult:
        """Run every sample of a task, note what fails, and propose what would prevent it (``improve.enabled``).

        ``resume`` goes on with the newest run that was stopped; ``limit`` takes only the first samples.
        """
        from loopeng.improve import check_watches, recover
        from loopeng.runner import run_suite

        task = task if isinstance(task, Task) else load_task(task)
        recover(self.store)  # what was approved while nobody could commit it counts from now on
        harness = self._harness(task, on_event=on_event)
        summary = run_suite(harness, resume=resume, limit=limit)
        check_watches(self.store, summary.run.prompt_name, harness.on_event)
        wanted = task.improve.enabled if improve is None else improve
        proposals: list[Proposal] = []
        improve_error = None
        if wanted and summary.run.status == "finished":
            try:
                proposals = self._improve(harness)
            except LoopError as error:
                improve_error = error
        return RunResult(
            summary=summary,
            task=task,
            samples=tuple(self.store.sample_results(summary.run.id)),
            failures=tuple(self.store.patterns_of_run(summary.run.id)),
            proposals=tuple(proposals),
            improve_error=improve_error,
        )

    def rescore(
        self,
        run_id: str,
        task: Task | str | Path | None = None,
        *,
        resume: bool = False,
        jobs: int | None = None,
        on_event: _OnEvent | None = None,
    ) -> RescoreResult:
        """Judge the stored outputs of a run again, without generating: after a change of evaluators or targets.

        ``task`` is what to judge by; without it the run's own file as it is now, or the task as it was. ``jobs``
        samples are judged side by side; ``resume`` goes on with the newest rescore of this run that was stopped.
        """
        from loopeng.rescoring import present_task, rescore
        from loopeng.run_diff import diff_runs
        from loopeng.run_summary import summarize

        if task is None:
            task = present_task(self.store, self.store.run(run_id))
        task = task if isinstance(task, Task) else load_task(task)
        done = rescore(self._harness(task, on_event=on_event), run_id, resume=resume, jobs=jobs)
        diff = diff_runs(self.store, done.original.id, done.run.id)
        return RescoreResult(summarize(self.store, done.run.id), task, diff, done.left_out)

    async def arun(self, task: Task | str | Path, **options: Any) -> RunResult:
        """``run`` in a thread, for programs with an event loop."""
        return await asyncio.to_thread(self.run, task, **options)

    def attempt(
        self,
        prompt_name: str,
        inputs: Mapping[str, Any],
        *,
        evaluators: Sequence[EvaluatorSource],
        max_attempts: int = 3,
        template: str | None = None,
        retry: RetryName = "escalate",
        max_tokens: int = 256,
        seed: int = 0,
    ) -> AttemptResult:
        """Answer one input inside an app: generate, evaluate, retry; the best answer comes back.

        The prompt is the head of ``prompt_name``; a ``template`` is adopted as a task file's would be. Every call is
        a run of kind live. Raises UsageError for arguments that cannot be used (an input that the prompt needs is
        missing), NotFoundError for an unknown prompt, EngineError where engine or agent broke.
        """
        from loopeng.runner import execute_run

        store, built = self.store, build_evaluators(evaluators)
        if not built:
            raise UsageError("give at least one evaluator: without one no answer can be judged")
        loop = arguments(LoopSpec, max_attempts=max_attempts, retry=retry)
        engine, run_spec = arguments(EngineSpec, max_tokens=max_tokens), arguments(RunSpec, seed=seed)
        if template is not None:
            prompt = arguments(PromptSpec, name=prompt_name, template=template)
            store.adopt_template(prompt.name, template, by="app")
        version = store.head(prompt_name)
        sample = live_sample(inputs, version, built)
        task = live_task(version, built, loop=loop, engine=engine)
        harness = self._harness(task, evaluators=built)
        run = store.create_run(kind="live", task=task, version=version, seed=run_spec.seed)
        execute_run(harness, run, version, [sample])
        return _answer(store, run.id)

    async def aattempt(self, prompt_name: str, inputs: Mapping[str, Any], **options: Any) -> AttemptResult:
        """``attempt`` in a thread, for programs with an event loop."""
        return await asyncio.to_thread(self.attempt, prompt_name, inputs, **options)

    def propose(
        self,
        task: Task | str | Path,
        *,
        pattern_ids: Sequence[str] | None = None,
        on_event: _OnEvent | None = None,
    ) -> list[Proposal]:
        """Propose changes for what failed so far; explicit ``pattern_ids`` skip the thresholds."""
        task = task if isinstance(task, Task) else load_task(task)
        return self._improve(self._harness(task, on_event=on_event), pattern_ids)

    def graph(self, task: Task | str | Path | None = None) -> AttemptGraph:
        """The compiled ATTEMPT graph. With a task its context is built in: usable as a node of another graph."""
        from loopeng.attempt.graph import attempt_graph, live_graph

        if task is None:
            return attempt_graph()
        return live_graph(self._harness(task if isinstance(task, Task) else load_task(task)))

    def as_gepa_adapter(self, task: Task | str | Path, *, on_event: _OnEvent | None = None) -> GepaAdapter:
        """For ``gepa.optimize(adapter=...)``: gepa searches for rules, ``adapter.submit`` proposes what it found."""
        from loopeng.gepa_bridge import GepaAdapter

        return GepaAdapter(self._harness(task if isinstance(task, Task) else load_task(task), on_event=on_event))

    def _harness(
        self, task: Task, *, evaluators: Sequence[Evaluator] | None = None, on_event: _OnEvent | None = None
    ) -> Harness:
        return Harness.build(
            self.store, task, engine=self._engine, agent=self._agent, evaluators=evaluators, on_event=on_event
        )

    def _improve(self, harness: Harness, pattern_ids: Sequence[str] | None = None) -> list[Proposal]:
        from loopeng.improve import propose, recover

        moved = {proposal.id: proposal for proposal in recover(self.store, harness=harness)}
        moved |= {proposal.id: proposal for proposal in propose(harness, pattern_ids=pattern_ids)}
        return list(moved.values())


def _answer(store: LoopStore, run_id: str) -> AttemptResult:
    """What a run of kind live came to. Raises EngineError where even its best attempt has no answer."""
    (result,) = store.sample_results(run_id)
    attempts = tuple(store.attempts(run_id))
    best = next(each for each in attempts if each.attempt_index == result.best_attempt_index)
    if best.error is not None:
        raise EngineError(best.error)
    passed = None if best.verdict == "error" else best.verdict == "pass"
    return AttemptResult(text=best.text, passed=passed, score=best.score, attempts=attempts)

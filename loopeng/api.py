"""The public Python surface: ``Loop`` runs tasks and single attempts, and is the queue's door for programs.

The command line goes through here too, so both behave alike. LangGraph is imported by the methods that need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from loopeng.attempt.events import ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.errors import LoopError, UsageError
from loopeng.live import LiveCalls, recorded_task, refuse_live_objects
from loopeng.live_door import LiveDoor
from loopeng.ports import AgentSource, GenerateFunction, TextEngine
from loopeng.queue_door import QueueDoor
from loopeng.results import AttemptResult, RescoreResult, RunResult
from loopeng.schema import Proposal, Task
from loopeng.schema.live import live_prompt
from loopeng.settings import LiveSettings, read_live_settings
from loopeng.store import LoopStore
from loopeng.task_file import load_task

if TYPE_CHECKING:
    from loopeng.attempt.graph import AttemptGraph
    from loopeng.gepa_bridge import GepaAdapter

__all__ = ["AttemptResult", "Loop", "RescoreResult", "RunResult"]

_OnEvent = Callable[[ProgressEvent], None]


class Loop(LiveDoor, QueueDoor):
    """One database and one engine. A context manager; safe to keep open for the life of a program."""

    def __init__(
        self,
        store: LoopStore,
        *,
        engine: TextEngine | GenerateFunction | None = None,
        agent: AgentSource | None = None,
        live: LiveSettings | None = None,
    ) -> None:
        self._store, self._engine, self._agent = store, engine, agent
        self._calls = LiveCalls(store, live or read_live_settings(), engine=engine, agent=agent)
        self._is_open = True

    @classmethod
    def open(
        cls,
        db: str | Path = "loop.db",
        *,
        engine: TextEngine | GenerateFunction | None = None,
        agent: AgentSource | None = None,
        live: LiveSettings | None = None,
    ) -> Self:
        """Open or make the database. ``engine`` is any ``(messages, params) -> text``, sync or async, or a TextEngine.

        ``agent`` is a function of an AgentContext, sync or async, or a compiled graph of LangGraph. Without one each
        task's own ``agent:`` section is used, and without an engine its ``engine:`` section. ``live`` says how
        ``attempt`` and ``observe`` record, by default as the environment does.
        """
        live = live or read_live_settings()
        return cls(LoopStore.open(db), engine=engine, agent=agent, live=live)

    @property
    def store(self) -> LoopStore:
        """The open database. Raises UsageError after ``close``."""
        self._refuse_closed()
        return self._store

    def _refuse_closed(self) -> None:
        if not self._is_open:
            raise UsageError(f"this loop is closed: open {self._store.path} again with Loop.open")

    @property
    def _live(self) -> LiveCalls:
        self._refuse_closed()
        return self._calls

    @property
    def _has_engine(self) -> bool:
        return self._engine is not None

    def close(self) -> None:
        """Close the database, once the calls that are under way are answered; a second time does nothing."""
        self._close_threads()
        if self._is_open:
            self._is_open = False
            self._calls.close()
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

    def propose(
        self,
        task: Task | str | Path,
        *,
        pattern_ids: Sequence[str] | None = None,
        on_event: _OnEvent | None = None,
    ) -> list[Proposal]:
        """Propose changes for what failed so far; explicit ``pattern_ids`` skip the thresholds.

        ``live:<prompt>`` is the traffic that ``attempt`` and ``observe`` have recorded of a prompt.
        """
        prompt_name = live_prompt(task) if isinstance(task, str) else None
        if prompt_name is not None:
            task = recorded_task(self.store, prompt_name)
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

    def _harness(self, task: Task, *, on_event: _OnEvent | None = None) -> Harness:
        evaluators = self._calls.evaluators_of(task) if live_prompt(task.name) is not None else None
        if live_prompt(task.name) is not None and evaluators is None:
            refuse_live_objects(task)
        return Harness.build(
            self.store, task, engine=self._engine, agent=self._agent, evaluators=evaluators, on_event=on_event
        )

    def _improve(self, harness: Harness, pattern_ids: Sequence[str] | None = None) -> list[Proposal]:
        from loopeng.improve import propose, recover

        moved = {proposal.id: proposal for proposal in recover(self.store, harness=harness)}
        moved |= {proposal.id: proposal for proposal in propose(harness, pattern_ids=pattern_ids)}
        return list(moved.values())

"""The public Python surface: ``Loop`` runs tasks and single attempts, and is the queue's door for programs.

The command line goes through here too, so both behave alike. LangGraph is imported by the methods that need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from loopeng.attempt.events import ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.errors import EngineError, LoopError, UsageError
from loopeng.evaluators import EvaluatorSource, build_evaluators
from loopeng.ports import Agent, Evaluator, GenerateFunction, TextEngine
from loopeng.schema import (
    DECIDABLE_STATES,
    Attempt,
    EvaluatorSpec,
    FailurePattern,
    PromptVersion,
    Proposal,
    Run,
    Sample,
    SampleResult,
    Task,
    content_hash,
)
from loopeng.schema.task import DatasetSpec, EngineSpec, LoopSpec, PromptSpec, RetryName
from loopeng.store import LoopStore
from loopeng.task_file import load_task

if TYPE_CHECKING:
    from loopeng.approvals import Card, Outcome
    from loopeng.attempt.graph import AttemptGraph
    from loopeng.runner import RunSummary

__all__ = ["AttemptResult", "Loop", "RunResult"]

_OnEvent = Callable[[ProgressEvent], None]


@dataclass(frozen=True)
class AttemptResult:
    """The best answer, with all attempts in order. ``passed`` is None where an evaluator broke: nobody can tell."""

    text: str
    passed: bool | None
    score: float | None
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class RunResult:
    """What a run came to. ``proposals`` are those it made or moved on; ``failures`` the patterns it showed.

    ``improve_error`` is what stopped the work on proposals; the run itself is complete all the same.
    """

    summary: RunSummary
    task: Task
    samples: tuple[SampleResult, ...]
    failures: tuple[FailurePattern, ...]
    proposals: tuple[Proposal, ...]
    improve_error: LoopError | None = None

    @property
    def run(self) -> Run:
        """The run's row."""
        return self.summary.run

    @property
    def passed(self) -> bool:
        """Whether the run is complete, without errors, at the task's ``run.min_pass_rate``."""
        return self.summary.exit_code(self.task) == 0

    @property
    def score(self) -> float:
        """The pass rate that the threshold looks at (``run.on``)."""
        return self.summary.pass_rate(self.task.run.on)

    @property
    def exit_code(self) -> int:
        """What the command line would return."""
        code = self.summary.exit_code(self.task)
        return self.improve_error.exit_code if not code and self.improve_error is not None else code


class Loop:
    """One database and one engine. A context manager; safe to keep open for the life of a program."""

    def __init__(
        self, store: LoopStore, *, engine: TextEngine | GenerateFunction | None = None, agent: Agent | None = None
    ) -> None:
        self.store, self._engine, self._agent = store, engine, agent

    @classmethod
    def open(
        cls,
        db: str | Path = "loop.db",
        *,
        engine: TextEngine | GenerateFunction | None = None,
        agent: Agent | None = None,
    ) -> Self:
        """Open or make the database. ``engine`` is any ``(messages, params) -> text``, sync or async, or a TextEngine.

        Without an engine each task's own ``engine:`` section is used.
        """
        return cls(LoopStore.open(db), engine=engine, agent=agent)

    def close(self) -> None:
        """Close the database."""
        self.store.close()

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
        from loopeng.improve import recover
        from loopeng.runner import run_suite

        task = task if isinstance(task, Task) else load_task(task)
        recover(self.store)  # what was approved while nobody could commit it counts from now on
        harness = self._harness(task, on_event=on_event)
        summary = run_suite(harness, resume=resume, limit=limit)
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
        a run of kind live. Raises EngineError where engine or agent broke, NotFoundError for an unknown prompt.
        """
        from loopeng.runner import execute_run

        store = self.store
        if template is not None:
            store.adopt_template(prompt_name, template, by="app")
        version = store.head(prompt_name)
        built = build_evaluators(evaluators)
        if not built:
            raise UsageError("give at least one evaluator: without one no answer can be judged")
        loop = LoopSpec(max_attempts=max_attempts, retry=retry)
        task = _live_task(version, built, loop, EngineSpec(max_tokens=max_tokens))
        harness = self._harness(task, evaluators=built)
        run = store.create_run(kind="live", task=task, version=version, seed=seed)
        sample = Sample(id=f"input-{content_hash(dict(inputs))[:12]}", inputs=dict(inputs), split="reflect")
        execute_run(harness, run, version, [sample])
        (result,) = store.sample_results(run.id)
        attempts = tuple(store.attempts(run.id))
        best = next(each for each in attempts if each.attempt_index == result.best_attempt_index)
        if best.error is not None:
            raise EngineError(best.error)
        passed = None if best.verdict == "error" else best.verdict == "pass"
        return AttemptResult(text=best.text, passed=passed, score=best.score, attempts=attempts)

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

    def queue(self) -> list[Card]:
        """The proposals that wait for a decision, with everything to see: ``diff``, ``gate.summary`` ..."""
        from loopeng.approvals import card

        return [card(self.store, proposal.id) for proposal in self.store.proposals(states=DECIDABLE_STATES)]

    def approve(
        self, proposal_id: str, *, by: str, seen: str, accept_untested: bool = False, reason: str = ""
    ) -> Outcome:
        """Approve the text whose hash is ``seen``. Without evidence this needs ``accept_untested=True``."""
        from loopeng.approvals import approve

        return approve(self.store, proposal_id, by=by, seen=seen, accept_untested=accept_untested, reason=reason)

    def edit(self, proposal_id: str, *, by: str, seen: str, rules: Sequence[str], reason: str = "") -> Outcome:
        """Replace the proposed rules by these: a new revision, counted again at once with this loop's engine."""
        from loopeng.approvals import edit

        harness = self._harness(self.store.task(self.store.proposal(proposal_id).task_hash))
        return edit(self.store, proposal_id, by=by, seen=seen, rules=rules, reason=reason, harness=harness)

    def reject(self, proposal_id: str, *, by: str, seen: str, reason: str) -> Outcome:
        """Refuse; the reason reaches the next reflection."""
        from loopeng.approvals import reject

        return reject(self.store, proposal_id, by=by, seen=seen, reason=reason)

    def rollback(self, prompt_name: str, *, by: str, reason: str, to: str | int | None = None) -> PromptVersion:
        """Move the head back to an earlier version (its id or number); without one to the head's parent."""
        from loopeng.approvals import rollback

        return rollback(self.store, prompt_name, to=to, by=by, reason=reason)

    def graph(self, task: Task | str | Path | None = None) -> AttemptGraph:
        """The compiled ATTEMPT graph. With a task its context is built in: usable as a node of another graph."""
        from loopeng.attempt.graph import attempt_graph, live_graph

        if task is None:
            return attempt_graph()
        return live_graph(self._harness(task if isinstance(task, Task) else load_task(task)))

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


def _live_task(version: PromptVersion, evaluators: Sequence[Evaluator], loop: LoopSpec, engine: EngineSpec) -> Task:
    """One task for all inputs of an application: its only sample is a stand-in, never run."""
    specs = [getattr(each, "reference", None) or {"id": each.id, "type": type(each).__name__} for each in evaluators]
    return Task(
        version=1,
        name=f"{version.prompt_name} (live)",
        prompt=PromptSpec(name=version.prompt_name, template=version.template),
        dataset=DatasetSpec(samples=({},)),
        engine=engine,
        evaluators=tuple(EvaluatorSpec.model_validate(spec) for spec in specs),
        loop=loop,
        template=version.template,
        samples=(Sample(id="stand-in", inputs={}, split="reflect"),),
    )

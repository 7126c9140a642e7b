"""What a run needs besides database rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from loopeng.agents import as_agent, build_agent
from loopeng.attempt.events import ProgressEvent
from loopeng.engines import LazyEngine, as_engine, build_engine
from loopeng.evaluators import EvaluatorSource, build_evaluators
from loopeng.ports import Agent, AgentSource, Evaluator, GenerateFunction, TextEngine
from loopeng.schema import Task
from loopeng.store import LoopStore

__all__ = ["Harness", "ignore_event"]


def ignore_event(event: ProgressEvent) -> None:
    """The default of ``on_event``."""


@dataclass(frozen=True)
class Harness:
    """Store, task, engine, agent and evaluators, put together. May be shared between threads."""

    store: LoopStore
    task: Task
    engine: TextEngine
    agent: Agent
    evaluators: tuple[Evaluator, ...]
    on_event: Callable[[ProgressEvent], None] = ignore_event
    retry_delays_s: tuple[float, ...] = (0.1, 0.5)  # before each further try after an infrastructure error

    @classmethod
    def build(
        cls,
        store: LoopStore,
        task: Task,
        *,
        engine: TextEngine | GenerateFunction | None = None,
        agent: AgentSource | None = None,
        evaluators: Sequence[EvaluatorSource] | None = None,
        on_event: Callable[[ProgressEvent], None] | None = None,
    ) -> Self:
        """Make what is not given from the task. The engine is made at its first use.

        Raises TaskError where the task's agent or an evaluator cannot be made.
        """
        base_dir = task.folder
        return cls(
            store=store,
            task=task,
            engine=LazyEngine(lambda: build_engine(task.engine, base_dir)) if engine is None else as_engine(engine),
            agent=build_agent(task.agent, base_dir) if agent is None else as_agent(agent),
            evaluators=build_evaluators(task.evaluators if evaluators is None else evaluators, base_dir),
            on_event=on_event or ignore_event,
        )

    def description(self) -> dict[str, Any]:
        """What a run's row keeps of its engine, and the agent's reference: None for one that only this process has."""
        return self.engine.describe().model_dump(mode="json") | {"agent": getattr(self.agent, "reference", None)}

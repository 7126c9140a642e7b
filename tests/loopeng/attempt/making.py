"""Small tasks and harnesses for the tests of attempts, runs and patterns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopeng.attempt.budget import Budget
from loopeng.attempt.events import ProgressEvent
from loopeng.attempt.harness import Harness
from loopeng.attempt.state import AttemptContext
from loopeng.engines.scripted import ScriptedEngine
from loopeng.ports import Agent, EvaluationContext, TextReply, TextRequest
from loopeng.schema import Attempt, EvalResult, EvaluatorSpec, Run, Sample, Task, utc_now
from loopeng.schema.task import BudgetSpec, DatasetSpec, EngineSpec, LoopSpec, PromptSpec
from loopeng.store import LoopStore

TEMPLATE = "Describe {{ product }}{{ rules }}"
SPLITS = ("reflect", "gate", "holdout")
LONG, SHORT = "a b c d e f g h", "short one"


def make_samples(count: int = 3, split: str | None = None) -> tuple[Sample, ...]:
    return tuple(
        Sample(id=f"s{i}", inputs={"product": f"mug {i}"}, split=split or SPLITS[i % 3])  # type: ignore[arg-type]
        for i in range(count)
    )


def make_task(
    samples: tuple[Sample, ...] | int = 3, *, max_attempts: int = 3, retry: str = "escalate", **changes: Any
) -> Task:
    values: dict[str, Any] = {
        "version": 1,
        "name": "mugs",
        "prompt": PromptSpec(name="describe", template=TEMPLATE),
        "dataset": DatasetSpec(samples=()),
        "engine": EngineSpec(kind="scripted", script="script.yaml"),
        "evaluators": (EvaluatorSpec(id="short", type="length", max_words=5),),
        "loop": LoopSpec(max_attempts=max_attempts, retry=retry),  # type: ignore[arg-type]
        "template": TEMPLATE,
        "samples": make_samples(samples) if isinstance(samples, int) else samples,
    }
    return Task(**(values | changes))


class Script:
    """Answers from a list, one per call, the last one for ever; remembers the requests. An exception is raised."""

    def __init__(self, *answers: str | BaseException) -> None:
        self.answers = list(answers)
        self.requests: list[TextRequest] = []

    def __call__(self, request: TextRequest) -> str:
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(request)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def make_harness(
    store: LoopStore,
    replies: Callable[[TextRequest], str],
    task: Task | None = None,
    *,
    agent: Agent | None = None,
    evaluators: Any = None,
    on_event: Callable[[ProgressEvent], None] | None = None,
) -> Harness:
    made = Harness.build(
        store,
        task or make_task(),
        engine=ScriptedEngine(replies),
        agent=agent,
        evaluators=evaluators,
        on_event=on_event,
    )
    return Harness(**{**vars(made), "retry_delays_s": (0.0, 0.0)})


def make_context(
    harness: Harness, *, max_attempts: int | None = None, limits: BudgetSpec | None = None
) -> AttemptContext:
    """A context with a run of its own."""
    task = harness.task
    version, _, _ = harness.store.adopt_template(task.prompt.name, task.template, by="test")
    run: Run = harness.store.create_run(kind="suite", task=task, version=version, seed=task.run.seed)
    return AttemptContext(
        harness=harness,
        run=run,
        version=version,
        samples={sample.id: sample for sample in task.samples},
        budget=Budget(limits or BudgetSpec()),
        max_attempts=max_attempts or task.loop.max_attempts,
    )


def make_attempt(index: int = 0, **changes: Any) -> Attempt:
    values: dict[str, Any] = {
        "run_id": "run-1",
        "sample_id": "s0",
        "attempt_index": index,
        "seed": 1,
        "messages": (),
        "verdict": "fail",
        "created_at": utc_now(),
    }
    return Attempt(**(values | changes))


class Judge:
    """An evaluator that passes texts with "ok" in them, breaks at "boom", and counts its calls."""

    id = "judge"
    categories = frozenset({"judge.no"})
    reference: Any = None
    reads_text_alone = True

    def __init__(self, feedback: str = "say ok", reason: str = "SECRET-42 is the target") -> None:
        self.feedback, self.reason, self.num_calls = feedback, reason, 0

    def evaluate(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> EvalResult:
        self.num_calls += 1
        if "boom" in attempt.text:
            raise RuntimeError("judge broke")
        if "ok" in attempt.text:
            return EvalResult(evaluator=self.id, score=1, passed=True)
        return EvalResult(
            evaluator=self.id, score=0.25, passed=False, reason=self.reason, feedback=self.feedback, category="judge.no"
        )


def reply(text: str) -> TextReply:
    return TextReply(text=text)


def open_store(folder: Path) -> LoopStore:
    return LoopStore.open(folder / "loop.db")

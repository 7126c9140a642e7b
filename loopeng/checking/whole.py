"""All checks of a task together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loopeng.checking.baselines import Baselines, try_baselines
from loopeng.checking.cost import CostEstimate, estimate_cost
from loopeng.checking.fields import FieldUse, find_field_use
from loopeng.checking.forecast import GateForecast, forecast_gate
from loopeng.checking.last_run import LastRun, read_last_run
from loopeng.checking.self_tests import SelfTestResult, run_self_tests
from loopeng.checking.trying import Bench
from loopeng.errors import StoreError
from loopeng.evaluators import build_evaluators
from loopeng.prompts import PromptTemplate
from loopeng.schema import Task

__all__ = ["TaskCheck", "check_task"]


@dataclass(frozen=True)
class TaskCheck:
    """What was found. ``first_prompt`` is the first sample as the model gets it."""

    task: Task
    first_prompt: str
    fields: FieldUse
    self_tests: tuple[SelfTestResult, ...]
    baselines: Baselines
    left_out: dict[str, str]  # evaluators that no made-up answer was given to, with the reason
    last_run: LastRun | None
    database_error: str | None  # why the last run could not be read
    forecast: GateForecast | None
    cost: CostEstimate


def check_task(task: Task, base_dir: Path, db: Path) -> TaskCheck:
    """Check a task that was loaded without a mistake. ``db`` need not exist and is not made. Raises TaskError."""
    bench = Bench(task, build_evaluators(task.evaluators, base_dir))
    last_run, database_error = _last_run(task, db)
    return TaskCheck(
        task=task,
        first_prompt=PromptTemplate(task.template).render(task.samples[0].inputs),
        fields=find_field_use(task, bench.evaluators),
        self_tests=tuple(run_self_tests(bench)),
        baselines=try_baselines(bench),
        left_out=bench.left_out,
        last_run=last_run,
        database_error=database_error,
        forecast=forecast_gate(task, last_run),
        cost=estimate_cost(task, last_run, bench.evaluators),
    )


def _last_run(task: Task, db: Path) -> tuple[LastRun | None, str | None]:
    try:
        return read_last_run(db, task), None
    except StoreError as error:
        return None, str(error)

"""``loopeng check``: everything about a task that can be known without a model."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from loopeng.cli.options import Json, TaskPath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loopeng.ports import Evaluator
    from loopeng.schema import Sample, Task

__all__ = ["check", "register"]

_MAX_NULL_SAMPLES = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(check)


def check(task: TaskPath = Path("task.yaml"), json: Json = False) -> None:
    """Check a task file: keys, data, prompt, evaluators, splits. Loads no model and changes nothing.

    \b
    Example:
      loopeng check
      loopeng check shop/task.yaml
    """
    from loopeng.agents import build_agent
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import task_file
    from loopeng.evaluators import build_evaluators
    from loopeng.prompts import PromptTemplate
    from loopeng.report.check import check_text, improvement_remarks
    from loopeng.task_file import load_task

    path = task_file(task)
    with redirect_stdout(sys.stderr):  # the user's code may print
        loaded = load_task(path)
        evaluators = build_evaluators(loaded.evaluators, path.parent)
        build_agent(loaded.agent, path.parent)
        _check_engine(loaded, path.parent)
        template = PromptTemplate(loaded.template)
        prompts = [template.render(sample.inputs) for sample in loaded.samples]
        null_passes = _null_passes(loaded, evaluators, prompts)
    num_tried = len(prompts[:_MAX_NULL_SAMPLES])
    if json:
        splits = [sample.split for sample in loaded.samples]
        document = {
            "task": loaded.name,
            "samples": {split: splits.count(split) for split in ("reflect", "gate", "holdout")},
            "first_prompt": prompts[0],
            "remarks": [*improvement_remarks(loaded), *_webhook_remarks(loaded)],
            "null_passes": null_passes,
            "null_samples_tried": num_tried,
        }
        print_json(document)
    else:
        print_text("\n".join([check_text(loaded, prompts[0], null_passes, num_tried), *_webhook_remarks(loaded)]))


def _webhook_remarks(task: Task) -> list[str]:
    from loopeng.improve.webhook import secret_problem

    webhook = task.approval.webhook
    problem = secret_problem(webhook.secret_env) if webhook is not None else None
    return [f"warning: approval.webhook: {problem}"] if problem is not None else []


def _check_engine(task: Task, base_dir: Path) -> None:
    """Read a script; a model is not looked for."""
    from loopeng.engines import build_engine

    if task.engine.kind == "scripted":
        build_engine(task.engine, base_dir)


def _null_passes(task: Task, evaluators: Sequence[Evaluator], prompts: Sequence[str]) -> dict[str, list[str]]:
    """Which samples a do-nothing answer passes: no evaluator should be content with one."""
    looked_at = list(zip(task.samples, prompts, strict=True))[:_MAX_NULL_SAMPLES]

    def passed(text: str | None) -> list[str]:
        return [
            sample.id
            for sample, prompt in looked_at
            if _passes(task, evaluators, sample, prompt, prompt if text is None else text)
        ]

    return {
        "an empty answer": passed(""),
        "the prompt itself": passed(None),
        "'I do not know.'": passed("I do not know."),
    }


def _passes(task: Task, evaluators: Sequence[Evaluator], sample: Sample, prompt: str, text: str) -> bool:
    from loopeng.evaluators import judge_attempt, run_evaluators
    from loopeng.schema import Attempt, Message, utc_now

    if any(getattr(each, "uses_engine", False) for each in evaluators):
        return False  # a judge would have to be asked, and nothing is loaded here
    attempt = Attempt(
        run_id="check",
        sample_id=sample.id,
        seed=0,
        messages=(Message(role="user", content=prompt),),
        text=text,
        verdict="error",
        created_at=utc_now(),
    )
    results = run_evaluators(evaluators, sample, attempt)
    return judge_attempt(results, task.pass_, {spec.id: spec.weight for spec in task.evaluators})[0] == "pass"

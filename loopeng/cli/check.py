"""``loopeng check``: everything about a task that can be known without a model."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopeng.cli.options import Db, Json, TaskPath
from loopeng.errors import EngineError, UsageError

if TYPE_CHECKING:
    from loopeng.report.check_remarks import Remark
    from loopeng.schema import Task

__all__ = ["check", "register"]

_PROBLEM = 2
_ASKING = "Have the engine answer the first prompt in a few words: loads its model, or calls its server."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(check)


def check(
    task: TaskPath = Path("task.yaml"),
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 2 for a warning too.")] = False,
    ask_engine: Annotated[bool, typer.Option("--ask-engine", help=_ASKING)] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """Check a task file: keys, data, prompt, evaluators, splits. Loads no model, calls no server, changes nothing.

    Tries the evaluators on their self-tests, on the targets, and on answers that do nothing; says what power the gate
    will have, and what a run will cost. The last run is looked up where there is a database; none is made.

    Exits with 2 where the task has a mistake, a self-test fails or the engine does not answer; warnings leave 0.

    \b
    Example:
      loopeng check
      loopeng check shop/task.yaml --strict
    """
    from loopeng.agents import build_agent
    from loopeng.checking import check_task
    from loopeng.cli.output import print_json, print_text
    from loopeng.cli.places import task_database, task_file
    from loopeng.report.check import check_document, check_text
    from loopeng.report.check_remarks import check_remarks
    from loopeng.task_file import load_task

    path = task_file(task)
    with redirect_stdout(sys.stderr):  # the user's code may print
        loaded = load_task(path)
        build_agent(loaded.agent, path.parent)
        _check_engine(loaded, path.parent)
        found = check_task(loaded, path.parent, task_database(path, db))
        asked = [_engine_remark(loaded, found.first_prompt)] if ask_engine else []
    remarks = [*check_remarks(found), *_webhook_remarks(loaded), *_key_remarks(loaded), *asked]
    print_json(check_document(found, remarks)) if json else print_text(check_text(found, remarks))
    stopping = {"problem", "warning"} if strict else {"problem"}
    if any(each.kind in stopping for each in remarks):
        raise typer.Exit(_PROBLEM)


def _webhook_remarks(task: Task) -> list[Remark]:
    from loopeng.improve.webhook import secret_problem
    from loopeng.report.check_remarks import Remark

    webhook = task.approval.webhook
    problem = secret_problem(webhook.secret_env) if webhook is not None else None
    return [Remark("warning", f"approval.webhook: {problem}")] if problem is not None else []


def _key_remarks(task: Task) -> list[Remark]:
    """Of the task's engine and the reflector's; a judge's tells it when it is asked."""
    from loopeng.engines.engine_keys import key_problem
    from loopeng.report.check_remarks import Remark

    problems = [key_problem(spec) for spec in (task.engine, task.improve.engine) if spec is not None]
    return [Remark("warning", problem) for problem in dict.fromkeys(problems) if problem is not None]


def _engine_remark(task: Task, prompt: str) -> Remark:
    """Ask for a few words, and tell what came."""
    from loopeng.checking import ask_engine
    from loopeng.report.check_remarks import Remark

    try:
        info, reply = ask_engine(task, prompt)
    except (EngineError, UsageError) as error:
        return Remark("problem", f"the engine does not answer: {error}")
    texts = "deterministic" if info.deterministic else "not deterministic"
    schemas = "holds texts to a schema" if info.structured_output else "holds no text to a schema"
    answered = f"the engine answered in {reply.latency_s:.1f} s: {reply.text!r}"
    return Remark("note", f"{answered} ({info.kind} {info.model}, {texts}, {schemas})")


def _check_engine(task: Task, base_dir: Path) -> None:
    """Read a script; a model is not looked for."""
    from loopeng.engines import build_engine

    if task.engine.kind == "scripted":
        build_engine(task.engine, base_dir)

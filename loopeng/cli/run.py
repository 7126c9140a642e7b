"""``loopeng run``: the suite, the improvement work after it, and the report with what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loopeng.cli.options import Db, Json, Quiet, TaskPath

__all__ = ["register", "run"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    task: TaskPath = Path("task.yaml"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the newest run that was stopped.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N samples.")] = None,
    no_improve: Annotated[bool, typer.Option("--no-improve", help="Propose nothing after the run.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run's proposals are decided.")] = False,
    wait_timeout: Annotated[
        str | None, typer.Option("--wait-timeout", metavar="TIME", help="End --wait after 30s, 10m, 2h ...")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    db: Db = None,
) -> None:
    """Run a task: generate, evaluate, retry; then propose what would prevent the failures that came back.

    \b
    Example:
      loopeng run task.yaml
      loopeng run task.yaml --resume
      loopeng run task.yaml --json > run.json
    """
    from loopeng.cli.running import RunOptions, run_and_report

    options = RunOptions(task, db, resume, limit, no_improve, wait, wait_timeout, json, quiet)
    raise typer.Exit(run_and_report(options))

"""``loopeng propose``: improvement work without a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loopeng.cli.options import Db, Json, Quiet

__all__ = ["propose", "register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(propose)


def propose(
    task: Annotated[
        Path, typer.Argument(metavar="TASK", help="The task file, its folder, or live:PROMPT for an app's calls.")
    ] = Path("task.yaml"),
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern", metavar="ID", help="Propose for these patterns, below the thresholds too; repeatable."
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    db: Db = None,
) -> None:
    """Propose prompt changes for the failures seen so far, and go on with proposals that were interrupted.

    \b
    Example:
      loopeng propose task.yaml
      loopeng propose task.yaml --pattern pat-1a2b3c4d
      loopeng propose live:describe
    """
    from loopeng.cli.proposing import propose_and_report

    raise typer.Exit(propose_and_report(task, pattern, as_json=json, quiet=quiet, db=db))

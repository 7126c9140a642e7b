"""``loopeng init``: a task to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["init", "register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(init)


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; made if it is not there.")] = Path(),
) -> None:
    """Write a task that runs as it is: task.yaml with its data. Nothing that exists is overwritten.

    \b
    Example:
      loopeng init shop
      cd shop && loopeng check && loopeng run
    """
    from loopeng.cli.output import print_text
    from loopeng.cli.places import program
    from loopeng.starter import write_starter

    written = write_starter(folder)
    go = f"cd {shlex.quote(str(folder))} && " if folder.resolve() != Path.cwd() else ""
    lines = [f"wrote {path}" for path in written]
    print_text("\n".join([*lines, "", "next:", f"    {go}{program()} check && {program()} run"]))

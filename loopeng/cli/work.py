"""``loopeng work``: whatever waits for a machine, not for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from loopeng.cli.options import Db, Json, Quiet

__all__ = ["register", "work"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(work)


def work(
    follow: Annotated[bool, typer.Option("--follow", help="Go on looking for work until Ctrl-C.")] = False,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="With --follow: how often to look.")] = "10s",
    json: Json = False,
    quiet: Quiet = False,
    db: Db = None,
) -> None:
    """Do what is left of all proposals: test edited and rebased ones, commit what is approved, call the webhook.

    \b
    Example:
      loopeng work
      loopeng work --follow --every 1m
    """
    from loopeng.cli.working import work_and_report

    raise typer.Exit(work_and_report(follow=follow, every=every, as_json=json, quiet=quiet, db=db))

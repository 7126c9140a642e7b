"""``loopeng schema``: the JSON Schema of task.yaml, for editors."""

from __future__ import annotations

import typer

__all__ = ["register", "schema"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(schema)


def schema() -> None:
    """Print the JSON Schema of task.yaml, for completion and checking in an editor.

    \b
    Example:
      loopeng schema > task.schema.json
    """
    from loopeng.cli.output import print_json
    from loopeng.task_schema import task_json_schema

    print_json(task_json_schema())

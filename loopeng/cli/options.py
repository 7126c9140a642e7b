"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["By", "Db", "Json", "Now", "Quiet", "Reason", "Seen", "TaskPath"]

TaskPath = Annotated[Path, typer.Argument(metavar="TASK", help="The task file, or its folder.")]
Db = Annotated[
    Path | None,
    typer.Option(
        "--db", metavar="PATH", help="Database file. Default: LOOPENG_DB, else .loopeng/loop.db beside the task file."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr (also LOOPENG_QUIET=1).")]
Now = Annotated[bool, typer.Option("--now", help="Test the new revision here and now, not by 'loopeng work'.")]
By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who decides. Default: LOOPENG_USER, else your login name.")
]
Seen = Annotated[
    str | None,
    typer.Option("--seen", metavar="HASH8", help="Text hash of what you saw; 'loopeng queue show' prints it."),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with the decision.")]

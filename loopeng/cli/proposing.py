"""What ``loopeng propose`` does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from loopeng.api import Loop
from loopeng.cli.output import note, print_json, print_text
from loopeng.cli.places import command, find_database, task_database, task_file
from loopeng.cli.progress import LiveProgress
from loopeng.cli.proposal_views import proposal_document, proposal_summary, proposal_view
from loopeng.improve.unproposed import find_unproposed
from loopeng.live import recorded_task
from loopeng.report.notices import nothing_text
from loopeng.schema.live import live_prompt
from loopeng.settings import read_settings
from loopeng.task_file import load_task

__all__ = ["propose_and_report"]

_INTERRUPTED = 130


def propose_and_report(
    task: Path, pattern_ids: Sequence[str] | None, *, as_json: bool, quiet: bool, db: Path | None
) -> int:
    """The exit code."""
    prompt_name, path = live_prompt(str(task)), task_file(task)
    with redirect_stdout(sys.stderr):  # the user's modules may print when they are imported
        from_file = load_task(path) if prompt_name is None else None
    database = task_database(path, db) if prompt_name is None else find_database(db)
    with Loop.open(database) as loop:
        loaded = from_file or recorded_task(loop.store, prompt_name or "")
        try:
            with LiveProgress(quiet=quiet or read_settings().quiet) as display:
                proposals = loop.propose(loaded, pattern_ids=pattern_ids, on_event=display)
        except KeyboardInterrupt:
            named = (["propose"], path) if prompt_name is None else (["propose", loaded.name], None)
            again = command(*named[0], db=database, task_path=named[1])
            note(f"interrupted; everything is saved. Go on with:\n  {again}")
            return _INTERRUPTED
        if as_json:
            views = (proposal_view(loop.store, proposal, database) for proposal in proposals)
            print_json([proposal_document(view) for view in views if view is not None])
        elif proposals:
            print_text("\n\n".join(proposal_summary(loop.store, proposal, database) for proposal in proposals))
        else:
            note(nothing_text(find_unproposed(loop.store, loaded)))
    return 0

"""What ``loopeng run`` does: run, report, perhaps wait, and say how to go on wherever it stops."""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loopeng.api import Loop, RunResult
from loopeng.cli.output import note, print_json, print_text
from loopeng.cli.places import command, task_database, task_file
from loopeng.cli.progress import LiveProgress, Progress
from loopeng.cli.run_views import report_text, run_document, run_proposals
from loopeng.cli.waiting import wait_for_decisions
from loopeng.errors import UsageError
from loopeng.report.notices import limit_to_raise
from loopeng.schema.task import parse_duration
from loopeng.settings import read_settings
from loopeng.task_file import load_task

if TYPE_CHECKING:
    from loopeng.schema import Proposal, Task
    from loopeng.store import LoopStore

__all__ = ["RunOptions", "run_and_report"]

_STILL_PENDING = 6
_INTERRUPTED = 130


@dataclass(frozen=True)
class RunOptions:
    """The options of ``loopeng run``, in its order."""

    task: Path
    db: Path | None
    resume: bool
    limit: int | None
    no_improve: bool
    wait: bool
    wait_timeout: str | None
    json: bool
    quiet: bool

    @property
    def path(self) -> Path:
        """The task file."""
        return task_file(self.task)

    @property
    def database(self) -> Path:
        """The database; it need not exist yet."""
        return task_database(self.path, self.db)

    @property
    def timeout_s(self) -> float | None:
        """How long ``--wait`` waits. Raises UsageError."""
        try:
            return None if self.wait_timeout is None else parse_duration(self.wait_timeout)
        except ValueError as error:
            raise UsageError(f"--wait-timeout: {error}") from error

    def command(self, *, resume: bool) -> str:
        """This command once more."""
        words = ["--resume"] if resume else []
        words += ["--limit", str(self.limit)] if self.limit is not None else []
        words += ["--no-improve"] if self.no_improve else []
        return command("run", *words, db=self.database, task_path=self.path)

    def propose_command(self) -> str:
        """What goes on with the proposals alone."""
        return command("propose", db=self.database, task_path=self.path)


def run_and_report(options: RunOptions) -> int:
    """The exit code. Raises LoopError for mistakes, before anything is run where they can be seen before."""
    timeout_s = options.timeout_s
    with redirect_stdout(sys.stderr):  # the user's modules may print when they are imported
        task = load_task(options.path)
    with Loop.open(options.database) as loop:
        if not options.resume:
            _mention_unfinished(loop.store, task, options)
        display = LiveProgress(quiet=options.quiet or read_settings().quiet)
        improve = False if options.no_improve else None
        try:
            with display:
                result = loop.run(task, resume=options.resume, limit=options.limit, improve=improve, on_event=display)
        except KeyboardInterrupt:
            note(_interruption(display.progress, options))
            return _INTERRUPTED
        code = result.exit_code
        if not options.json:
            print_text(report_text(loop.store, result.summary, task, _proposals(loop.store, result), options.database))
        _say_what_is_left(loop.store, result, options)
        if options.wait and not _decided(loop.store, result, timeout_s):
            code = _STILL_PENDING
        if options.json:
            print_json(_document(loop.store, result, options) | {"exit_code": code})
    return code


def _mention_unfinished(store: LoopStore, task: Task, options: RunOptions) -> None:
    """A run that was killed could not say how to go on with it."""
    for run in store.runs(task_name=task.name, kind="suite", limit=1):
        if run.status != "finished":
            how = _go_on({limit_to_raise(run.stop_reason)}, options)
            note(f"note: {run.id} was not finished; this is a new run. {how} with that one instead:")
            note(f"  {options.command(resume=True)}")


def _interruption(progress: Progress, options: RunOptions) -> str:
    if progress.suite_finished:
        what, line = "while working on proposals; the run itself is complete", options.propose_command()
    elif progress.suite_run is not None:
        done = f"{progress.num_finished} of {progress.num_samples} samples are finished"
        what, line = f"in run {progress.suite_run.id}; {done}, everything is saved", options.command(resume=True)
    else:
        what, line = "before the run began", options.command(resume=options.resume)
    return f"interrupted {what}. Go on with:\n  {line}"


def _proposals(store: LoopStore, result: RunResult) -> list[Proposal]:
    return run_proposals(store, result.run, [proposal.id for proposal in result.proposals])


def _say_what_is_left(store: LoopStore, result: RunResult, options: RunOptions) -> None:
    if result.run.status == "budget":
        how = _go_on({limit_to_raise(result.run.stop_reason)}, options)
        note(f"stopped by a limit ({result.run.stop_reason}). {how} with:\n  {options.command(resume=True)}")
    if result.improve_error is not None:
        note(f"the work on proposals stopped: {result.improve_error}")
    unfinished = [each for each in _proposals(store, result) if each.state in ("drafting", "testing")]
    if result.improve_error is not None or unfinished:
        keys = {limit_to_raise(each.state_reason, "improve.limits") for each in unfinished}
        note(f"{_go_on(keys, options)} with the proposals:\n  {options.propose_command()}")


def _go_on(keys: Collection[str | None], options: RunOptions) -> str:
    """What is used up must be raised first, or the same command stops at once."""
    spent = sorted(key for key in keys if key is not None)
    return f"Raise {', '.join(spent)} in {options.path}, then go on" if spent else "Go on"


def _document(store: LoopStore, result: RunResult, options: RunOptions) -> dict[str, object]:
    document = run_document(store, result.summary, result.task, _proposals(store, result), options.database)
    return document | {"improve_error": None if result.improve_error is None else str(result.improve_error)}


def _decided(store: LoopStore, result: RunResult, timeout_s: float | None) -> bool:
    """Whether every proposal the report names is decided. Ctrl-C ends the waiting, not what was saved."""
    ids = [proposal.id for proposal in _proposals(store, result)]
    if ids:
        note(f"waiting for a decision on {', '.join(ids)}; Ctrl-C ends the waiting")
    left = wait_for_decisions(store, ids, timeout_s=timeout_s)
    for proposal_id in ids:
        note(f"{proposal_id} is {'still ' if proposal_id in left else ''}{store.proposal(proposal_id).state}")
    return not left

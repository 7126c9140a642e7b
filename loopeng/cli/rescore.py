"""``loopeng rescore``: the stored outputs of a run, judged by the present evaluators."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopeng.cli.options import Db, Json, Quiet

if TYPE_CHECKING:
    from loopeng.cli.progress import Progress
    from loopeng.results import RescoreResult
    from loopeng.schema import Run, Task
    from loopeng.store import LoopStore

__all__ = ["RescoreOptions", "register", "rescore"]

_INTERRUPTED = 130


@dataclass(frozen=True)
class RescoreOptions:
    """The options of ``loopeng rescore``."""

    run: str
    task: Path | None
    resume: bool
    jobs: int | None
    json: bool
    quiet: bool


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(rescore)


def rescore(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id, its unique beginning, or 'latest': the newest suite run.")
    ] = "latest",
    task: Annotated[
        Path | None, typer.Option("--task", metavar="TASK", help="Task file to judge by. Default: that of the run.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the newest rescore that was stopped.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            max=64,
            metavar="N",
            help="Samples judged side by side, each in a thread. Default: one for each of up to 8 cores; 1 where a "
            "Python function of yours judges, which may not be made for several threads.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    db: Db = None,
) -> None:
    """Judge a run's outputs again, without generating: after a change of evaluators, or of expected answers.

    Makes a run of kind rescore, and shows what differs from the original. 'loopeng report' shows the whole of it.

    Exits as 'loopeng run' does: 0 threshold met, 3 below run.min_pass_rate, 4 samples in error, 130 interrupted.

    \b
    Example:
      loopeng rescore latest
      loopeng rescore run-1a2b3c4d --task stricter.yaml
    """
    options = RescoreOptions(run, task, resume, jobs, json, quiet)
    raise typer.Exit(_rescore_and_report(options, db))


def _rescore_and_report(options: RescoreOptions, db: Path | None) -> int:
    from loopeng.api import Loop
    from loopeng.cli.output import note
    from loopeng.cli.places import find_database
    from loopeng.cli.progress import LiveProgress
    from loopeng.cli.run_names import named_run
    from loopeng.settings import read_settings

    database = find_database(db)
    with Loop.open(database) as loop:
        original = named_run(loop.store, options.run, kinds=("suite",))
        if not options.resume:
            _mention_unfinished(loop.store, original.id, options, database)
        with redirect_stdout(sys.stderr):  # the user's modules may print when they are imported
            task = _task(loop.store, original, options.task, database)
        display = LiveProgress(quiet=options.quiet or read_settings().quiet)
        try:
            with display:
                result = loop.rescore(original.id, task, resume=options.resume, jobs=options.jobs, on_event=display)
        except KeyboardInterrupt:
            note(_interruption(display.progress, original.id, options, database))
            return _INTERRUPTED
        _print(loop.store, result, json=options.json)
    return result.exit_code


def _mention_unfinished(store: LoopStore, original: str, options: RescoreOptions, database: Path) -> None:
    """A rescore that was killed could not say how to go on with it."""
    from loopeng.cli.output import note
    from loopeng.rescoring import unfinished_rescore

    run = unfinished_rescore(store, original)
    if run is not None:
        note(f"note: {run.id} was not finished; this is a new rescore. Go on with that one instead:")
        note(f"  {_resume_command(original, options, database)}")


def _interruption(progress: Progress, original: str, options: RescoreOptions, database: Path) -> str:
    run = progress.rescore_run
    if run is None:
        return "interrupted before the rescore began"
    done = f"{progress.num_finished} of {progress.num_samples} samples are judged"
    how = _resume_command(original, options, database)
    return f"interrupted in {run.id}; {done}, everything is saved. Go on with:\n  {how}"


def _resume_command(original: str, options: RescoreOptions, database: Path) -> str:
    from loopeng.cli.places import command

    words = ["rescore", original, "--resume"]
    words += [] if options.task is None else ["--task", str(options.task)]
    words += [] if options.jobs is None else ["--jobs", str(options.jobs)]
    return command(*words, db=database)


def _print(store: LoopStore, result: RescoreResult, *, json: bool) -> None:
    from loopeng.cli.output import note, print_json, print_text
    from loopeng.report.diff_text import diff_document, diff_text

    if result.left_out:
        note(f"left out, gone from the task or with other inputs: {', '.join(result.left_out)}")
    if json:
        document = {"run": result.run, **diff_document(result.diff, {})}
        print_json(document | {"left_out": result.left_out, "exit_code": result.exit_code})
    else:
        print_text(diff_text(result.diff, {}))


def _task(store: LoopStore, original: Run, chosen: Path | None, database: Path) -> Task:
    """The file that was named, else the run's own as it is now, else the task as it was."""
    from loopeng.cli.output import note
    from loopeng.cli.places import found_task_file, from_here, task_file
    from loopeng.rescoring import present_task
    from loopeng.task_file import load_task

    if chosen is not None:
        return load_task(task_file(chosen))
    path = found_task_file(store.task(original.task_hash).path, database)
    if path is not None and path.is_file():
        note(f"judged by {from_here(path)}")
    else:
        note("the task's file is not there any more: judged by the task as it was")
    return present_task(store, original, path)

"""What benches that run a public suite have in common: the suite with another model, and runs that are made once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evals.suites.importing import SUITES
from loopeng import Loop, load_task
from loopeng.attempt.events import ProgressEvent, SampleFinished
from loopeng.schema import Sample, Task

ROOT = Path(__file__).parent.parent.parent


def suite_options(description: str | None, name: str) -> argparse.ArgumentParser:
    """A command line with what all of these benches are asked; ``name`` is that of database and result."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen/Qwen2.5-Coder-0.5B-Instruct", help="folder or name of the model")
    parser.add_argument("--db", type=Path, default=ROOT / ".loopeng" / f"{name}.db", help="what is done already")
    parser.add_argument("--allow-unsandboxed", action="store_true", help="run answers as you where no sandbox works")
    parser.add_argument("--output", type=Path, default=ROOT / "evals" / "results" / f"{name}.json")
    return parser


def suite_task(name: str, model: str, allow_unsandboxed: bool) -> Task:
    """A suite of ``evals/suites`` with the model to measure, and all else as its file says."""
    task = load_task(SUITES / name)
    engine = task.engine.model_copy(update={"model": model})
    box = {"sandbox": {"allow_unsandboxed": allow_unsandboxed}}
    specs = tuple(
        type(spec).model_validate(spec.model_dump(mode="json") | box) if spec.type == "unit_tests" else spec
        for spec in task.evaluators
    )
    return task.model_copy(update={"engine": engine, "evaluators": specs})


def variant(task: Task, name: str, samples: Sequence[Sample], seed: int = 0, **loop_keys: Any) -> Task:
    """The task under another name, with other samples, another seed or other keys of ``loop:``."""
    run = task.run.model_copy(update={"seed": seed})
    return task.model_copy(
        update={"name": name, "samples": tuple(samples), "run": run, "loop": task.loop.model_copy(update=loop_keys)}
    )


def run_once(loop: Loop, task: Task) -> str:
    """The finished run of this very task, model and samples included; made, or gone on with, where there is none."""
    runs = loop.store.runs(task_name=task.name, kind="suite", limit=None)
    finished = [run for run in runs if run.task_hash == task.version_hash and run.status == "finished"]
    if finished:
        return finished[0].id
    print(f"{task.name}: {len(task.samples)} samples", file=sys.stderr)
    stopped = loop.store.resumable_run(task)
    resume = stopped is not None and stopped.task_hash == task.version_hash
    return loop.run(task, improve=False, resume=resume, on_event=_tell).run.id


def _tell(event: ProgressEvent) -> None:
    if isinstance(event, SampleFinished):
        print(f"  {event.result.sample_id}: {event.result.verdict}", file=sys.stderr)

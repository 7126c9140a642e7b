"""The four accuracies of IFEval from what a run stored: prompt and instruction level, strict and loose.

    python -m evals.suites.ifeval.levels [RUN] --db evals/suites/ifeval/.loopeng/loop.db

First attempts count, whatever the task's own mode is: each result keeps both readings. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from loopeng import Loop
from loopeng.errors import LoopError, UsageError
from loopeng.schema import Attempt

DATABASE = Path(__file__).parent / ".loopeng" / "loop.db"
EVALUATOR = "ifeval"  # its id in task.yaml
MODES = ("strict", "loose")


def levels(attempts: Iterable[Attempt], evaluator: str = EVALUATOR) -> dict[str, Any]:
    """Shares of prompts whose instructions are all followed, and of instructions, by mode; None where there are none.

    ``attempts`` may be all of a run: the first of each sample counts. Those in error are left out and counted.
    """
    first = [each for each in attempts if each.attempt_index == 0]
    judged = [found for each in first if (found := _instructions(each, evaluator)) is not None]
    by_id: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in (instruction for prompt in judged for instruction in prompt):
        by_id[each["id"]].append(each)
    instructions = [each for prompt in judged for each in prompt]
    return {
        "prompts": len(judged),
        "instructions": len(instructions),
        "errors": len(first) - len(judged),
        "prompt_level": {mode: _share([all(each[mode] for each in prompt) for prompt in judged]) for mode in MODES},
        "instruction_level": _shares(instructions),
        "by_instruction": {key: {"number": len(by_id[key]), **_shares(by_id[key])} for key in sorted(by_id)},
    }


def _instructions(attempt: Attempt, evaluator: str) -> list[dict[str, Any]] | None:
    """Which instructions a response follows; None where the engine or the evaluator broke."""
    for result in attempt.results:
        if result.evaluator == evaluator and result.error is None:
            return list(result.metadata["instructions"])
    return None


def _shares(instructions: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    return {mode: _share([each[mode] for each in instructions]) for mode in MODES}


def _share(followed: Sequence[bool]) -> float | None:
    return round(sum(followed) / len(followed), 4) if followed else None


def levels_of_run(database: Path, run_id: str | None = None, evaluator: str = EVALUATOR) -> dict[str, Any]:
    """``levels`` of a run in a database: the one named, or the newest of a suite. Raises LoopError."""
    if not database.is_file():
        raise UsageError(f"there is no database {database}: run the suite first, or name another one with --db")
    with Loop.open(database) as loop:
        if run_id is None and not (newest := loop.store.runs(kind="suite", limit=1)):
            raise UsageError(f"{database} has no run of a suite")
        run = loop.store.run(run_id) if run_id is not None else newest[0]
        return {"run": run.id, "status": run.status, **levels(loop.store.attempts(run.id), evaluator)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", help="id of a run, or its beginning; default: the newest")
    parser.add_argument("--db", type=Path, default=DATABASE, help="default: the suite's own")
    parser.add_argument("--evaluator", default=EVALUATOR, help="id of the evaluator in the task file")
    options = parser.parse_args(arguments)
    try:
        print(json.dumps(levels_of_run(options.db, options.run, options.evaluator)))
    except LoopError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

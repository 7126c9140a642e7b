"""What speculation saves where a model is measured as a user would: HumanEval with drafts and without.

    python -m evals.bench.humaneval --model ~/models/qwen2.5-coder-0.5b-instruct [--limit 40]

The first ``--limit`` samples of the suite, each under both arms in turn, so that both meet the same machine. Told per
arm: the share that passes at the first attempt and within three, and seconds (of generating and of judging) and decode
passes of the target per solved sample, with 95 % intervals over samples; and the ratio of both arms. Drafts change no
text: the arms must agree in every attempt, else the exit status is 1. What is done stays in ``--db``, and the same
command goes on where it was stopped. The samples must have been imported: see ``evals.suites.importing``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evals.bench.machine import machine, model_name
from evals.bench.suite_runs import run_once, suite_options, suite_task, variant
from evals.bench.timing import bootstrap, rotated
from loopeng import Loop
from loopeng.errors import LoopError
from loopeng.run_statistics import Cluster, clustered_interval
from loopeng.schema import Task

DRAFTERS = ("auto", "none")


@dataclass(frozen=True)
class Measured:
    """One sample under one arm, its attempts together."""

    first: bool
    solved: bool
    texts: tuple[str, ...]
    time_s: float
    num_passes: int
    num_tokens: int


def measured(loop: Loop, task: Task, index: int, drafter: str) -> Measured:
    """The task's sample number ``index`` under one arm, made once."""
    arm = task.model_copy(update={"engine": task.engine.model_copy(update={"drafter": drafter})})
    run_id = run_once(loop, variant(arm, f"{task.name}-{drafter}-{index}", task.samples[index : index + 1]))
    (result,) = loop.store.sample_results(run_id)
    if "error" in (result.first_verdict, result.verdict):
        raise LoopError(f"{result.sample_id} ended in error with drafter {drafter!r}: nothing was measured")
    attempts = loop.store.attempts(run_id, result.sample_id)
    judging_s = sum(each.latency_s for attempt in attempts for each in attempt.results)
    return Measured(
        first=result.first_verdict == "pass",
        solved=result.verdict == "pass",
        texts=tuple(each.text for each in attempts),
        time_s=judging_s + sum(each.latency_s for each in attempts),
        num_passes=sum(each.usage.decode_passes for each in attempts),
        num_tokens=sum(each.usage.generated_tokens for each in attempts),
    )


def per_solved(values: Sequence[tuple[float, bool]]) -> float:
    """The sum of the values over the number solved; infinite where none is."""
    solved = sum(is_solved for _, is_solved in values)
    return sum(value for value, _ in values) / solved if solved else float("inf")


def summarise(arm: Sequence[Measured]) -> dict[str, Any]:
    """Rates and costs of one arm."""
    return {
        "num_samples": len(arm),
        "passed_at_first": _rate([each.first for each in arm]),
        "solved_within_three": _rate([each.solved for each in arm]),
        "seconds_per_solved": _cost(arm, lambda each: each.time_s),
        "passes_per_solved": _cost(arm, lambda each: each.num_passes),
        "tokens_per_solved": _cost(arm, lambda each: each.num_tokens),
    }


def _rate(passed: Sequence[bool]) -> dict[str, float]:
    low, high = clustered_interval([Cluster(each, 1) for each in passed])
    return {"passed": sum(passed), "rate": sum(passed) / len(passed), "low": round(low, 3), "high": round(high, 3)}


def _cost(arm: Sequence[Measured], value: Callable[[Measured], float]) -> dict[str, float]:
    values = [(value(each), each.solved) for each in arm]
    low, high = bootstrap(values, per_solved)
    return {"value": round(per_solved(values), 2), "low": round(low, 2), "high": round(high, 2)}


def gain(without: Sequence[Measured], drafting: Sequence[Measured], value: Callable[[Measured], float]) -> Any:
    """How many times as much the arm without drafts costs in all, with its interval over samples."""

    def ratio(pairs: Sequence[tuple[float, float]]) -> float:
        return sum(plain for plain, _ in pairs) / sum(drafted for _, drafted in pairs)

    pairs = [(value(plain), value(drafted)) for plain, drafted in zip(without, drafting, strict=True)]
    low, high = bootstrap(pairs, ratio)
    return {"ratio": round(ratio(pairs), 3), "low": round(low, 3), "high": round(high, 3)}


def measure(loop: Loop, task: Task, limit: int) -> dict[str, Any]:
    """Both arms on the first samples, each arm first in its turn."""
    rows: dict[str, list[Measured]] = {drafter: [] for drafter in DRAFTERS}
    for index in range(min(limit, len(task.samples))):
        for drafter in rotated(DRAFTERS, index):
            rows[drafter].append(measured(loop, task, index, drafter))
    drafting, without = rows["auto"], rows["none"]
    return {
        "arms": {"drafter auto": summarise(drafting), "drafter none": summarise(without)},
        "texts_equal": sum(a.texts == b.texts for a, b in zip(drafting, without, strict=True)),
        "without_drafts_over_with": {
            "seconds": gain(without, drafting, lambda each: each.time_s),
            "passes": gain(without, drafting, lambda each: each.num_passes),
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = suite_options(__doc__, "humaneval")
    parser.add_argument("--limit", type=int, default=40, help="how many of the first samples")
    parsed = parser.parse_args(arguments)
    try:
        parsed.db.parent.mkdir(parents=True, exist_ok=True)
        with Loop.open(parsed.db) as loop:
            task = suite_task("humaneval", parsed.model, parsed.allow_unsandboxed)
            result = measure(loop, task, parsed.limit)
    except LoopError as error:
        print(error, file=sys.stderr)
        return 2
    result = {
        "model": model_name(parsed.model),
        "max_attempts": task.loop.max_attempts,
        "retry": task.retry,
        "temperatures": task.loop.temperatures,
        **result,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        **machine(),
    }
    parsed.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))
    return 0 if result["texts_equal"] == min(parsed.limit, len(task.samples)) else 1


if __name__ == "__main__":
    sys.exit(main())

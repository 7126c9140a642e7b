"""How many trivial test runs the sandbox makes in a second, tier by tier.

    python -m evals.bench.sandbox [--runs 100] [--repeats 5] [--output evals/results/sandbox.json]

The tiers that work here take turns, ``--repeats`` times; told is the median, with the slowest and fastest turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evals.bench.machine import machine
from loopeng.sandbox import MAX_SIDE_BY_SIDE, SandboxJob, choose_tier, plan_tests, run_many, tier_states

ROOT = Path(__file__).parent.parent.parent
CODE = "def double(value):\n    return 2 * value\n"
TESTS = "assert double(2) == 4\nassert double([1]) == [1, 1]\nassert double('a') == 'aa'"


def runs_per_second(name: str, num_runs: int, image: str) -> float:
    """One turn of a tier. Raises SystemExit where a run does not pass."""
    tier = choose_tier(name, allow_unsandboxed=True, image=image)  # type: ignore[arg-type]
    job = SandboxJob(CODE, plan_tests(TESTS))
    started = time.perf_counter()
    reports = run_many([job] * num_runs, tier, image=image)
    took_s = time.perf_counter() - started
    if not all(report.passed for report in reports):
        raise SystemExit(f"{name}: not every run passed")
    return num_runs / took_s


def measure(num_runs: int, num_repeats: int, image: str) -> dict[str, Any]:
    """Every tier: what it does in a second, or why it is not here."""
    states = tier_states(image)
    rates: dict[str, list[float]] = {name: [] for name, problem in states.items() if problem is None}
    for _ in range(num_repeats):
        for name, found in rates.items():
            found.append(runs_per_second(name, num_runs, image))
    return {name: _told(rates[name]) if problem is None else {"not_here": problem} for name, problem in states.items()}


def _told(rates: Sequence[float]) -> dict[str, float]:
    return {
        "runs_per_second": round(statistics.median(rates), 1),
        "slowest": round(min(rates), 1),
        "fastest": round(max(rates), 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="of one turn")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each tier")
    parser.add_argument("--image", default="python:3.12-slim", help="for the container tier")
    parser.add_argument("--output", type=Path, default=ROOT / "evals" / "results" / "sandbox.json")
    parsed = parser.parse_args(arguments)
    result = {
        "tiers": measure(parsed.runs, parsed.repeats, parsed.image),
        "num_runs": parsed.runs,
        "num_repeats": parsed.repeats,
        "side_by_side": MAX_SIDE_BY_SIDE,
        "num_cpus": os.cpu_count(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        **machine(),
    }
    parsed.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

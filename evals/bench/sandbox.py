"""How many trivial test runs the sandbox makes in a second, tier by tier; ends with one line of JSON.

python evals/bench/sandbox.py --runs 100
"""

from __future__ import annotations

import argparse
import json
import os
import time

from loopeng.sandbox import MAX_SIDE_BY_SIDE, SandboxJob, choose_tier, plan_tests, run_many, tier_states

CODE = "def double(value):\n    return 2 * value\n"
TESTS = "assert double(2) == 4\nassert double([1]) == [1, 1]\nassert double('a') == 'aa'"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--image", default="python:3.12-slim", help="for the container tier")
    arguments = parser.parse_args()
    job = SandboxJob(CODE, plan_tests(TESTS))
    rates: dict[str, float | str] = {}
    for name, problem in tier_states(arguments.image).items():
        if problem is not None:
            rates[name] = problem
            print(f"{name:<12} not here: {problem}")
            continue
        tier = choose_tier(name, allow_unsandboxed=True, image=arguments.image)  # type: ignore[arg-type]
        started = time.perf_counter()
        reports = run_many([job] * arguments.runs, tier, image=arguments.image)
        rates[name] = round(arguments.runs / (time.perf_counter() - started), 1)
        if not all(report.passed for report in reports):
            print(f"{name}: not every run passed")
            return 1
        print(f"{name:<12} {rates[name]} runs per second")
    print(
        json.dumps({"runs": arguments.runs, "cpus": os.cpu_count(), "side_by_side": MAX_SIDE_BY_SIDE, "rates": rates})
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

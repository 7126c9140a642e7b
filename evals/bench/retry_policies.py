"""Which retry policy solves most: resample, feedback, critique and escalate on the same failures.

    python -m evals.bench.retry_policies --model ~/models/qwen2.5-coder-0.5b-instruct [--failures 20] [--seeds 2]

Samples of HumanEval and MBPP, or of other ``--suites``, that fail at a greedy first attempt are tried again under each
policy, up to three attempts, at the temperatures of the suites. Samples are chosen far apart; the same ones, seeds and
temperatures for all. What is done stays in ``--db``: the same command goes on where it was stopped; another model, or
other failures, is another measurement.

Told per policy: how many (sample, seed) pairs were solved, and the tokens (prompt and answer) that retries cost per
solved pair, with 95 % intervals over samples; and exact p values of each policy against the best. Pairs that could not
be judged, and those that passed when their first attempt was made once more, say nothing of a retry: they are counted
apart. The suites' samples must have been imported: see ``evals.suites.importing``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal, get_args

from evals.bench.machine import machine, model_name
from evals.bench.suite_runs import run_once, suite_options, suite_task, variant
from evals.bench.timing import bootstrap
from loopeng import Loop
from loopeng.errors import LoopError
from loopeng.run_statistics import Cluster, PairedCluster, clustered_interval, two_sided_p
from loopeng.schema import Sample, SampleResult, Task
from loopeng.schema.sections import RetryName

STRIDE = 37  # at least so far apart in the file are samples that follow each other
P_NOTE = "exact, two-sided, against the policy that turned out best; nothing is corrected for choosing it afterwards"


@dataclass(frozen=True)
class Tried:
    """One failing sample under one policy and seed. Tokens are those of the retries, prompts included.

    ``dropped`` is why it says nothing of the policy; None where it does.
    """

    sample_id: str
    seed: int
    solved: bool
    num_tokens: int
    num_attempts: int
    dropped: Literal["in error", "passed at first"] | None = None


def far_apart(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Every sample once, neighbours far apart."""
    number = len(samples)
    stride = next(each for each in count(STRIDE) if math.gcd(each, number) == 1)
    return tuple(samples[index * stride % number] for index in range(number))


def failing(loop: Loop, task: Task, wanted: int, most: int) -> Task:
    """The task with the first ``wanted`` samples that a greedy first attempt does not solve, of ``most`` tried."""
    first = variant(task, f"{task.name}-first", far_apart(task.samples)[:most], max_attempts=1)
    run_id = run_once(loop, first)
    failed = {each.sample_id for each in loop.store.sample_results(run_id) if each.first_verdict == "fail"}
    return task.model_copy(update={"samples": tuple(each for each in first.samples if each.id in failed)[:wanted]})


def tried(loop: Loop, task: Task, policy: RetryName, seed: int) -> list[Tried]:
    """Every sample of the task under one policy and seed."""
    run_id = run_once(loop, variant(task, f"{task.name}-{policy}-{seed}", task.samples, retry=policy, seed=seed))
    found = []
    for result in loop.store.sample_results(run_id):
        attempts = loop.store.attempts(run_id, result.sample_id)
        tokens = sum(each.usage.total_tokens for each in attempts if each.attempt_index)
        name, solved = f"{task.name}/{result.sample_id}", result.verdict == "pass"
        found.append(Tried(name, seed, solved, tokens, len(attempts), _why_dropped(result)))
    return found


def _why_dropped(result: SampleResult) -> Literal["in error", "passed at first"] | None:
    if "error" in (result.first_verdict, result.verdict):
        return "in error"
    return "passed at first" if result.first_verdict == "pass" else None


def summarise(by_policy: dict[str, list[Tried]]) -> dict[str, Any]:
    """Solved pairs and tokens per solved pair of each policy, the best first; p of each against the best."""
    told = {policy: [each for each in pairs if each.dropped is None] for policy, pairs in by_policy.items()}
    order = sorted(told, key=lambda policy: (-_rate(told[policy]), _tokens(told[policy])))
    best = told[order[0]]
    return {
        policy: {
            **_of_policy(told[policy]),
            "num_in_error": _dropped(by_policy[policy], "in error"),
            "num_passed_at_first": _dropped(by_policy[policy], "passed at first"),
            "p_against_best": None if policy == order[0] else two_sided_p(_paired(told[policy], best)),
        }
        for policy in order
    }


def _of_policy(pairs: list[Tried]) -> dict[str, Any]:
    clusters = [Cluster(sum(each.solved for each in group), len(group)) for group in _groups(pairs).values()]
    return {
        "num_pairs": len(pairs),
        "num_solved": _solved(pairs),
        "solved_rate_interval": [round(limit, 3) for limit in clustered_interval(clusters)],
        "retry_tokens": _tokens(pairs),
        "tokens_per_solved": _per_solved(pairs),
        "tokens_per_solved_interval": _bootstrapped(pairs),
        "num_attempts": sum(each.num_attempts for each in pairs),
    }


def _groups(pairs: Sequence[Tried]) -> dict[str, list[Tried]]:
    groups: dict[str, list[Tried]] = {}
    for each in pairs:
        groups.setdefault(each.sample_id, []).append(each)
    return groups


def _paired(before: list[Tried], after: list[Tried]) -> list[PairedCluster]:
    """By sample, the pairs that both have."""
    theirs = {(each.sample_id, each.seed): each.solved for each in after}
    both = [each for each in before if (each.sample_id, each.seed) in theirs]
    return [
        PairedCluster(
            sum(each.solved for each in group), sum(theirs[each.sample_id, each.seed] for each in group), len(group)
        )
        for group in _groups(both).values()
    ]


def _dropped(pairs: Sequence[Tried], why: str) -> int:
    return sum(each.dropped == why for each in pairs)


def _rate(pairs: Sequence[Tried]) -> float:
    return _solved(pairs) / len(pairs) if pairs else 0.0


def _solved(pairs: Sequence[Tried]) -> int:
    return sum(each.solved for each in pairs)


def _tokens(pairs: Sequence[Tried]) -> int:
    return sum(each.num_tokens for each in pairs)


def _per_solved(pairs: Sequence[Tried]) -> float | None:
    return round(_tokens(pairs) / _solved(pairs), 1) if _solved(pairs) else None


def _bootstrapped(pairs: list[Tried]) -> list[float | None]:
    """95 % interval of tokens per solved pair, samples drawn anew; no upper end where a draw may solve nothing."""

    def per_solved(drawn: Sequence[list[Tried]]) -> float:
        return _per_solved([each for group in drawn for each in group]) or math.inf

    groups = list(_groups(pairs).values())
    return [None if math.isinf(limit) else limit for limit in bootstrap(groups, per_solved)] if groups else [None, None]


def measure(loop: Loop, arguments: argparse.Namespace) -> dict[str, Any]:
    """All policies on the failures of both suites."""
    suites = [suite_task(name, arguments.model, arguments.allow_unsandboxed) for name in arguments.suites.split(",")]
    tasks = [failing(loop, task, arguments.failures, arguments.most) for task in suites]
    policies: tuple[RetryName, ...] = get_args(RetryName)
    by_policy: dict[str, list[Tried]] = {policy: [] for policy in policies}
    for seed in range(arguments.seeds):
        for task in tasks:
            for policy in policies:
                if task.samples:
                    by_policy[policy] += tried(loop, task, policy, seed)
    if not any(by_policy.values()):
        raise LoopError("no sample failed at its first attempt: there is nothing to try again")
    return {
        "model": model_name(arguments.model),
        "num_failures": {task.name: len(task.samples) for task in tasks},
        "num_seeds": arguments.seeds,
        "temperatures": suites[0].loop.temperatures,
        "policies": summarise(by_policy),
        "p_values": P_NOTE,
        "samples": sorted({each.sample_id for each in by_policy["resample"]}),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        **machine(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = suite_options(__doc__, "retry_policies")
    parser.add_argument("--suites", default="humaneval,mbpp", help="folders of evals/suites")
    parser.add_argument("--failures", type=int, default=20, help="failing samples of each suite")
    parser.add_argument("--most", type=int, default=60, help="samples of each suite to look for them")
    parser.add_argument("--seeds", type=int, default=2)
    parsed = parser.parse_args(arguments)
    try:
        parsed.db.parent.mkdir(parents=True, exist_ok=True)
        with Loop.open(parsed.db) as loop:
            result = measure(loop, parsed)
    except LoopError as error:
        print(error, file=sys.stderr)
        return 2
    parsed.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Record answers of a model that fail their tests: what the bench's retries are built from.

    python -m evals.bench.make_retries --model FOLDER [--failures 12] [--problems 80]

HumanEval problems are answered greedily, evenly chosen ones first, until enough answers have failed. An answer that was
cut off is no failure of this kind and is left out. Each failure is one line of ``evals/bench/retries/failures.jsonl``:
the problem's id, the model, its text, and why the tests refused it. Lines of other models stay as they are.

The tests run generated code with your rights: see ``decode_humaneval``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from evals.bench.decode_data import FAILURES, read_jsonl
from evals.bench.decode_humaneval import instruction, why_it_fails
from evals.bench.decode_options import data_folder
from evals.bench.machine import model_name
from evals.bench.status import status_of
from specdec_core.engine import Engine, load_engine
from specdec_core.sampling import SamplingParams
from specdec_core.types import GenerationRequest

MAX_TOKENS = 200
STRIDE = 37  # coprime to the number of problems: every problem once, neighbours far apart


def scattered(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All problems, each far from the one before."""
    return [problems[index * STRIDE % len(problems)] for index in range(len(problems))]


def failures(engine: Engine, problems: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Answers that ended by themselves and fail."""
    for number, problem in enumerate(problems, start=1):
        request = GenerationRequest(
            messages=({"role": "user", "content": instruction(problem)},),
            sampling=SamplingParams(max_tokens=MAX_TOKENS),
        )
        output = engine.generate(request)
        whole = output.finish_reason == "stop"
        reason = why_it_fails(problem, output.text) if whole else None
        said = reason or ("passed" if whole else "cut off")
        print(f"{number} {problem['task_id']}: {said}", file=sys.stderr)
        if reason is not None:
            model = engine.model.name
            yield {"task_id": problem["task_id"], "model": model, "text": output.text, "reason": reason}


def record(path: Path, model: str, found: Iterator[dict[str, str]], number: int) -> int:
    """Put ``number`` failures of ``model`` in the place of its old ones; how many there were."""
    kept = [row for row in read_jsonl(path) if row["model"] != model] if path.exists() else []
    fresh: list[dict[str, str]] = []
    for row in found:
        fresh.append(row)
        beside = path.with_suffix(".part")
        beside.write_text("".join(json.dumps(line) + "\n" for line in [*kept, *fresh]), encoding="utf-8")
        os.replace(beside, path)
        if len(fresh) == number:
            break
    return len(fresh)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or name of the model")
    parser.add_argument("--failures", type=int, default=12, help="how many to record")
    parser.add_argument("--problems", type=int, default=80, help="how many problems to try at most")
    parser.add_argument("--threads", type=int, help="torch threads")
    parser.add_argument("--data", type=Path, help="folder of humaneval.jsonl (else SPECDEC_BENCH_DATA)")
    parser.add_argument("--output", type=Path, default=FAILURES)
    parsed = parser.parse_args(arguments)
    return status_of(lambda: run(parsed))


def run(arguments: argparse.Namespace) -> int:
    """Record failures; 1 where the model has none."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    problems = scattered(read_jsonl(data_folder(arguments.data) / "humaneval.jsonl"))[: arguments.problems]
    engine = load_engine(arguments.model)
    model = model_name(arguments.model)
    number = record(arguments.output, model, failures(engine, problems), arguments.failures)
    print(json.dumps({"model": model, "num_failures": number}))
    return 0 if number else 1


if __name__ == "__main__":
    sys.exit(main())

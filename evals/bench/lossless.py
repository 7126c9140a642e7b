"""Speculative ids are plain ids: every prompt of Spec-Bench, greedy and sampled, in bitwise exactness.

    python -m evals.bench.lossless [--resume] [--shard 1/2]
    python -m evals.bench.lossless --report evals/results/lossless-1-of-2.jsonl evals/results/lossless-2-of-2.jsonl

Each prompt (a first turn) is answered by the null drafter and by the default one, greedily and at temperature 0.8 with
a seed of its own. Lengths are compared first, then ids. A row a prompt and sampling is on the disk before the next one
is made. The exit status is 1 where texts differ, where prompts are missing, or where no draft was ever accepted, for
then nothing was shown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evals.bench.checkpoint import Checkpoint, CheckpointError, checkpoint, read_checkpoint
from evals.bench.decode_data import read_jsonl
from evals.bench.decode_options import ROOT, data_folder
from evals.bench.status import status_of
from specdec_core.sequences import first_difference

RESULTS = ROOT / "evals" / "results"
KEY = ("question_id", "temperature")
TEMPERATURES = (0.0, 0.8)


def shard(text: str) -> tuple[int, int]:
    """(which, of how many) from "1/2". Raises ValueError."""
    which, of = map(int, text.split("/"))
    if not 1 <= which <= of:
        raise ValueError(f"{text!r} is no shard")
    return which, of


def measure(model: str, questions: Sequence[dict[str, Any]], max_tokens: int, rows: Checkpoint) -> None:
    """Answer what is missing, each prompt four times in a row: where prompts are kept, it is read once."""
    from specdec_core.engine import Engine, load_engine
    from specdec_core.sampling import SamplingParams
    from specdec_core.types import GenerationRequest

    speculative = load_engine(model, exactness="bitwise")
    plain = Engine(speculative.model, drafter="none")
    for number, question in enumerate(questions, start=1):
        for temperature in TEMPERATURES:
            if (question["question_id"], temperature) in rows:
                continue
            sampling = SamplingParams(temperature=temperature, seed=question["question_id"], max_tokens=max_tokens)
            messages = ({"role": "user", "content": question["turns"][0]},)
            request = GenerationRequest(messages=messages, sampling=sampling)
            theirs, ours = plain.generate(request), speculative.generate(request)
            rows.add(
                {
                    "question_id": question["question_id"],
                    "temperature": temperature,
                    "plain_ids": list(theirs.token_ids),
                    "speculative_ids": list(ours.token_ids),
                    "num_accepted_tokens": ours.stats.num_accepted_tokens,
                    "num_decode_passes": ours.stats.num_decode_passes,
                }
            )
        print(f"{number}/{len(questions)}", file=sys.stderr)


def summarise(rows: Sequence[dict[str, Any]], settings: dict[str, Any]) -> dict[str, Any]:
    """How many texts are equal, and where the others begin to differ."""
    equal = {str(temperature): 0 for temperature in settings["temperatures"]}
    unequal = []
    for row in rows:
        ours, theirs = row["speculative_ids"], row["plain_ids"]
        if len(ours) == len(theirs) and ours == theirs:
            equal[str(row["temperature"])] += 1
        else:
            lengths = {"plain": len(theirs), "speculative": len(ours)}
            found = {"question_id": row["question_id"], "temperature": row["temperature"], "lengths": lengths}
            unequal.append(found | {"first_difference": first_difference(theirs, ours)})
    wanted = {(question_id, value) for question_id in settings["prompts"] for value in settings["temperatures"]}
    return {
        "num_equal": equal,
        "num_prompts": len(settings["prompts"]),
        "num_missing": len(wanted - {(row["question_id"], row["temperature"]) for row in rows}),
        "unequal": unequal,
        "num_tokens": sum(len(row["speculative_ids"]) for row in rows),
        "num_accepted_tokens": sum(row["num_accepted_tokens"] for row in rows),
        "num_decode_passes": sum(row["num_decode_passes"] for row in rows),
    }


def merged(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of all shards with the settings they share. Raises CheckpointError where these differ."""
    settings: dict[str, Any] = {}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in paths:
        found, lines = read_checkpoint(path)
        prompts = [*settings.get("prompts", []), *found.pop("prompts")]
        if settings and {**settings, "prompts": None} != {**found, "prompts": None}:
            raise CheckpointError(f"{path} was made under other settings than {paths[0]}")
        settings = {**found, "prompts": prompts}
        rows |= {tuple(line[name] for name in KEY): line for line in lines}
    return list(rows.values()), settings


def report(rows: Sequence[dict[str, Any]], settings: dict[str, Any], output: Path) -> int:
    """Write and print the summary; the exit status."""
    summary = summarise(rows, settings) | {"settings": settings, "date": datetime.now(UTC).strftime("%Y-%m-%d")}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(summary))
    return 1 if summary["unequal"] or summary["num_missing"] or not summary["num_accepted_tokens"] else 0


def run(arguments: argparse.Namespace) -> int:
    import torch

    from evals.bench.machine import machine, model_name

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    which, of = arguments.shard
    questions = read_jsonl(data_folder(arguments.data) / "spec_bench.jsonl")[which - 1 :: of][: arguments.limit]
    settings = {
        "model": model_name(arguments.model),
        "temperatures": list(TEMPERATURES),
        "seed": "the question's id",
        "max_tokens": arguments.max_tokens,
        "prompts": [question["question_id"] for question in questions],
        **machine(),
    }
    name = "lossless" if of == 1 else f"lossless-{which}-of-{of}"
    path = arguments.checkpoint or RESULTS / f"{name}.jsonl"
    with checkpoint(path, settings, KEY, resume=arguments.resume) as rows:
        measure(arguments.model, questions, arguments.max_tokens, rows)
    return report(rows.rows, settings, arguments.output or RESULTS / f"{name}.json")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", help="name or folder")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="every N-th prompt from the I-th on")
    parser.add_argument("--limit", type=int, help="so many prompts at most")
    parser.add_argument("--resume", action="store_true", help="go on with the checkpoint")
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's)")
    parser.add_argument("--data", type=Path, help="folder of spec_bench.jsonl (else SPECDEC_BENCH_DATA)")
    parser.add_argument("--checkpoint", type=Path, help="default: evals/results/lossless.jsonl, or one a shard")
    parser.add_argument("--output", type=Path, help="default: the checkpoint's place, .json")
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE", help="only summarise these checkpoints")
    parsed = parser.parse_args(arguments)
    output = parsed.output or RESULTS / "lossless.json"
    return status_of(lambda: report(*merged(parsed.report), output) if parsed.report else run(parsed))


if __name__ == "__main__":
    sys.exit(main())

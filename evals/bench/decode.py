"""Speed of decoding beside transformers, in one process, on the same ids: Spec-Bench, HumanEval, edits and retries.

    python -m evals.bench.decode [--model FOLDER ...] [--only humaneval,edits] [--resume] [--full]
    python -m evals.bench.decode --report evals/results/decode.jsonl

The first model gets every part, further ones Spec-Bench alone. The arms take turns prompt by prompt in rotated order,
so that a change of the machine's speed hits all alike. Each row is on the disk before the next one is made;
``--resume`` goes on after a kill, ``--report`` makes the summary again without a model. Ids of the bitwise arms are
compared before any time is looked at: where they differ the exit status is 1 and no speeds are told.

Spec-Bench and HumanEval are read from the folder of --data or SPECDEC_BENCH_DATA. The summary goes to
``evals/results/decode.json`` and, as the last line, to standard output.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evals.bench.checkpoint import Checkpoint, checkpoint, read_checkpoint
from evals.bench.decode_data import WorkItem, work_items
from evals.bench.decode_options import DEFAULT_SIZE, FULL_SIZE, PARTS, ROOT, Size, data_folder
from evals.bench.decode_rows import KEY, Row, rows_of
from evals.bench.decode_summary import summarise
from evals.bench.machine import machine, model_name
from evals.bench.status import status_of
from evals.bench.timing import rotated

RESULTS = ROOT / "evals" / "results"
DEFAULT_MODELS = ["Qwen/Qwen2.5-Coder-1.5B-Instruct", "smollm2-135m"]
DEFAULT_ASSISTANT = "Qwen/Qwen2.5-Coder-0.5B-Instruct"


def chosen_items(arguments: argparse.Namespace, size: Size) -> dict[str, list[WorkItem]]:
    """Model reference -> prompts: all parts for the first one, Spec-Bench for the others; at most --limit a part."""
    found = {}
    folder = data_folder(arguments.data)
    for number, reference in enumerate(arguments.model):
        parts = arguments.only if number == 0 else [part for part in arguments.only if part == "spec-bench"]
        items = work_items(folder, size, model_name(reference), parts)
        found[reference] = [
            replace(item, max_tokens=min(item.max_tokens, arguments.max_tokens or item.max_tokens))
            for part in parts
            for item in [item for item in items if item.part == part][: arguments.limit]
        ]
    return found


def missing_rows(
    items: list[WorkItem], model: str, names: list[str], size: Size, done: Checkpoint
) -> Iterator[tuple[WorkItem, str, int]]:
    """(item, arm, repetition) of every row that is not there yet, in the order in which it is to be made."""
    from evals.bench.decode_arms import arms_for

    number = 0
    for repetition in range(size.num_repetitions):
        for item in items:
            for arm in rotated(arms_for(item, names, all_arms=size.all_arms), number):
                if (model, item.id, arm, repetition) not in done:
                    yield item, arm, repetition
            number += 1


def measure(reference: str, items: list[WorkItem], size: Size, assistant: str | None, rows: Checkpoint) -> None:
    """Make every row of one model that is missing."""
    from evals.bench.decode_arms import build_arms

    model = model_name(reference)
    arms = build_arms(reference, assistant)
    names = list(arms.by_name)
    missing = list(missing_rows(items, model, names, size, rows))
    if missing:
        warm_up = replace(arms.prompt(items[0]), max_tokens=4)
        for name in dict.fromkeys(arm for _, arm, _ in missing):  # first calls allocate
            arms.by_name[name](warm_up)
    for number, (item, arm, repetition) in enumerate(missing, start=1):
        prompt = arms.prompt(item)
        measured = arms.by_name[arm](prompt)
        repeats = None
        if item.earlier_answer is not None:
            repeats = arms.tokenizer.decode(measured.token_ids).strip() == item.earlier_answer.strip()
        row = Row(
            model=model,
            item=item.id,
            part=item.part,
            category=item.category,
            arm=arm,
            repetition=repetition,
            num_prompt_tokens=len(prompt.token_ids),
            repeats_earlier_answer=repeats,
            **asdict(measured),
        )
        rows.add(asdict(row))
        speed = len(measured.token_ids) / measured.time_s
        print(f"{model} {number}/{len(missing)} {item.id} {arm}: {speed:.1f} tokens/s", file=sys.stderr)


def settings_of(arguments: argparse.Namespace, size: Size, items: dict[str, list[WorkItem]]) -> dict[str, Any]:
    """Everything that rows of one run must have in common."""
    return {
        "models": [model_name(reference) for reference in items],
        "assistant": arguments.assistant and model_name(arguments.assistant),
        "size": asdict(size),
        "max_tokens": arguments.max_tokens,
        "prompts": {model_name(reference): [item.id for item in chosen] for reference, chosen in items.items()},
        "sampling": "greedy, so without a seed; prompts are chosen evenly; bootstrap seed 0",
        **machine(),
    }


def report(settings: dict[str, Any], rows: list[Row], output: Path) -> int:
    """Write and print the summary; the exit status."""
    summary = summarise(rows) | {"settings": settings, "date": datetime.now(UTC).strftime("%Y-%m-%d")}
    for difference in summary["unequal"]:
        print(f"unequal: {json.dumps(difference)}", file=sys.stderr)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(summary))
    return 1 if summary["unequal"] else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help=f"folder or name, more than once (default: {DEFAULT_MODELS})")
    parser.add_argument("--assistant", help="of assisted generation, for the first model; 'none' leaves it out")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, with commas: {', '.join(PARTS)}")
    parser.add_argument("--limit", type=int, help="prompts of each part at most")
    parser.add_argument("--max-tokens", type=int, help="tokens of each answer at most")
    parser.add_argument("--full", action="store_true", help="the table of a release: hours")
    parser.add_argument("--resume", action="store_true", help="go on with the checkpoint")
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's)")
    parser.add_argument("--data", type=Path, help="folder of spec_bench.jsonl and humaneval.jsonl")
    parser.add_argument("--checkpoint", type=Path, default=RESULTS / "decode.jsonl")
    parser.add_argument("--output", type=Path, default=RESULTS / "decode.json")
    parser.add_argument("--report", type=Path, metavar="FILE", help="only summarise this checkpoint")
    parsed = parser.parse_args(arguments)
    if parsed.assistant is None and parsed.model is None:
        parsed.assistant = DEFAULT_ASSISTANT
    parsed.model = parsed.model or DEFAULT_MODELS
    parsed.assistant = None if parsed.assistant == "none" else parsed.assistant
    parsed.only = [part.strip() for part in parsed.only.split(",")]
    if unknown := set(parsed.only) - set(PARTS):
        parser.error(f"unknown parts {sorted(unknown)}; known: {', '.join(PARTS)}")
    return parsed


def run(arguments: argparse.Namespace) -> int:
    import torch

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    size = FULL_SIZE if arguments.full else DEFAULT_SIZE
    items = chosen_items(arguments, size)
    settings = settings_of(arguments, size, items)
    with checkpoint(arguments.checkpoint, settings, KEY, resume=arguments.resume) as rows:
        for number, (reference, chosen) in enumerate(items.items()):
            if chosen:
                measure(reference, chosen, size, arguments.assistant if number == 0 else None, rows)
                gc.collect()  # two large models at once may not fit
    return report(settings, rows_of(rows.rows), arguments.output)


def report_again(arguments: argparse.Namespace) -> int:
    """The summary of a checkpoint, without a model."""
    settings, lines = read_checkpoint(arguments.report)
    return report(settings, rows_of(lines), arguments.output)


def main(arguments: list[str] | None = None) -> int:
    parsed = parse(arguments)
    return status_of(lambda: report_again(parsed) if parsed.report else run(parsed))


if __name__ == "__main__":
    sys.exit(main())

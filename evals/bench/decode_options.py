"""Names of parts and arms, where the bench finds its data, and how many prompts it asks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DATA_VARIABLE = "SPECDEC_BENCH_DATA"
DATA_FILES = ("spec_bench.jsonl", "humaneval.jsonl")
PARTS = ("spec-bench", "humaneval", "whole", "edits", "retries")

GREEDY, ASSISTED = "transformers-greedy", "transformers-assisted"
LOOKUP_LENGTHS = (5, 10, 20)  # prompt_lookup_num_tokens, an arm each
PLAIN_1 = "plain-1"  # our passes of one row, law exactness
PLAIN_W = "plain-W"  # bitwise passes without drafts
SPECULATIVE, WITHOUT_REFERENCES = "speculative", "speculative-without-references"
BITWISE_ARMS = (PLAIN_W, SPECULATIVE, WITHOUT_REFERENCES)  # the same ids, or the engine is wrong
CORE_ARMS = (GREEDY, PLAIN_1, PLAIN_W, SPECULATIVE)


@dataclass(frozen=True)
class Size:
    """How many prompts of each part, and how many tokens each."""

    per_category: int  # of Spec-Bench's thirteen
    spec_bench_tokens: int
    num_humaneval: int
    num_whole: int
    num_edits: int
    num_failures: int  # of the model's own; each makes a feedback and a critique retry
    num_repetitions: int
    all_arms: bool  # on every part; else those that `decode_arms.arms_for` names
    humaneval_tokens: int = 128
    whole_tokens: int = 400
    edit_tokens: int = 900
    retry_tokens: int = 200


DEFAULT_SIZE = Size(2, 32, 6, 4, 4, 3, 1, all_arms=False)  # about an hour and a half on two cores
FULL_SIZE = Size(10, 128, 24, 24, 10, 14, 3, all_arms=True)  # the table of a release; hours


class DataMissingError(Exception):
    """The public data is not where the bench looks for it."""


def data_folder(asked: Path | None = None) -> Path:
    """The folder of the public data: as asked, else of the environment, else ``shared/data`` beside the repository.

    Raises DataMissingError naming the file that is not there.
    """
    folder = asked or Path(os.environ.get(DATA_VARIABLE) or ROOT.parent / "shared" / "data")
    for name in DATA_FILES:
        if not (folder / name).is_file():
            raise DataMissingError(
                f"{name} is not in {folder}: give the folder with --data or in {DATA_VARIABLE}; it comes from "
                "hemingkx/Spec-Bench (data/spec_bench/question.jsonl) or openai/human-eval (HumanEval.jsonl)"
            )
    return folder

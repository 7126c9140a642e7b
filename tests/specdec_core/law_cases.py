"""The law of six tokens, many seeds at a time: what test_law.py compares, for right verifiers and for mutants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from scipy.stats import chi2
from torch import Tensor

from specdec_core.drafters import Drafter, make_drafter
from specdec_core.drafters.model import ModelDrafter
from specdec_core.models.table import TableModel
from specdec_core.noise import Stream, position_noise
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.testing import (
    AlternatingDrafter,
    AntiOracleDrafter,
    DrawingDrafter,
    OracleDrafter,
    OverlongDrafter,
    RandomDrafter,
    generate_ids,
)
from specdec_core.verification import VERIFIERS, Verification, Verify

VOCAB = 4
LENGTH = 6  # prefill yields the first, so that a round can draft four and still emit a bonus token
WINDOWS = ((0, 3), (3, 6))  # the joint law of the first three tokens and of the last three
PROMPT = (0, 1, 2, 0, 1, 3, 0, 1)
TARGET = TableModel.random(VOCAB, seed=9, scale=1.0)
DRAFT_TABLE = TARGET._logits + TableModel.random(VOCAB, seed=10, scale=0.8)._logits  # near the target, and not it

Answer = tuple[int, ...]
DRAFTERS: dict[str, Callable[[Answer, int], Drafter]] = {  # (plain answer, seed) -> drafter
    "none": lambda answer, seed: make_drafter("none"),
    "ngram": lambda answer, seed: make_drafter("ngram"),
    "suffix": lambda answer, seed: make_drafter("suffix"),
    "drawing": lambda answer, seed: DrawingDrafter(DRAFT_TABLE),
    "model": lambda answer, seed: ModelDrafter(TableModel(DRAFT_TABLE), vocab_size=VOCAB),
    "random": lambda answer, seed: RandomDrafter(VOCAB, seed=seed),
    "oracle": lambda answer, seed: OracleDrafter(answer),
    "anti-oracle": lambda answer, seed: AntiOracleDrafter(answer, VOCAB),
    "alternating": lambda answer, seed: AlternatingDrafter(answer, VOCAB),
    "overlong": lambda answer, seed: OverlongDrafter(answer),
}
MODES: tuple[Verification, ...] = ("match", "rejection")
DRAFT_LENGTHS = range(5)
SETTINGS: dict[str, tuple[dict[str, object], tuple[Answer, ...]]] = {  # (sampling, bad word ids)
    "plain": ({"temperature": 1.0}, ()),
    "filtered": ({"temperature": 1.3, "top_k": 3, "top_p": 0.9, "min_p": 0.1}, ()),
    "penalised": (
        {"temperature": 0.9, "repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.6},
        ((3,),),
    ),
    "biased": ({"temperature": 0.8, "logit_bias": {1: 0.7, 3: -0.5}}, ((2, 2), (0, 1, 3))),
    "everything": (
        {
            "temperature": 1.4,
            "top_k": 3,
            "top_p": 0.97,
            "min_p": 0.02,
            "repetition_penalty": 1.2,
            "presence_penalty": -0.3,
            "frequency_penalty": 0.5,
            "logit_bias": {0: 0.4},
        },
        ((1, 1), (2, 0, 2)),
    ),
}


@dataclass(frozen=True)
class Case:
    drafter: str
    mode: Verification
    draft_length: int
    setting: str

    def __str__(self) -> str:
        return f"{self.drafter}-{self.mode}-{self.draft_length}-{self.setting}"


@cache
def noise(seed: int, index: int, stream: int) -> Tensor:
    return position_noise(seed, index, torch.arange(VOCAB), stream)


class SeededPipeline(LogitsPipeline):
    """One request under many seeds: processed rows and noise, both by the code under test, are remembered."""

    def __init__(self, pipeline: LogitsPipeline, memory: dict[object, Tensor], seed: int = 0) -> None:
        self.params = pipeline.params.model_copy(update={"seed": seed})
        self._pipeline, self._memory, self.with_margins = pipeline, memory, False

    def with_seed(self, seed: int) -> SeededPipeline:
        return SeededPipeline(self._pipeline, self._memory, seed)

    def process(self, logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        return self._remembered("process", logits, generated_ids)

    def law(self, logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        return self._remembered("law", logits, generated_ids)

    def _race(self, processed: Tensor, index: int, stream: int = Stream.TARGET) -> Tensor:
        return processed.double() + noise(self.params.seed, index, stream)

    def _remembered(self, method: str, logits: Tensor, generated_ids: Sequence[int]) -> Tensor:
        key = (method, tuple(logits.tolist()), tuple(generated_ids))
        if key not in self._memory:
            self._memory[key] = getattr(self._pipeline, method)(logits, generated_ids)
        return self._memory[key]


@cache
def pipeline_of(setting: str) -> SeededPipeline:
    sampling, bad_word_ids = SETTINGS[setting]
    params = SamplingParams(max_tokens=LENGTH, **sampling)
    return SeededPipeline(LogitsPipeline(params, PROMPT, bad_word_ids=bad_word_ids), {})


@cache
def window_laws(setting: str) -> list[dict[Answer, float]]:
    """The exact law of each window, by enumeration."""
    joint = TARGET.joint_law(PROMPT, pipeline_of(setting), LENGTH)
    laws: list[dict[Answer, float]] = []
    for start, end in WINDOWS:
        law: dict[Answer, float] = {}
        for tokens, probability in joint.items():
            law[tokens[start:end]] = law.get(tokens[start:end], 0.0) + probability
        laws.append(law)
    return laws


@cache
def plain_answer(setting: str, seed: int) -> Answer:
    return tuple(generate_ids(TARGET, PROMPT, pipeline_of(setting).with_seed(seed)).generated_ids)


def answers(
    case: Case,
    num_draws: int,
    make_verify: Callable[[], Verify] | None = None,
    make_draft: Callable[[Answer, int], Drafter] | None = None,
) -> list[Answer]:
    """The answers to seeds 0, 1, ...; a mutant's verifier and drafter are made anew for each."""
    found, right = [], VERIFIERS[case.mode]
    try:
        for seed in range(num_draws):
            drafter = (make_draft or DRAFTERS[case.drafter])(plain_answer(case.setting, seed), seed)
            VERIFIERS[case.mode] = make_verify() if make_verify else right
            generation = generate_ids(
                TARGET,
                PROMPT,
                pipeline_of(case.setting).with_seed(seed),
                drafter,
                num_speculative_tokens=case.draft_length,
                verification=case.mode,
            )
            found.append(tuple(generation.generated_ids))
    finally:
        VERIFIERS[case.mode] = right
    return found


def p_value(counts: Counter[Answer], law: dict[Answer, float]) -> float:
    """Pearson's chi-square test; cells that expect fewer than five are pooled. 0 where the impossible was drawn."""
    total = counts.total()
    if any(law.get(cell, 0.0) <= 0 for cell in counts):
        return 0.0
    cells = [(counts[cell], p * total) for cell, p in law.items() if p * total >= 5]
    rare = (total - sum(observed for observed, _ in cells), total - sum(expected for _, expected in cells))
    cells += [rare] if rare[1] >= 5 else []
    statistic = sum((observed - expected) ** 2 / expected for observed, expected in cells)
    return float(chi2.sf(statistic, len(cells) - 1))


def law_p_value(case: Case, found: Sequence[Answer]) -> float:
    """The smaller p-value of both windows, times two."""
    values = [
        p_value(Counter(answer[start:end] for answer in found), law)
        for (start, end), law in zip(WINDOWS, window_laws(case.setting), strict=True)
    ]
    return min(1.0, len(values) * min(values))


def num_changed_texts(case: Case, found: Sequence[Answer]) -> int:
    """Seeds whose text is not that of plain decoding."""
    return sum(answer != plain_answer(case.setting, seed) for seed, answer in enumerate(found))

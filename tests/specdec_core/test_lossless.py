"""Speculative and plain decoding give the same ids: the real model in bitwise mode, float64 in both modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch

from specdec_core.controller import Controller
from specdec_core.drafters import Drafter, make_drafter
from specdec_core.goodput import Goodput
from specdec_core.loading import LoadedModel, load_model, settle_exactness
from specdec_core.models.runner import LlamaTarget
from specdec_core.pass_costs import PassCosts
from specdec_core.sampling import SamplingParams
from specdec_core.testing import AlternatingDrafter, OracleDrafter, RandomDrafter, assert_lossless, generate_ids
from tests.specdec_core.lossless_prompts import NUM_PROMPTS, prompt_ids
from tests.specdec_core.tiny_models import make_tiny_llama

NUM_TOKENS = 32
DRAFT_LENGTHS = (1, 3, 7, 15)
SAMPLINGS = {
    "greedy": SamplingParams(max_tokens=NUM_TOKENS),
    "sampled": SamplingParams(max_tokens=NUM_TOKENS, temperature=0.8, top_p=0.95, seed=11),
}
DRAFTERS: dict[str, Callable[[Sequence[int], int], Drafter]] = {
    "ngram": lambda answer, vocab: make_drafter("ngram"),
    "suffix": lambda answer, vocab: make_drafter("suffix"),
    "oracle": lambda answer, vocab: OracleDrafter(answer),
    "alternating": AlternatingDrafter,
    "random": lambda answer, vocab: RandomDrafter(vocab, seed=len(answer)),
}
PAIRS = [(drafter, length) for drafter in DRAFTERS for length in DRAFT_LENGTHS]


SHIFT = 7  # between the pairs that a prompt meets greedily and sampled


def covering_case(number: int, sampling: str) -> tuple[str, int]:
    """Each prompt meets one pair greedily and another one sampled; over the prompts each pair occurs in both."""
    return PAIRS[(number + SHIFT * list(SAMPLINGS).index(sampling)) % len(PAIRS)]


@pytest.fixture(scope="module")
def model(embedded_folder) -> LoadedModel:
    """The embedded model in its default dtype here, passes wide enough for fifteen draft tokens.

    As in an engine, prompt beginnings are kept: of the runs of a prompt one reads it.
    """
    return keeping_prompts(load_model(str(embedded_folder), exactness="bitwise", width=16))


def keeping_prompts(model: LoadedModel) -> LoadedModel:
    assert isinstance(model.target, LlamaTarget)
    model.target.reuse_prefixes(512 << 20)
    return model


@cache
def default_model(folder: str) -> LoadedModel:
    """The embedded model at the table's width."""
    return keeping_prompts(load_model(folder, exactness="bitwise"))


@pytest.fixture(scope="module")
def plain_ids(model: LoadedModel) -> Callable[[int, str], list[int]]:
    """The plain answer to a prompt, made once: the same loop with the null drafter."""

    @cache
    def answer(number: int, sampling: str) -> list[int]:
        return run(model, number, sampling, make_drafter("none"), 0)

    return answer


def run(model: LoadedModel, number: int, sampling: str, drafter: Drafter, draft_length: int) -> list[int]:
    """Speculative ids of a prompt; reference texts would be known answers, so the suffix drafter gets none here."""
    return generate_ids(
        model.target,
        prompt_ids(model.tokenizer, number),
        SAMPLINGS[sampling],
        drafter,
        num_speculative_tokens=draft_length,
        eos_token_ids=sorted(model.tokenizer.eos_token_ids),
    ).generated_ids


def check(model: LoadedModel, plain: list[int], number: int, sampling: str, drafter: str, draft_length: int) -> None:
    made = DRAFTERS[drafter](plain, model.target.vocab_size)
    speculative = run(model, number, sampling, made, draft_length)
    assert len(speculative) == len(plain)
    assert speculative == plain


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("number", range(NUM_PROMPTS))
def test_each_prompt_with_one_drafter_and_draft_length(model, plain_ids, number: int, sampling: str) -> None:
    """A covering design; the slow test below makes the whole product."""
    check(model, plain_ids(number, sampling), number, sampling, *covering_case(number, sampling))


@pytest.mark.parametrize("number", [NUM_PROMPTS - 2, NUM_PROMPTS - 1])  # across slots 512 and 1024
def test_at_the_width_that_users_get(embedded_folder, number: int) -> None:
    """The hardware table's own geometry, not the fifteen draft tokens that the design asks for."""
    model = default_model(str(embedded_folder))
    plain = run(model, number, "greedy", make_drafter("none"), 0)
    check(model, plain, number, "greedy", "suffix", model.geometry.max_draft_tokens)
    check(model, plain, number, "greedy", "alternating", model.geometry.max_draft_tokens)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_whatever_the_controller_decides(embedded_folder, sampling: str) -> None:
    """Two requests, so that the second one's decisions rest on what the first one taught."""
    model = default_model(str(embedded_folder))
    policy = Goodput(PassCosts(model.geometry))
    for number in (12, 5):
        plain = run(model, number, sampling, make_drafter("none"), 0)
        generation = generate_ids(
            model.target,
            prompt_ids(model.tokenizer, number),
            SAMPLINGS[sampling],
            Controller(make_drafter(["ngram", "suffix"]), policy),
            eos_token_ids=sorted(model.tokenizer.eos_token_ids),
        )
        assert generation.generated_ids == plain
        assert generation.stats.num_drafts > 0
        assert generation.stats.predicted_tokens > 0


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("number", range(NUM_PROMPTS))
def test_each_prompt_with_every_drafter_and_draft_length(model, plain_ids, number: int, sampling: str) -> None:
    for drafter, draft_length in PAIRS:
        check(model, plain_ids(number, sampling), number, sampling, drafter, draft_length)


def test_the_design_covers_what_it_says(model: LoadedModel) -> None:
    assert NUM_PROMPTS == len(PAIRS) == 20
    for sampling in SAMPLINGS:
        assert {covering_case(number, sampling) for number in range(NUM_PROMPTS)} == set(PAIRS)
    lengths = [len(prompt_ids(model.tokenizer, number)) for number in range(NUM_PROMPTS)]
    assert any(n < 512 <= n + NUM_TOKENS - 1 for n in lengths)
    assert any(n < 1024 <= n + NUM_TOKENS - 1 for n in lengths)


@pytest.mark.parametrize("exactness", ["bitwise", "law"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_float64_model_is_lossless_in_both_exactness_modes(tiny_llama, exactness: str, temperature: float) -> None:
    """In float64 errors are 1e-13: no near tie excuses a difference, whatever the width of a pass."""
    target = tiny_llama(exactness=exactness)
    drafters = [lambda answer, make=make: make(answer, target.vocab_size) for make in DRAFTERS.values()]
    prompts = [[1], list(range(2, 40)), [5, 6, 7] * 30]
    sampling = SamplingParams(max_tokens=24, temperature=temperature, seed=3)
    assert assert_lossless(target, prompts, drafters, sampling) == 3 * len(drafters) * 4


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_do_not_depend_on_the_width_of_their_passes(dtype: torch.dtype, temperature: float) -> None:
    """Drafts of every length, so passes of every width, across the border of an extent and up to a full context."""
    target = make_tiny_llama(dtype=dtype, width=16, narrow_widths=(2, 4, 8), context_length=150)
    target, _ = settle_exactness(target, asked="bitwise")
    wide = target.with_geometry(replace(target.geometry, narrow_widths=()))
    drafters = [lambda answer, make=make: make(answer, target.vocab_size) for make in DRAFTERS.values()]
    sampling = SamplingParams(max_tokens=200, temperature=temperature, seed=3)
    prompts = [[7], list(range(2, 64)), [5, 6, 7] * 30 + [8] * 58, [9] * 149]
    assert assert_lossless(target, prompts, drafters, sampling) == len(prompts) * len(drafters) * 4
    for prompt in prompts:
        plain = generate_ids(wide, prompt, sampling).generated_ids
        assert len(prompt) + len(plain) == 150
        assert generate_ids(target, prompt, sampling).generated_ids == plain

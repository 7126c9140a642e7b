"""Structured output of the embedded model in bitwise mode: speculative ids are plain ids; the texts have the form."""

from __future__ import annotations

import random

import pytest
import torch

from specdec_core.controller import FixedLength
from specdec_core.engine import Engine, load_engine
from specdec_core.sampling import SamplingParams
from specdec_core.structured import make_constraint
from specdec_core.testing import AlternatingDrafter, OracleDrafter, RandomDrafter, SilentDrafter
from specdec_core.types import GenerationRequest
from tests.specdec_core.grammar_forms import FORMS, fits

QUESTION = ({"role": "user", "content": "Describe a red house and who lives in it."},)
SAMPLINGS = {"greedy": {}, "sampled": {"temperature": 0.8, "top_p": 0.95, "repetition_penalty": 1.1, "seed": 5}}
CASES = [(name, sampling) for name in FORMS for sampling in SAMPLINGS]
DRAFT_LENGTHS = (1, 3, 7, 15, 31)
DRAFTERS = {
    "suffix": lambda answer, vocab: "suffix",
    "ngram": lambda answer, vocab: "ngram",
    "oracle": lambda answer, vocab: OracleDrafter(answer),
    "alternating": AlternatingDrafter,
    "random": lambda answer, vocab: RandomDrafter(vocab, seed=len(answer)),
}
PAIRS = [(drafter, length) for length in DRAFT_LENGTHS for drafter in DRAFTERS]
PAIRS_PER_CASE = 2


@pytest.fixture(scope="module")
def engine(embedded_folder) -> Engine:
    return load_engine(str(embedded_folder), exactness="bitwise", context_length=512)


def pairs_of(number: int) -> list[tuple[str, int]]:
    """Two pairs of drafter and draft length for a case; over all cases every pair occurs."""
    return [PAIRS[(PAIRS_PER_CASE * number + offset) % len(PAIRS)] for offset in range(PAIRS_PER_CASE)]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{name}-{sampling}" for name, sampling in CASES])
def test_drafts_change_passes_and_never_ids(engine: Engine, number: int) -> None:
    name, sampling = CASES[number]
    asked = GenerationRequest(
        messages=QUESTION, structured=FORMS[name][0], sampling=SamplingParams(max_tokens=32, **SAMPLINGS[sampling])
    )
    plain = Engine(engine.model, drafter="none").generate(asked)
    assert plain.finish_reason == "length" or fits(FORMS[name], plain.text), plain.text
    for drafter, draft_length in pairs_of(number):
        made = DRAFTERS[drafter](plain.token_ids, engine.model.target.vocab_size)
        always = Engine(engine.model, drafter=made, num_speculative_tokens=draft_length, policy=FixedLength())
        output = always.generate(asked)
        assert output.token_ids == plain.token_ids
        assert (output.text, output.finish_reason) == (plain.text, plain.finish_reason)


def test_the_design_covers_what_it_says() -> None:
    assert {pair for number in range(len(CASES)) for pair in pairs_of(number)} == set(PAIRS)


@pytest.mark.parametrize("name", ["person", "pattern"])
def test_forced_tokens_shorten_a_real_text(engine: Engine, name: str) -> None:
    asked = GenerationRequest(messages=QUESTION, structured=FORMS[name][0], sampling=SamplingParams(max_tokens=48))
    output = Engine(engine.model, drafter=SilentDrafter(), policy=FixedLength()).generate(asked)
    assert output.finish_reason == "stop" and fits(FORMS[name], output.text)
    assert output.stats.acceptance_rate == 1
    assert output.stats.acceptance_length > 1.2


@pytest.mark.parametrize("name", FORMS)
def test_texts_drawn_from_the_masks_of_the_real_vocabulary_have_the_form(engine: Engine, name: str) -> None:
    """Any token that is allowed may come, far from what a model would write; special ones never."""
    tokenizer, vocab_size = engine.model.tokenizer, engine.model.target.vocab_size
    constraint = make_constraint(FORMS[name][0], tokenizer, vocab_size)
    eos = torch.tensor(sorted(tokenizer.eos_token_ids))
    special = [i for i in range(64) if i not in tokenizer.eos_token_ids and not tokenizer.decode([i])]
    assert special
    num_finished = 0
    for seed in range(12):
        choice, ids = random.Random(seed), []
        while len(ids) < 60 and not constraint.is_complete(ids):
            mask = constraint.allowed(ids)
            assert not mask[special].any()
            options = mask.nonzero().squeeze(-1)
            if mask[eos].any() and (len(options) == len(eos) or choice.random() < 0.5):
                break
            text = options[~torch.isin(options, eos)]
            short = text[: max(4, len(text) // 1000)]  # bytes and marks come first: they end strings and lists
            ids.append(int(choice.choice(short)) if choice.random() < 0.5 else int(choice.choice(text)))
        if constraint.allowed(ids)[eos].any():
            num_finished += 1
            assert fits(FORMS[name], tokenizer.decode(ids)), tokenizer.decode(ids)
    assert num_finished >= 3

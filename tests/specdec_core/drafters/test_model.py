from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_core.drafters import DraftContext, make_drafter
from specdec_core.drafters.model import ModelDrafter, num_shared_tokens
from specdec_core.drafters.suffix import SuffixDrafter
from specdec_core.engine import Engine
from specdec_core.errors import DrafterError, RequestError, VocabularyMismatchError
from specdec_core.loading import load_model
from specdec_core.models.runner import LlamaTarget
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.testing import assert_lossless, generate_ids
from specdec_core.types import Draft, GenerationRequest
from tests.specdec_core.tiny_models import TinyTokenizer, make_tiny_llama

PROMPT = [7, 3, 9, 7, 3, 11]
SAMPLINGS = [SamplingParams(max_tokens=40), SamplingParams(temperature=0.8, top_p=0.9, seed=5, max_tokens=40)]


def make_model(seed: int = 0, **options: object) -> LlamaTarget:
    return make_tiny_llama(exactness="law", seed=seed, **options)  # type: ignore[arg-type]


def drafter_of(model: LlamaTarget, **options: object) -> ModelDrafter:
    return ModelDrafter(model, vocab_size=97, **{"min_probability": 0.0, **options})  # type: ignore[arg-type]


def begin(drafter: ModelDrafter, sampling: SamplingParams, verification: str = "match") -> None:
    pipeline = LogitsPipeline(sampling, PROMPT)
    drafter.begin(DraftContext(tuple(PROMPT), (), pipeline, verification=verification))  # type: ignore[arg-type]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled"])
def test_the_target_itself_as_drafter_is_always_right(sampling: SamplingParams) -> None:
    model = make_model()
    generation = generate_ids(make_tiny_llama(), PROMPT, sampling, drafter_of(model))
    assert generation.stats.acceptance_rate == 1
    assert generation.stats.num_decode_passes == 5  # 39 tokens, 8 a pass
    assert model.num_passes == generation.stats.num_draft_tokens  # a pass a token: catching up costs none of its own


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled"])
def test_another_model_drafts_and_the_text_stays(sampling: SamplingParams) -> None:
    makers = [lambda _: drafter_of(make_model(seed=1)), lambda _: drafter_of(make_model(), min_probability=0.5)]
    assert assert_lossless(make_tiny_llama(), [PROMPT], makers, sampling, draft_lengths=(1, 7)) == 4


class Moody(ModelDrafter):
    """Asks another source in some rounds."""

    def __init__(self, model: LlamaTarget, seed: int) -> None:
        super().__init__(model, vocab_size=97, min_probability=0.0)
        self._random = random.Random(seed)
        self._other = SuffixDrafter()
        self.drafts: list[tuple[int, Draft]] = []

    def begin(self, context: DraftContext) -> None:
        super().begin(context)
        self._other.begin(context)

    def observe(self, token_ids: Sequence[int]) -> None:
        super().observe(token_ids)
        if hasattr(self, "_other"):
            self._other.observe(token_ids)

    def propose(self, max_tokens: int) -> Draft:
        if self._random.random() < 0.5:
            return self._other.propose(max_tokens)
        num_generated = len(self._text) - self._num_prompt
        draft = super().propose(self._random.randint(1, max_tokens))
        self.drafts.append((num_generated, draft))
        return draft


@given(st.integers(0, 10**6), st.integers(0, 2), st.sampled_from(SAMPLINGS))
@settings(max_examples=10, deadline=None)
def test_whatever_happened_before_it_drafts_what_a_fresh_cache_drafts(
    seed: int, model_seed: int, sampling: SamplingParams
) -> None:
    moody = Moody(make_model(seed=model_seed), seed)
    generated = generate_ids(make_tiny_llama(), PROMPT, sampling, moody).generated_ids
    fresh = drafter_of(make_model(seed=model_seed))
    for num_generated, draft in moody.drafts:
        begin(fresh, sampling)
        fresh.observe(generated[:num_generated])
        again = fresh.propose(len(draft.token_ids))
        assert again.token_ids == draft.token_ids


def test_it_reads_lazily_and_catches_up_in_one_pass() -> None:
    model = make_model(width=8)
    drafter = drafter_of(model)
    begin(drafter, SAMPLINGS[0])
    assert model.num_passes == 0
    first = drafter.propose(3).token_ids
    drafter.observe([*first[:1], 50])  # one accepted, one recovered
    drafter.observe([51, 52])  # another source's rounds
    drafter.observe([53])
    assert model.num_passes == 3
    drafter.propose(1)
    assert (model.num_passes, model.cache_length) == (4, len(PROMPT) + 5)


def test_where_the_text_does_not_fit_its_context_it_is_silent() -> None:
    model = make_model(context_length=16)
    long = SamplingParams(max_tokens=40)
    target = make_tiny_llama()
    plain = generate_ids(target, PROMPT, long).generated_ids
    generation = generate_ids(target, PROMPT, long, drafter_of(model))
    assert generation.generated_ids == plain
    assert 0 < generation.stats.num_draft_tokens < 16
    silent = generate_ids(target, PROMPT * 3, long, drafter_of(model))
    assert (silent.stats.num_draft_tokens, len(silent.generated_ids)) == (0, 40)


def test_ids_it_does_not_share_are_neither_drawn_nor_read() -> None:
    drafter = drafter_of(make_model(), num_tokens=10)
    begin(drafter, SAMPLINGS[1])
    assert all(token_id < 10 for token_id in drafter.propose(7).token_ids)
    small = ModelDrafter(make_model(), vocab_size=200, min_probability=0.0)
    begin(small, SAMPLINGS[0])
    assert len(small.propose(2).token_ids) == 2
    small.observe([150])
    assert small.propose(2).token_ids == ()
    begin(small, SAMPLINGS[0])  # and the next request is its own
    assert len(small.propose(2).token_ids) == 2


@pytest.mark.parametrize("verification", ["match", "rejection"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_where_nothing_that_it_shares_may_follow_it_is_silent(verification: str, temperature: float) -> None:
    """Bans leave the target ids that the drafter does not have: that was NaN, and the request's end."""
    target, sampling = make_tiny_llama(), SamplingParams(max_tokens=12, temperature=temperature)
    pipeline = LogitsPipeline(sampling, PROMPT, bad_word_ids=[(token_id,) for token_id in range(10)])
    plain = generate_ids(target, PROMPT, pipeline).generated_ids
    drafter = drafter_of(make_model(), num_tokens=10)
    assert generate_ids(target, PROMPT, pipeline, drafter, verification=verification).generated_ids == plain


def test_a_drafter_that_runs_on_the_targets_own_cache_is_found_out() -> None:
    """It moves the target's pointer: the next pass would stand at the wrong place, and the text would be another."""
    target = make_tiny_llama()
    with pytest.raises(DrafterError, match=r"cache holds \d+ tokens where \d+ were read"):
        generate_ids(target, PROMPT, SAMPLINGS[0], drafter_of(target))
    assert generate_ids(target, PROMPT, SAMPLINGS[0], drafter_of(make_model())).generated_ids


def test_in_rejection_mode_it_draws_with_its_own_noise_and_says_from_which_law() -> None:
    model, sampling = make_model(), SAMPLINGS[1]
    drafter = drafter_of(model)
    begin(drafter, sampling, "rejection")
    draft = drafter.propose(4)
    assert draft.probs is not None and draft.probs.shape == (4, 97)
    pipeline = LogitsPipeline(sampling, PROMPT)
    model.prefill(PROMPT)
    law = pipeline.process(model.decode(draft.token_ids[:1])[0], draft.token_ids[:1]).softmax(-1)
    torch.testing.assert_close(draft.probs[1], law)
    assert all(draft.probs[i, token] > 0 for i, token in enumerate(draft.token_ids))
    begin(drafter, sampling)
    assert drafter.propose(4).token_ids != draft.token_ids
    begin(drafter, SAMPLINGS[0], "rejection")
    assert drafter.propose(4).probs is None  # greedy: chosen, not drawn


def test_the_rejection_draws_follow_the_law() -> None:
    model, counts = make_model(), torch.zeros(97, dtype=torch.float64)
    drafter = drafter_of(model)
    for seed in range(300):
        begin(drafter, SamplingParams(temperature=0.6, top_k=4, seed=seed), "rejection")
        draft = drafter.propose(1)
        counts[draft.token_ids[0]] += 1
    assert draft.probs is not None
    law = draft.probs[0]
    kept = law > 0
    statistic = float(((counts[kept] - 300 * law[kept]) ** 2 / (300 * law[kept])).sum())
    assert counts[~kept].sum() == 0
    assert statistic < 16.3  # chi-square with 3 degrees of freedom at 0.001


def test_an_unlikely_token_ends_the_draft_and_stays_in_it() -> None:
    drafter = drafter_of(make_model(), min_probability=1.0)
    begin(drafter, SAMPLINGS[0])
    draft = drafter.propose(5)
    assert len(draft.token_ids) == 1


class Renamed(TinyTokenizer):
    def token_text(self, token_id: int) -> str:
        return "?" if token_id in (40, 41, 50, 60) else super().token_text(token_id)


class Smaller(TinyTokenizer):
    vocab_size = 90


def test_vocabularies_are_compared_by_text() -> None:
    assert num_shared_tokens(Smaller(), TinyTokenizer()) == 90
    with pytest.raises(VocabularyMismatchError, match=r"id 40 is '\?' .* and 'F' .*id 41 .*id 50") as error:
        num_shared_tokens(Renamed(), TinyTokenizer())
    assert "id 60" not in str(error.value)


def test_without_a_target_there_is_nothing_to_draft_for() -> None:
    with pytest.raises(RequestError, match="target_model"):
        make_drafter("model:smollm2-135m")


MODELS = Path("~/.cache/specdec-dev-models").expanduser()
SMALL, LARGE = (MODELS / f"qwen2.5-coder-{size}-instruct" for size in ("0.5b", "1.5b"))


@pytest.mark.slow
@pytest.mark.skipif(not (SMALL.exists() and LARGE.exists()), reason=f"needs {SMALL.name} and {LARGE.name} in {MODELS}")
def test_a_real_pair_is_lossless_and_mostly_right() -> None:
    model = load_model(LARGE)
    engine = Engine(model, drafter=f"model:{SMALL}", num_speculative_tokens=4)
    plain = Engine(model, drafter="none")
    for sampling in ({"max_tokens": 16}, {"max_tokens": 16, "temperature": 0.8, "seed": 1}):
        message = {"role": "user", "content": "Write a Python function that reverses a string."}
        request = GenerationRequest.model_validate({"messages": [message], "sampling": sampling})
        output = engine.generate(request)
        assert output.token_ids == plain.generate(request).token_ids
        assert output.stats.acceptance_rate is not None and output.stats.acceptance_rate > 0.5

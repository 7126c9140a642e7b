"""Every processor against a slow twin that says the same in plain Python, and the edges of laws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from specdec_core.errors import RequestError, VocabularyMismatchError
from specdec_core.noise import Stream, position_noise, position_uniform
from specdec_core.sampling import LogitsPipeline, SamplingParams

VOCAB = 7
IDS = st.integers(0, VOCAB - 1)
PREFIXES = st.lists(IDS, max_size=6)
LOGITS = st.lists(st.integers(-4, 4), min_size=VOCAB, max_size=VOCAB)  # small integers: ties are everywhere
BAD_WORDS = st.lists(st.lists(IDS, min_size=1, max_size=3).map(tuple), max_size=3)
SAMPLINGS = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        "top_k": st.sampled_from([None, 1, 3, 50]),
        "top_p": st.sampled_from([1.0, 0.8, 0.35]),
        "min_p": st.sampled_from([0.0, 0.07, 0.6, 1.0]),
        "repetition_penalty": st.sampled_from([1.0, 1.7, 0.6]),
        "presence_penalty": st.sampled_from([0.0, 0.5, -2.0]),
        "frequency_penalty": st.sampled_from([0.0, 0.25, -1.0]),
        "logit_bias": st.dictionaries(IDS, st.sampled_from([-100.0, -1.5, 2.0]), max_size=2),
    }
)


class Unclear(Exception):
    """Two numbers are too near for floats to rank them."""


def below(a: float, b: float) -> bool:
    if a != b and math.isfinite(a) and math.isfinite(b) and abs(a - b) < 1e-9:
        raise Unclear
    return a < b


def twin_law(
    logits: Sequence[float],
    params: SamplingParams,
    prompt: Sequence[int],
    generated: list[int],
    bad: Sequence[tuple[int, ...]],
) -> list[float]:
    """The law, one token at a time; all zeros where every token is banned."""
    scores = [float(value) for value in logits]
    for word in bad:
        if [*generated, word[-1]][len(generated) + 1 - len(word) :] == list(word) and len(word) <= len(generated) + 1:
            scores[word[-1]] = -math.inf
    for token in range(len(scores)):
        scores[token] += params.logit_bias.get(token, 0)
        if token in prompt or token in generated:
            penalty = params.repetition_penalty
            scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
        if count := generated.count(token):
            scores[token] -= params.presence_penalty + count * params.frequency_penalty
    best = max(scores)
    if best == -math.inf:
        return [0.0] * len(scores)
    if params.greedy:
        for score in scores:
            below(score, best)
        return [float(token == scores.index(best)) for token in range(len(scores))]
    weights = [math.exp((score - best) / params.temperature) for score in scores]
    weights = [0.0 if below(weight, params.min_p) else weight for weight in weights]
    smallest = sorted(weights, reverse=True)[min(params.top_k or len(scores), len(scores)) - 1]
    weights = [0.0 if below(weight, smallest) else weight for weight in weights]
    total, mass = sum(weights), 0.0
    for token in sorted(range(len(weights)), key=lambda token: (-weights[token], token)):
        weight = weights[token]
        if mass and not below(mass / total, params.top_p):
            weights[token] = 0.0
        mass += weight
    return [weight / sum(weights) for weight in weights]


@given(LOGITS, SAMPLINGS, PREFIXES, PREFIXES, BAD_WORDS)
def test_the_pipeline_is_its_slow_twin(logits, sampling, prompt, generated, bad) -> None:
    params = SamplingParams(**sampling)
    pipeline, row = LogitsPipeline(params, prompt, bad_word_ids=bad), torch.tensor(logits, dtype=torch.float64)
    try:
        expected = twin_law(logits, params, prompt, generated, bad)
    except Unclear:
        return
    if not any(expected):
        with pytest.raises(RequestError, match="every one is banned"):
            pipeline.law(row, generated)
        return
    law = pipeline.law(row, generated)
    assert law.tolist() == pytest.approx(expected, abs=1e-9)
    assert row.tolist() == logits  # never in place
    assert expected[pipeline.choose(row, generated)] > 0


@given(LOGITS, SAMPLINGS, PREFIXES, IDS)
def test_where_all_but_one_token_is_banned_that_one_is_chosen(logits, sampling, generated, left) -> None:
    bad = [(token,) for token in range(VOCAB) if token != left]
    pipeline = LogitsPipeline(SamplingParams(**sampling), (), bad_word_ids=bad)
    row = torch.tensor(logits, dtype=torch.float32)
    assert pipeline.choose(row, generated) == left
    assert pipeline.law(row, generated)[left] == 1
    assert pipeline.choose_with_margin(row, generated) == (left, math.inf)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9), st.sampled_from([1e-300, 1e-9, 1e-3]), st.integers(0, 99))
def test_a_tiny_temperature_draws_among_the_likeliest_only(logits, temperature, seed) -> None:
    pipeline = LogitsPipeline(SamplingParams(temperature=temperature, seed=seed))
    assert logits[pipeline.choose(torch.tensor(logits, dtype=torch.float32), ())] == max(logits)
    greedy = LogitsPipeline(SamplingParams())
    assert greedy.choose(torch.tensor(logits, dtype=torch.float32), ()) == logits.index(max(logits))


@given(LOGITS, st.sampled_from([0.0, 0.5, 2.0]), st.integers(0, 99))
def test_the_margin_is_what_it_takes_to_change_the_choice(logits, temperature, seed) -> None:
    """In the unit of the model's logits: raised by a little more than the margin, some other token is chosen."""
    pipeline = LogitsPipeline(SamplingParams(temperature=temperature, seed=seed))
    row = torch.tensor(logits, dtype=torch.float64)
    token, margin = pipeline.choose_with_margin(row, ())
    assert token == pipeline.choose(row, ()) and margin >= 0
    others = torch.arange(VOCAB) != token
    assert pipeline.choose(row + others * (margin * 0.999 - 1e-9), ()) == token
    assert pipeline.choose(row + others * (margin * 1.001 + 1e-9), ()) != token


@pytest.mark.parametrize("settings", [{"logit_bias": {VOCAB: 1.0}}, {"bad": [(1, VOCAB)]}, {"bad": [(-1,)]}])
def test_ids_outside_the_vocabulary_are_named(settings) -> None:
    bad = settings.pop("bad", ())
    pipeline = LogitsPipeline(SamplingParams(**settings), bad_word_ids=bad)
    with pytest.raises(VocabularyMismatchError, match=r"outside 0\.\.6"):
        pipeline.choose(torch.zeros(VOCAB), (1,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_p": 1.1},
        {"presence_penalty": 2.5},
        {"frequency_penalty": -2.5},
        {"logit_bias": {-1: 0.0}},
        {"logit_bias": {1: math.inf}},
        {"logit_bias": {1: 101}},
        {"bad_words": ("",)},
        {"logprobs": -1},
    ],
    ids=str,
)
def test_values_without_meaning_are_refused(wrong) -> None:
    with pytest.raises(ValidationError):
        SamplingParams(**wrong)


def test_parameters_read_json_and_are_values() -> None:
    params = SamplingParams.model_validate_json('{"logit_bias": {"5": 1.5}}')
    assert params.logit_bias == {5: 1.5}
    assert params == SamplingParams(logit_bias={5: 1.5}) and len({params, SamplingParams(logit_bias={5: 1.5})}) == 1


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**20))
def test_streams_are_different_noise_and_a_uniform_is_the_same_hash(seed: int, index: int) -> None:
    zero = torch.tensor([0])
    values = [float(position_noise(seed, index, zero, stream)) for stream in Stream]
    assert len(set(values)) == len(Stream)
    for stream, value in zip(Stream, values, strict=True):
        uniform = position_uniform(seed, index, stream)
        assert 0 < uniform < 1
        assert -math.log(-math.log(uniform)) == pytest.approx(value, rel=1e-9)


def test_streams_do_not_know_of_each_other() -> None:
    """Correlations of 4,000 uniforms between all pairs of streams, within four standard errors."""
    size = 4_000
    columns = torch.tensor([[position_uniform(3, index, stream) for index in range(size)] for stream in Stream])
    correlations = torch.corrcoef(columns) - torch.eye(len(Stream))
    assert float(correlations.abs().max()) < 4 / math.sqrt(size)

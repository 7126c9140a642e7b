from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from specdec_core.errors import RequestError
from specdec_core.noise import _gumbel, position_noise
from specdec_core.sampling import LogitsPipeline, SamplingParams

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def law(params: SamplingParams, logits: list[float], prompt: tuple[int, ...] = (), generated: tuple[int, ...] = ()):
    return LogitsPipeline(params, prompt).process(torch.tensor(logits, dtype=torch.float64), generated).softmax(-1)


@pytest.mark.parametrize("key", ["temprature", "minp", "n"])
def test_an_unknown_key_is_refused(key: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        SamplingParams(**{key: 1})


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1}, {"top_p": 0}, {"top_k": 0}, {"max_tokens": -1}, {"seed": -1}, {"seed": 1 << 63}]
)
def test_values_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        SamplingParams(**wrong)


def test_greedy_takes_the_lowest_id_on_a_tie() -> None:
    assert LogitsPipeline(SamplingParams()).choose(torch.tensor([0.0, 2.0, 2.0, 1.0]), ()) == 1


def test_top_k_keeps_ties_with_the_kth() -> None:
    probs = law(SamplingParams(temperature=1, top_k=2), [3.0, 1.0, 1.0, 0.0])
    assert (probs > 0).tolist() == [True, True, True, False]


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    logits = [math.log(p) for p in (0.5, 0.3, 0.15, 0.05)]
    for top_p, kept in ((0.49, 1), (0.51, 2), (0.79, 2), (0.81, 3), (0.96, 4), (1.0, 4)):
        assert int((law(SamplingParams(temperature=1, top_p=top_p), logits) > 0).sum()) == kept, top_p


@pytest.mark.parametrize("device", DEVICES)
def test_top_p_ranks_equal_logits_by_id_and_adds_up_over_a_large_vocabulary(device: str) -> None:
    logits = torch.zeros(100_000, device=device)
    kept = LogitsPipeline(SamplingParams(temperature=1, top_p=0.5)).process(logits, ()) == 0
    assert abs(int(kept.sum()) - 50_000) <= 1
    assert kept[: int(kept.sum())].all()


@given(
    st.lists(st.integers(-6, 6), min_size=1, max_size=40), st.floats(0.01, 0.99), st.sampled_from([None, 3]), st.data()
)
def test_top_p_over_the_likely_tokens_is_top_p_over_all(levels, top_p, top_k, data) -> None:
    """Against a plain sort of everything; small integers as logits, so that ties are everywhere."""
    logits = torch.tensor(levels, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("specdec_core.processors._NUM_LIKELY", data.draw(st.integers(1, 40)))
        kept = LogitsPipeline(SamplingParams(temperature=1, top_p=top_p, top_k=top_k)).process(logits, ()).isfinite()
    allowed = LogitsPipeline(SamplingParams(temperature=1, top_k=top_k)).process(logits, ())
    probs, mass, expected = allowed.softmax(-1).tolist(), 0.0, set()
    for token in sorted(range(len(levels)), key=lambda token: (-probs[token], token)):
        if abs(mass - top_p) < 1e-9:
            return  # too near to call by floats
        if mass < top_p and probs[token] > 0:
            expected.add(token)
        mass += probs[token]
    assert set(kept.nonzero().squeeze(-1).tolist()) == expected


def test_the_repetition_penalty_sees_prompt_and_output() -> None:
    params = SamplingParams(repetition_penalty=2.0)
    processed = LogitsPipeline(params, (0,)).process(torch.tensor([4.0, -3.0, 5.0]), (1,))
    assert processed.tolist() == [2.0, -6.0, 5.0]


def test_logits_that_are_not_finite_are_an_error_that_says_so() -> None:
    for params in (SamplingParams(), SamplingParams(temperature=1), SamplingParams(temperature=1, top_p=0.9)):
        with pytest.raises(RequestError, match="not finite"):
            LogitsPipeline(params).choose(torch.tensor([0.0, math.nan]), ())
        with pytest.raises(RequestError, match="not finite"):
            LogitsPipeline(params).choose(torch.tensor([-math.inf, -math.inf]), ())


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**20), st.sets(st.integers(0, 200_000), min_size=2, max_size=8))
def test_noise_does_not_depend_on_which_tokens_are_asked_for(seed: int, index: int, ids: set[int]) -> None:
    ordered = sorted(ids)
    together = position_noise(seed, index, torch.tensor(ordered))
    alone = [float(position_noise(seed, index, torch.tensor([token]))) for token in ordered]
    assert together.tolist() == alone
    assert all(map(math.isfinite, alone))


def test_noise_is_finite_for_every_word_of_the_hash() -> None:
    """With 53 bits the largest word rounded up to a uniform of 1.0, whose noise is infinite."""
    words = torch.tensor([-1, 0, 1, -(1 << 63), (1 << 63) - 1])
    assert torch.isfinite(_gumbel(words)).all()


@pytest.mark.parametrize("temperature", [1e-300, 1e-38, 1e300])
def test_any_temperature_is_a_law(temperature: float) -> None:
    """Dividing by 1e-38 overflowed, and the model was blamed."""
    pipeline = LogitsPipeline(SamplingParams(temperature=temperature, seed=1))
    token = pipeline.choose(torch.tensor([1.0, 30.0, 2.0]), ())
    assert token == 1 or temperature > 1


def splitmix_gumbel(seed: int, index: int, token: int) -> float:
    """The slow obvious twin, on Python's integers."""
    mask, golden, mix_1, mix_2 = (1 << 64) - 1, 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

    def mix(value: int) -> int:
        value &= mask
        value = (value ^ value >> 30) * mix_1 & mask
        value = (value ^ value >> 27) * mix_2 & mask
        return value ^ value >> 31

    key = mix(mix(seed + golden) ^ (index * mix_2 + golden))
    uniform = ((mix(token * golden + key) >> 12) + 0.5) * 2.0**-52
    return -math.log(-math.log(uniform))


@pytest.mark.parametrize("device", DEVICES)
def test_noise_is_the_published_hash_on_every_device(device: str) -> None:
    ids = torch.tensor([0, 1, 2, 49151, 151_642], device=device)
    for seed, index in ((0, 0), (7, 3), (2**62 + 11, 4095)):
        expected = [splitmix_gumbel(seed, index, token) for token in ids.tolist()]
        assert position_noise(seed, index, ids).tolist() == pytest.approx(expected, rel=1e-12)


def test_noise_follows_the_gumbel_law_along_ids_positions_and_seeds() -> None:
    """Kolmogorov-Smirnov at 1e-3 for 4,000 values along each axis: three fixed draws, so no false alarm later."""
    size = 4_000
    along_ids = position_noise(1, 1, torch.arange(size))
    along_index = torch.cat([position_noise(1, index, torch.tensor([5])) for index in range(size)])
    along_seed = torch.cat([position_noise(seed, 1, torch.tensor([5])) for seed in range(size)])
    for values in (along_ids, along_index, along_seed):
        ordered = values.sort().values
        exact = torch.exp(-torch.exp(-ordered))
        steps = torch.arange(size, dtype=torch.float64) / size
        distance = torch.maximum((exact - steps).abs().max(), (exact - steps - 1 / size).abs().max())
        assert float(distance) < 1.95 / math.sqrt(size)


def test_the_race_follows_the_processed_law() -> None:
    """Chi-square with 3 degrees of freedom, 10,000 positions, fixed seed; 16.27 is the 0.999 quantile."""
    logits, num_draws = [1.0, 0.0, -1.0, 0.5, -9.0], 10_000
    params = SamplingParams(temperature=0.7, top_k=4, seed=3)
    pipeline, row = LogitsPipeline(params), torch.tensor(logits)
    counts = [0] * 5
    for index in range(num_draws):
        counts[pipeline.choose(row, range(index))] += 1
    expected = law(params, logits) * num_draws
    assert counts[4] == 0
    assert sum((counts[i] - float(expected[i])) ** 2 / float(expected[i]) for i in range(4)) < 16.27

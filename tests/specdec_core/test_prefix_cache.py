"""Prompts that begin alike share work and nothing else: same bits, exact counts, bounded memory."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from specdec_core.controller import Controller
from specdec_core.decoder import Generation, decode
from specdec_core.drafters import DraftContext, make_drafter
from specdec_core.errors import RequestError
from specdec_core.loading import LoadedModel, load_model
from specdec_core.models.runner import LlamaTarget
from specdec_core.prefix_cache import PrefixCache
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.sequences import common_length
from specdec_core.stopping import StopChecker
from specdec_core.testing import AlternatingDrafter, generate_ids
from tests.specdec_core.tiny_models import make_tiny_llama

PLENTY = 1 << 24
short_ids_st = st.lists(st.integers(0, 1), min_size=1, max_size=9)


def block_of(token_ids: list[int]):
    """Copies whose content tells the whole path they belong to."""
    return lambda start, num_tokens: torch.tensor(token_ids[: start + num_tokens])


def contents(blocks: list[Tensor]) -> list[list[int]]:
    return [block.tolist() for block in blocks]


def make_pair(exactness: str = "bitwise", max_bytes: int = PLENTY, **options) -> tuple[LlamaTarget, LlamaTarget]:
    """Two equal targets: one that reuses prefixes and one that reads every prompt whole."""
    warm, cold = (make_tiny_llama(exactness=exactness, **options) for _ in range(2))
    warm.reuse_prefixes(max_bytes)
    return warm, cold


def assert_same_bits(warm: LlamaTarget, cold: LlamaTarget, prompt: list[int]) -> None:
    """Logits, keys and values of a prompt, and those of a decode pass behind it."""
    assert torch.equal(warm.prefill(prompt), cold.prefill(prompt))
    assert warm.cache_length == cold.cache_length == len(prompt)
    assert torch.equal(warm.decode([1, 2]), cold.decode([1, 2]))
    length = len(prompt) + 2
    assert torch.equal(warm.cache.copy(0, length), cold.cache.copy(0, length))


def make_generation(target: LlamaTarget, prompt: list[int], sampling: SamplingParams) -> Generation:
    """A generation to be run round by round."""
    most = min(sampling.max_tokens, target.context_length - len(prompt))
    return Generation(
        target=target,
        controller=Controller(make_drafter("suffix")),
        context=DraftContext(tuple(prompt), (), LogitsPipeline(sampling, prompt)),
        stopper=StopChecker(decode=lambda _: "", max_tokens=most),
        max_draft_tokens=3,
        max_new_tokens=most,
    )


def prefill_and_decode(target: LlamaTarget, prompt: list[int]) -> None:
    """Thirty tokens in chunks of 8 are 8 writes in two layers; each further pass is two."""
    target.prefill(prompt)
    target.decode([5, 6, 7])
    target.decode([5, 6])
    target.prefill([1])


def whole_chunks(prompt: list[int], earlier: list[list[int]], chunk: int) -> int:
    """Tokens of ``prompt`` that earlier prompts hold in whole chunks, the last token never among them."""
    return max((common_length(prompt[:-1], other) // chunk * chunk for other in earlier), default=0)


# The tree of blocks.


@settings(max_examples=200, deadline=None)
@given(actions=st.lists(st.tuples(st.booleans(), short_ids_st), max_size=30), max_blocks=st.integers(0, 6))
def test_blocks_are_those_of_the_exact_ids_bounded_and_never_orphaned(actions, max_blocks: int) -> None:
    cache = PrefixCache(chunk=2, max_blocks=max_blocks)
    for storing, token_ids in actions:
        before = contents(cache.find(token_ids))
        if storing:
            cache.store(token_ids, block_of(token_ids))
        found = contents(cache.find(token_ids))
        assert found == [token_ids[: 2 * place + 2] for place in range(len(found))]
        assert len(cache) <= max_blocks
        assert len(found) == (min(len(token_ids) // 2, max_blocks) if storing else len(before))
        numbers = {block.number for block in cache._blocks.values()}
        assert {parent for parent, _ in cache._blocks} <= numbers | {0}


def test_the_least_recently_used_block_goes_first_and_leaves_before_their_parents() -> None:
    cache = PrefixCache(chunk=1, max_blocks=4)
    for token_ids in ([1, 2], [3, 4]):
        cache.store(token_ids, block_of(token_ids))
    assert len(cache.find([1])) == 1  # the parent was used, the leaf was not
    cache.store([5], block_of([5]))
    assert [len(cache.find(path)) for path in ([1, 2], [3, 4], [5])] == [1, 2, 1]
    cache.store([6], block_of([6]))
    assert [len(cache.find(path)) for path in ([1, 2], [3, 4], [5], [6])] == [0, 2, 1, 1]


def test_a_prompt_longer_than_the_room_keeps_its_beginning() -> None:
    cache = PrefixCache(chunk=1, max_blocks=3)
    cache.store([9], block_of([9]))
    for _ in range(2):
        cache.store(list(range(6)), block_of(list(range(6))))
        assert contents(cache.find(list(range(6)))) == [[0], [0, 1], [0, 1, 2]]


def test_blocks_of_another_number_of_threads_are_not_read() -> None:
    """Sums are split by threads: their bits differ."""
    cache = PrefixCache(chunk=1, max_blocks=3)
    cache.store([1], block_of([1]))
    torch.set_num_threads(2)  # the fixture sets it back
    assert not cache.find([1]) and not len(cache)
    cache.store([1], block_of([1]))
    assert len(cache.find([1])) == 1


# Bitwise targets.


@settings(max_examples=40, deadline=None)
@given(data=st.data(), max_blocks=st.sampled_from([0, 1, 3, 1000]))
def test_bits_are_those_of_a_cold_target_and_counts_are_exact(data: st.DataObject, max_blocks: int) -> None:
    warm, cold = make_pair(chunk=4, kv_block=8, width=4, context_length=40)
    warm.reuse_prefixes(max_blocks * warm.cache.num_bytes // warm.cache.num_slots * 4)
    earlier: list[list[int]] = []
    for _ in range(data.draw(st.integers(2, 6))):
        base = data.draw(st.sampled_from([[], *earlier]))
        prompt = base[: data.draw(st.integers(0, 30))] + data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=8))
        prompt = prompt[:38]
        assert_same_bits(warm, cold, prompt)
        expected = whole_chunks(prompt, earlier, 4)
        if max_blocks == 1000:
            assert warm.num_cached_prompt_tokens == expected
        assert warm.num_cached_prompt_tokens <= min(expected, max_blocks * 4)
        assert max_blocks == 0 or len(warm.prefix_cache) <= max_blocks
        earlier.append(prompt)


@pytest.mark.parametrize(
    ("changed", "cached"), [(0, 0), (63, 0), (64, 64), (65, 64), (127, 64), (128, 128), (129, 128), (None, 128)]
)
def test_a_changed_id_is_honoured_wherever_it_stands(changed: int | None, cached: int) -> None:
    warm, cold = make_pair()
    prompt = [(7 * i) % 97 for i in range(130)]
    warm.prefill(prompt)
    if changed is not None:
        prompt[changed] += 1 if prompt[changed] < 96 else -1
    assert_same_bits(warm, cold, prompt)
    assert warm.num_cached_prompt_tokens == cached


@pytest.mark.parametrize("num_tail", range(1, 64, 3))
def test_a_tail_is_never_taken_for_a_part_of_a_whole_chunk(num_tail: int) -> None:
    """The last chunk of a prompt has as many rows as its tokens need, so other bits than the same tokens in a full one.

    Read once as the tail of a prompt, once within a whole chunk of a longer one, once as the tail again.
    """
    warm, cold = make_pair(dtype=torch.float32)
    ids = [(7 * i) % 97 for i in range(192)]
    for length, cached in ((64 + num_tail, 0), (190, 64), (64 + num_tail, 64), (190, 128)):
        assert_same_bits(warm, cold, ids[:length])
        assert warm.num_cached_prompt_tokens == cached


@pytest.mark.parametrize(("length", "cached"), [(1, 0), (63, 0), (64, 0), (65, 64), (128, 64), (129, 128)])
def test_the_last_token_is_always_computed(length: int, cached: int) -> None:
    """A prompt of whole chunks that is known to its end still needs the logits of its last row."""
    warm, cold = make_pair()
    prompt = [(7 * i) % 97 for i in range(length)]
    warm.prefill(prompt)
    assert_same_bits(warm, cold, prompt)
    assert warm.num_cached_prompt_tokens == cached
    assert warm.num_passes == -(-length // 64) + -(-(length - cached) // 64) + 1


def test_what_decode_passes_wrote_is_not_read_as_prefill() -> None:
    """Their bits differ: the conversation so far comes back as a prompt, and only its own prompt counts."""
    warm, cold = make_pair(chunk=8, kv_block=8, width=4)
    prompt = [(5 * i) % 97 for i in range(19)]
    answer = generate_ids(warm, prompt, SamplingParams(max_tokens=40)).generated_ids
    longer = prompt + answer + [3]
    assert_same_bits(warm, cold, longer)
    assert warm.num_cached_prompt_tokens == 16
    assert_same_bits(warm, cold, longer)
    assert warm.num_cached_prompt_tokens == (len(longer) - 1) // 8 * 8, "now all of it was prefill"


@pytest.mark.parametrize("drafter", ["none", "suffix"])
def test_a_warm_generation_emits_the_same_tokens(drafter: str) -> None:
    warm, cold = make_pair(chunk=8, kv_block=8, width=4, context_length=256)
    shared = [(5 * i) % 97 for i in range(30)]
    for seed in range(6):
        prompt = shared + [seed, seed + 1] * seed
        sampling = SamplingParams(max_tokens=30, temperature=0.8, seed=seed)
        pair = [generate_ids(target, prompt, sampling, make_drafter(drafter)) for target in (warm, cold)]
        assert pair[0].generated_ids == pair[1].generated_ids
        assert pair[0].stats.num_cached_prompt_tokens == (24 if seed else 0)
        assert pair[1].stats.num_cached_prompt_tokens == 0
        computed = len(prompt) - pair[0].stats.num_cached_prompt_tokens
        assert pair[0].stats.num_prefill_passes == -(-computed // 8)


# Law targets.


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_in_law_mode_whatever_the_cache_holds_is_kept(data: st.DataObject) -> None:
    """In float64 errors are 1e-13; the prompt's last token is computed, everything in common before it is not."""
    warm, cold = make_pair("law", chunk=8, kv_block=8, width=4, context_length=80)
    prompt = [1, 2, 3]
    for seed in range(data.draw(st.integers(2, 5))):
        sampling = SamplingParams(max_tokens=data.draw(st.integers(1, 20)), temperature=1.0, seed=seed)
        generate_ids(warm, prompt, sampling, AlternatingDrafter([1, 2, 3] * 9, 97))
        held = list(warm.cache.token_ids)
        length = data.draw(st.integers(0, min(len(held), 60)))
        prompt = held[:length] + data.draw(st.lists(st.integers(0, 96), min_size=1, max_size=12))
        logits, expected = warm.prefill(prompt), cold.prefill(prompt)
        assert (logits - expected).norm() < 1e-10 * expected.norm()
        assert warm.num_cached_prompt_tokens >= common_length(prompt[:-1], held)
        assert warm.cache_length == len(prompt)


def test_in_law_mode_an_earlier_conversation_comes_back_out_of_the_blocks() -> None:
    warm, cold = make_pair("law", chunk=8, kv_block=8, width=4)
    first = [(5 * i) % 97 for i in range(19)]
    conversation = first + generate_ids(warm, first, SamplingParams(max_tokens=40)).generated_ids
    warm.prefill(first[:3] + [50] * 20)
    prompt = [*conversation, 3]
    logits, expected = warm.prefill(prompt), cold.prefill(prompt)
    assert (logits - expected).norm() < 1e-10 * expected.norm()
    assert warm.num_cached_prompt_tokens == (len(conversation) - 1) // 8 * 8, "blocks that decode passes wrote, too"


# In between: errors, NaN, invariants.


@pytest.mark.parametrize("exactness", ["bitwise", "law"])
@pytest.mark.parametrize("interrupted_write", range(14))
def test_an_interrupt_at_any_write_leaves_a_record_that_is_right(
    exactness: str, interrupted_write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm, cold = make_pair(exactness, chunk=8, kv_block=8, width=4)
    prompt = [(5 * i) % 97 for i in range(30)]
    warm.prefill([9] * 20)
    write, writes = warm.cache.write, iter(range(100))

    def interrupting(*arguments: object) -> None:
        if next(writes) == interrupted_write:
            raise KeyboardInterrupt
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(warm.cache, "write", interrupting)
        with pytest.raises(KeyboardInterrupt):
            prefill_and_decode(warm, prompt)
    for again in (prompt, [*prompt, 5, 6, 7, 5], [9] * 20):
        logits, expected = warm.prefill(again), cold.prefill(again)
        assert torch.equal(logits, expected) or (exactness == "law" and torch.allclose(logits, expected, rtol=1e-10))


@pytest.mark.parametrize("exactness", ["bitwise", "law"])
def test_a_sequence_that_overflowed_spoils_no_later_one(exactness: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing computed beside NaN is kept, not even for a prompt that begins alike."""
    warm, cold = make_pair(exactness, chunk=8, kv_block=8, width=4)
    prompt = [(5 * i) % 97 for i in range(30)]
    forward = warm.network.forward

    def overflowing(*arguments, **options) -> Tensor:
        warm.cache.write(0, 0, torch.full((40, 4, 8), torch.nan, dtype=torch.float64))
        return forward(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(warm.network, "forward", overflowing)
        with pytest.raises(RequestError, match="not finite"):
            generate_ids(warm, prompt, SamplingParams(max_tokens=3))
    for again in (prompt, prompt[:20]):
        logits, expected = warm.prefill(again), cold.prefill(again)
        assert torch.equal(logits, expected) or (exactness == "law" and torch.allclose(logits, expected, rtol=1e-10))
    assert not warm.cache.copy(20, 40).isnan().any()


@settings(max_examples=30, deadline=None)
@given(data=st.data(), exactness=st.sampled_from(["bitwise", "law"]))
def test_the_cache_holds_prompt_and_emitted_less_one_after_every_round(data: st.DataObject, exactness: str) -> None:
    warm, _ = make_pair(exactness, chunk=8, kv_block=8, width=4, context_length=70)
    prompt: list[int] = [4]
    for seed in range(data.draw(st.integers(1, 4))):
        prompt = (prompt * 2)[: data.draw(st.integers(1, 60))] + data.draw(st.lists(st.integers(0, 96), max_size=5))
        sampling = SamplingParams(max_tokens=data.draw(st.integers(1, 70)), temperature=1.0, seed=seed)
        generation = make_generation(warm, prompt, sampling)
        for _ in decode(generation):
            held = prompt + generation.generated_ids
            assert list(warm.cache.token_ids) == held[:-1]
            assert warm.cache_length == len(held) - 1 <= warm.context_length
        assert generation.stats.num_cached_prompt_tokens < len(prompt)
        prompt = prompt + generation.generated_ids


# The real model.


@pytest.fixture(scope="module", params=["bitwise", "law"])
def model(request: pytest.FixtureRequest, embedded_folder) -> LoadedModel:
    return load_model(str(embedded_folder), exactness=request.param, context_length=1024)


def test_the_real_model_reads_shared_beginnings_once(model: LoadedModel) -> None:
    """Prompts of several chunks, alike up to a chunk's end, one before it, or one behind it; in an order by chance."""
    target, bitwise = model.target, model.geometry.exactness == "bitwise"
    ids = model.tokenizer.encode("The harbour was quiet when Mara came down the steps. " * 30)
    prompts = [ids[:length] + [number + 20] * 3 for number, length in enumerate((63, 64, 65, 128, 190, 192))]
    order = [*range(len(prompts)), *range(len(prompts))]
    random.Random(3).shuffle(order)
    cold = []
    for prompt in prompts:
        logits = target.prefill(prompt).clone()
        cold.append((logits, target.cache.copy(0, len(prompt))))
    target.reuse_prefixes(1 << 28)
    earlier: list[list[int]] = []
    for number in order:
        prompt, (logits, keys_values) = prompts[number], cold[number]
        warm_logits = target.prefill(prompt)
        if bitwise:
            assert torch.equal(warm_logits, logits)
            assert torch.equal(target.cache.copy(0, len(prompt)), keys_values)
            assert target.num_cached_prompt_tokens == whole_chunks(prompt, earlier, 64)
        else:
            assert (warm_logits - logits).norm() < 0.1 * logits.norm()
            assert target.num_cached_prompt_tokens >= whole_chunks(prompt, earlier, 64)
        earlier.append(prompt)
    target.reuse_prefixes(0)


def test_the_real_model_answers_alike_cold_warm_and_evicted(model: LoadedModel) -> None:
    if model.geometry.exactness == "law":
        pytest.skip("law mode promises the law, not the bits")
    target, sampling = model.target, SamplingParams(max_tokens=12, temperature=0.7, seed=5)
    ids = model.tokenizer.encode("Two boats lay at the wall, a red one and a blue one. " * 12)
    prompts = [[*ids[:130], number + 20] for number in range(2)]
    answers = {}
    for max_bytes in (0, 1 << 28, 2 << 20):  # the last holds one block
        target.reuse_prefixes(max_bytes)
        generations = [generate_ids(target, prompt, sampling, make_drafter("suffix")) for prompt in prompts * 2]
        answers[max_bytes] = [generation.generated_ids for generation in generations]
        cached = [generation.stats.num_cached_prompt_tokens for generation in generations]
        assert cached == {0: [0] * 4, 1 << 28: [0, 128, 128, 128], 2 << 20: [0, 64, 64, 64]}[max_bytes]
    assert answers[0] == answers[1 << 28] == answers[2 << 20]
    target.reuse_prefixes(0)

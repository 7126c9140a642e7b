"""Target semantics: rollback, geometry, garbage behind the pointer, errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_core.errors import CacheRollbackError, ContextOverflowError, RequestError, VocabularyMismatchError
from specdec_core.models.base import Geometry, TargetModel
from specdec_core.models.runner import LlamaTarget
from specdec_core.sampling import SamplingParams
from specdec_core.testing import OverlongDrafter, generate_ids
from tests.specdec_core.tiny_models import make_tiny_llama

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
EXACTNESSES = ["bitwise", "law"]
token_ids_st = st.lists(st.integers(0, 96), min_size=1, max_size=8)


@pytest.fixture(scope="module", params=[(device, dtype) for device in ("cpu",) for dtype in ("float32", "bfloat16")])
def bitwise_target(request: pytest.FixtureRequest) -> LlamaTarget:
    device, dtype = request.param
    return make_tiny_llama(device=device, dtype=getattr(torch, dtype), context_length=256)


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((one - other).norm() < 1e-11 * other.norm())


def test_it_is_a_target_model() -> None:
    target = make_tiny_llama(context_length=300)
    assert isinstance(target, TargetModel)
    assert (target.vocab_size, target.context_length, target.cache_length) == (97, 300, 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exactness", EXACTNESSES)
def test_decoding_in_any_portions_equals_one_prefill(device: str, exactness: str) -> None:
    target = make_tiny_llama(exactness=exactness, device=device)
    token_ids = [(7 * i) % 97 for i in range(80)]
    expected = target.prefill(token_ids)
    assert target.cache_length == 80
    target.prefill(token_ids[:60])
    for portion in (token_ids[60:61], token_ids[61:69], token_ids[69:72], token_ids[72:80]):
        logits = target.decode(portion)
        assert logits.shape == (len(portion), 97)
    assert close(logits[-1], expected)
    assert target.cache_length == 80


@settings(max_examples=30, deadline=None)
@given(data=st.data(), exactness=st.sampled_from(EXACTNESSES))
def test_rollback_then_continue_equals_a_fresh_start(data: st.DataObject, exactness: str) -> None:
    target = make_tiny_llama(exactness=exactness, context_length=200)
    kept = data.draw(st.lists(st.integers(0, 96), min_size=1, max_size=130))
    target.prefill(kept)
    for _ in range(data.draw(st.integers(1, 4))):
        target.decode(data.draw(token_ids_st))
        length = data.draw(st.integers(len(kept), target.cache_length))
        target.rollback(length)
        if length > len(kept):
            target.rollback(len(kept))
    continuation = data.draw(token_ids_st)
    logits = target.decode(continuation)
    fresh = make_tiny_llama(exactness=exactness, context_length=200)
    fresh.prefill(kept)
    assert torch.equal(logits, fresh.decode(continuation)), "the same passes must give the same bits"
    assert close(logits[-1], fresh.prefill(kept + continuation))


def test_a_rows_bits_do_not_depend_on_the_draft_around_it(bitwise_target: LlamaTarget) -> None:
    """The contract on real passes: one token at a time, and all drafts at once, across a KV block boundary."""
    prompt = [(5 * i) % 97 for i in range(58)]
    answer = [(11 * i) % 97 for i in range(24)]
    bitwise_target.prefill(prompt)
    plain = torch.cat([bitwise_target.decode([token_id]) for token_id in answer])
    bitwise_target.rollback(len(prompt))
    wide = torch.cat([bitwise_target.decode(answer[start : start + 8]) for start in range(0, 24, 8)])
    assert torch.equal(plain, wide)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exactness", EXACTNESSES)
def test_slots_behind_the_pointer_are_never_read(device: str, exactness: str) -> None:
    outcomes = []
    for poison in (None, 1e4):
        target = make_tiny_llama(exactness=exactness, device=device, context_length=256)
        logits = [target.prefill(list(range(70)))]
        for step in range(3):
            if poison is not None:
                for layer_id in range(2):
                    free = target.cache.num_slots - target.cache_length
                    rows = torch.full((free, 4, 8), poison, dtype=torch.float64, device=device)
                    target.cache.write(layer_id, target.cache_length, rows)
            logits += target.decode([step, step + 1, step + 2])
            target.rollback(target.cache_length - 1)
        outcomes.append(torch.stack(logits))
    assert torch.equal(*outcomes)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exactness", EXACTNESSES)
def test_a_sequence_that_overflowed_does_not_spoil_the_next_one(device: str, exactness: str) -> None:
    """A float16 model may overflow on one prompt; its NaNs, masked or not, once made every later answer NaN."""
    target = make_tiny_llama(exactness=exactness, device=device, context_length=256)
    prompt = list(range(60))  # the pass after it attends over slots that only the sequence before it wrote
    expected = [target.prefill(prompt), target.decode([5])]
    target.prefill([1] * 200)
    for layer_id in range(2):
        target.cache.write(layer_id, 0, torch.full((200, 4, 8), torch.nan, dtype=torch.float64, device=device))
    assert target.decode([5]).isnan().all()
    again = [target.prefill(prompt), target.decode([5])]
    assert all(torch.equal(one, other) for one, other in zip(expected, again, strict=True))


@pytest.mark.parametrize("width", [8, 70])
@pytest.mark.parametrize("context_length", [2, 3, 63, 64, 65, 128])
def test_padded_rows_fit_behind_the_last_token_of_any_context(context_length: int, width: int) -> None:
    """Caches, masks and position tables cover a padded pass that starts on the last slot; ids are those of law."""
    prompt = [(3 * i) % 97 for i in range(max(1, context_length - 20))]
    sampling = SamplingParams(max_tokens=500)
    rows = make_tiny_llama(exactness="law", width=1, context_length=context_length)
    expected = generate_ids(rows, prompt, sampling).generated_ids
    assert len(prompt) + len(expected) == context_length
    target = make_tiny_llama(context_length=context_length, width=width)
    for drafter in (None, OverlongDrafter(expected)):
        assert generate_ids(target, prompt, sampling, drafter).generated_ids == expected
    target.rollback(min(len(prompt), context_length - 1))
    while target.cache_length < context_length:
        target.decode([1])


def test_passes_have_the_rows_the_geometry_says() -> None:
    """The last chunk of a prompt is padded to 8 rows: when it was padded to 64, 70 tokens cost twice what 64 do."""
    bitwise, law = make_tiny_llama(), make_tiny_llama(exactness="law")
    for target, expected in ((bitwise, [64 + 8, 8, 8]), (law, [64 + 6, 1, 5])):
        rows = []
        for action in (
            lambda target=target: target.prefill([1] * 70),
            lambda target=target: target.decode([1]),
            lambda target=target: target.decode([1] * 5),
        ):
            before = target.num_pass_rows
            action()
            rows.append(target.num_pass_rows - before)
        assert rows == expected
        assert target.num_passes == 4


def test_the_last_token_of_the_context_can_be_decoded_and_no_further() -> None:
    for exactness in EXACTNESSES:
        target = make_tiny_llama(exactness=exactness, context_length=100)
        target.prefill([3] * 99)
        target.decode([4])
        assert target.cache_length == 100
        with pytest.raises(ContextOverflowError, match="exceed the context of 100"):
            target.decode([4])
        assert target.cache_length == 100
        target.prefill([3] * 5)
        assert target.cache_length == 5


def test_a_prompt_that_leaves_no_room_is_refused_before_the_old_sequence_is_lost() -> None:
    target = make_tiny_llama(context_length=100)
    target.prefill([1, 2, 3])
    with pytest.raises(ContextOverflowError, match="the prompt has 100 tokens"):
        target.prefill([1] * 100)
    assert target.cache_length == 3


@pytest.mark.parametrize(("token_ids", "culprit"), [([1, 97], "97"), ([-1, 5], "-1")])
def test_ids_outside_the_vocabulary_are_refused(token_ids: list[int], culprit: str) -> None:
    target = make_tiny_llama()
    for action in (target.prefill, target.decode):
        with pytest.raises(VocabularyMismatchError, match=f"id {culprit} is outside the vocabulary of 97"):
            action(token_ids)


def test_empty_and_too_wide_passes_are_refused() -> None:
    target = make_tiny_llama()
    for action in (target.prefill, target.decode):
        with pytest.raises(RequestError, match="at least one token"):
            action([])
    with pytest.raises(RequestError, match="at most 8 tokens, got 9"):
        target.decode([1] * 9)


def test_rollback_beyond_the_sequence_is_refused() -> None:
    target = make_tiny_llama()
    target.prefill([1, 2, 3])
    for length in (-1, 4):
        with pytest.raises(CacheRollbackError):
            target.rollback(length)
    assert target.cache_length == 3


@given(
    zones=st.sampled_from([(192, 384), (64, 128), (256, 512)]),
    starts=st.lists(st.integers(0, 1500), min_size=1, max_size=20),
    num_tokens=st.integers(1, 32),
)
def test_a_token_is_read_with_the_extents_of_its_own_zone_alone(
    zones: tuple[int, int], starts: list[int], num_tokens: int
) -> None:
    """Whatever passes a token is read in: short extents in the first zone of a block, long ones in the second."""
    short, long = zones
    geometry = Geometry("bitwise", 32, kv_block=512, kv_zones=zones, narrow_widths=(4, 8, 16))
    for start in starts:
        held = min(num_tokens, geometry.num_tokens_from(start))
        assert held >= 1
        extent = geometry.decode_extent(start, geometry.num_decode_rows(held))
        assert extent >= start + held
        for token in range(start, start + held):
            attended = extent - token // 512 * 512  # of the token's own block; more than 512 reaches into the next
            assert attended <= short if token % 512 < short else attended >= long

"""Static passes: the same bits as ordinary ones, on the CPU run eagerly, on CUDA captured."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specdec_core.drafters import make_drafter
from specdec_core.loading import settle_exactness
from specdec_core.models.cuda_graph import GraphedLlamaTarget, with_graphs
from specdec_core.models.runner import LlamaTarget
from specdec_core.models.selftest import find_variance
from specdec_core.sampling import SamplingParams
from specdec_core.testing import AlternatingDrafter, assert_lossless
from tests.specdec_core.tiny_models import make_tiny_llama

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
IDS = [2 + (5 * index * index) % 90 for index in range(700)]


def make_graphed(**options: Any) -> GraphedLlamaTarget:
    target = make_tiny_llama(**options)
    return GraphedLlamaTarget(target.network, target.cache, target.geometry, target.context_length)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_prompt_tokens", [1, 63, 500, 515])
def test_static_passes_have_the_bits_of_ordinary_ones(device: str, dtype: torch.dtype, num_prompt_tokens: int) -> None:
    """Twice through the same shapes: the first run of a shape is eager, the next one a replay."""
    graphed = make_graphed(device=device, dtype=dtype, kv_block=512)  # the same extents on both sides
    ordinary = make_tiny_llama(device=device, dtype=dtype, kv_block=512)
    for target in (graphed, ordinary):
        target.prefill(IDS[:num_prompt_tokens])
    for num_tokens in (1, 8, 3, 1, 8, 2):
        place = graphed.cache_length
        ids = IDS[place : place + num_tokens]
        assert torch.equal(graphed.decode(ids), ordinary.decode(ids))
        for target in (graphed, ordinary):
            target.rollback(place + (num_tokens + 1) // 2)
    assert graphed.num_graphs == (2 if num_prompt_tokens == 500 else 1)


def test_logits_stay_when_the_next_pass_runs() -> None:
    graphed = make_graphed()
    graphed.prefill(IDS[:5])
    first = graphed.decode(IDS[5:8])
    kept = first.clone()
    graphed.decode(IDS[8:16])
    assert torch.equal(first, kept)


@pytest.mark.parametrize("device", DEVICES)
def test_a_new_sequence_knows_nothing_of_the_last_one(device: str) -> None:
    """A captured pass writes without telling the cache, which must clear those slots all the same."""
    graphed = make_graphed(device=device, dtype=torch.float32)
    expected = graphed.prefill(IDS[:5]).clone()
    graphed.decode(IDS[5:8])
    assert float(graphed.cache.read(0, 16)[0][:, 5:13].abs().min(dim=-1).values.max()) > 0
    graphed.cache.cut(0)
    assert float(graphed.cache.read(0, graphed.cache.num_slots)[0].abs().max()) == 0
    assert torch.equal(graphed.prefill(IDS[:5]), expected)


@pytest.mark.parametrize("exactness", ["bitwise", "law"])
@pytest.mark.parametrize("device", DEVICES)
def test_no_drafter_changes_the_text(device: str, exactness: str) -> None:
    graphed = make_graphed(device=device, exactness=exactness)
    drafters = [lambda answer: make_drafter("suffix"), lambda answer: AlternatingDrafter(answer, 97)]
    sampling = SamplingParams(max_tokens=30)
    assert assert_lossless(graphed, [IDS[:9], IDS[:495]], drafters, sampling, draft_lengths=(1, 7)) == 8


def test_shapes_are_few() -> None:
    """In law exactness any number of rows may come; graphs are made for powers of two and doublings of 512 slots."""
    graphed = make_graphed(exactness="law", width=8, context_length=2000)
    graphed.prefill(IDS[:500])
    for num_tokens in (1, 2, 3, 4, 5, 6, 7, 8):
        graphed.rollback(500)
        graphed.decode(IDS[:num_tokens])
    assert graphed.num_graphs == 4
    assert [graphed.decode_extent(start, 8) for start in (0, 504, 505, 1016, 1017, 2000)] == [
        512,
        512,
        1024,
        1024,
        2048,
        2048,
    ]
    assert graphed.decode_extent(2050, 8) == graphed.cache.num_slots


def test_the_self_test_plays_its_extents() -> None:
    """A target of this kind stays one when it is settled, and its own extents are what is tested."""
    graphed = make_graphed(dtype=torch.float32, narrow_widths=(4,))
    seen: list[int] = []
    decode_extent = graphed.decode_extent
    graphed.decode_extent = lambda *args: seen.append(decode_extent(*args)) or seen[-1]  # type: ignore[method-assign,func-returns-value]
    find_variance(graphed)
    assert {512, 1024} <= set(seen)
    settled, _ = settle_exactness(make_graphed(), asked="bitwise")
    assert isinstance(settled, GraphedLlamaTarget)


def test_graphs_are_for_cuda() -> None:
    target = make_tiny_llama()
    assert with_graphs(target) == (target, [])


@pytest.mark.cuda
def test_graphs_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    target = make_tiny_llama(device="cuda")
    assert isinstance(with_graphs(target)[0], GraphedLlamaTarget)
    monkeypatch.setenv("SPECDEC_CUDA_GRAPHS", "0")
    assert type(with_graphs(target)[0]) is LlamaTarget


@pytest.mark.cuda
def test_every_shape_is_captured_and_replayed() -> None:
    graphed = make_graphed(device="cuda", dtype=torch.float32)
    graphed.prefill(IDS[:9])
    eager = graphed.decode(IDS[9:12])
    graphed.rollback(9)
    replayed = graphed.decode(IDS[9:12])
    assert torch.equal(eager, replayed)
    assert all(static._graph is not None for static in graphed._passes.values())

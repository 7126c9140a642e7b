"""The cache moves a pointer and nothing else."""

from __future__ import annotations

import pytest
import torch

from specdec_core.errors import CacheRollbackError
from specdec_core.kv_cache import StaticKVCache


@pytest.fixture
def cache() -> StaticKVCache:
    return StaticKVCache(2, 3, 64, 4, dtype=torch.float32, device=torch.device("cpu"))


def test_a_new_cache_is_empty_and_zero(cache: StaticKVCache) -> None:
    assert cache.length == 0
    assert cache.num_slots == 64
    assert cache.num_bytes == 2 * (2 * 3) * 64 * 4 * 4
    for part in cache.read(1, 64):
        assert part.shape == (3, 64, 4)
        assert not part.any()


def test_what_is_written_is_read_back_keys_first(cache: StaticKVCache) -> None:
    rows = torch.randn(5, 6, 4)
    cache.write(1, 10, rows)
    keys, values = cache.read(1, 15)
    assert torch.equal(keys[:, 10:], rows[:, :3].transpose(0, 1))
    assert torch.equal(values[:, 10:], rows[:, 3:].transpose(0, 1))
    assert not any(part.any() for part in cache.read(0, 64))
    assert cache.length == 0, "writing does not move the pointer"


def test_rollback_moves_the_pointer_and_touches_no_slot(cache: StaticKVCache) -> None:
    cache.write(0, 0, torch.ones(8, 6, 4))
    cache.advance(range(8))
    cache.rollback(3)
    assert cache.length == 3
    assert cache.read(0, 8)[0].all()
    cache.rollback(3)
    cache.rollback(0)
    assert cache.length == 0


def test_clearing_leaves_no_trace_in_any_slot(cache: StaticKVCache) -> None:
    """Zero times NaN is NaN: what a mask hides must be finite, so a new sequence starts on zeros."""
    for start in (20, 3):
        cache.write(1, start, torch.full((5, 6, 4), torch.nan))
    cache.advance(range(7))
    cache.cut(0)
    assert cache.length == 0
    assert not any(part.any() for part in cache.read(1, 64))
    cache.write(1, 60, torch.ones(4, 6, 4))
    cache.cut(0)
    assert not any(part.any() for part in cache.read(1, 64))


@pytest.mark.parametrize("length", [-1, 6, 64])
def test_a_rollback_outside_the_valid_slots_is_refused(cache: StaticKVCache, length: int) -> None:
    cache.advance([1] * 5)
    with pytest.raises(CacheRollbackError, match="the cache holds 5"):
        cache.rollback(length)
    assert cache.length == 5


def test_an_advance_beyond_the_slots_is_refused(cache: StaticKVCache) -> None:
    with pytest.raises(CacheRollbackError, match="slots"):
        cache.advance([1] * 65)

"""A preallocated cache of keys and values whose rollback is moving a pointer."""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_core.errors import CacheRollbackError

__all__ = ["StaticKVCache"]


class StaticKVCache:
    """Keys and values of one sequence, per layer [2 * num_kv_heads, num_slots, head_dim], keys first.

    Keys and values share a tensor so that a pass writes both with one copy. Slot i belongs to position i. ``length``
    counts the tokens whose slots are valid; whatever lies beyond is garbage that attention must mask. A mask hides
    finite garbage only (zero times NaN is NaN), so slots start as zeros and ``clear`` makes them zeros again.
    """

    def __init__(
        self,
        num_layers: int,
        num_kv_heads: int,
        num_slots: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (num_layers, 2 * num_kv_heads, num_slots, head_dim)
        self._slots = torch.zeros(shape, dtype=dtype, device=device)
        self._layers = [self._slots[layer_id] for layer_id in range(num_layers)]
        self._num_kv_heads = num_kv_heads
        self._num_slots = num_slots
        self._num_written = 0  # slots from here on are still zeros
        self._length = 0

    @property
    def length(self) -> int:
        """Tokens whose keys and values are valid."""
        return self._length

    @property
    def num_slots(self) -> int:
        """Slots per layer, valid or not."""
        return self._num_slots

    @property
    def num_bytes(self) -> int:
        """Memory held, in bytes."""
        return self._slots.nbytes

    def write(self, layer_id: int, start: int | Tensor, keys_values: Tensor) -> None:
        """Copy the rows of one pass into the slots from ``start`` on. ``length`` does not move.

        Args:
            layer_id: Which layer.
            start: Slot of the first row; or the slots of all rows, [num_rows] int64 on the device, whose caller owes
                a ``note_written``, because a captured graph writes without asking.
            keys_values: [num_rows, 2 * num_kv_heads, head_dim], keys first; any strides.
        """
        num_rows = keys_values.shape[0]
        if isinstance(start, Tensor):
            self._layers[layer_id].index_copy_(1, start, keys_values.transpose(0, 1))
            return
        self._layers[layer_id].narrow(1, start, num_rows).copy_(keys_values.transpose(0, 1))
        self._num_written = max(self._num_written, start + num_rows)

    def note_written(self, stop: int) -> None:
        """Say that slots before ``stop`` may hold something, for ``clear``."""
        self._num_written = max(self._num_written, stop)

    def read(self, layer_id: int, extent: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first ``extent`` slots: two views, each [num_kv_heads, extent, head_dim]."""
        window = self._layers[layer_id].narrow(1, 0, extent)
        return window[: self._num_kv_heads], window[self._num_kv_heads :]

    def advance(self, num_tokens: int) -> None:
        """Declare the next ``num_tokens`` slots valid. Raises CacheRollbackError when the cache has no such slots."""
        if num_tokens < 0 or self._length + num_tokens > self._num_slots:
            raise CacheRollbackError(
                f"cannot advance by {num_tokens!r} tokens: {self._length} of {self._num_slots} slots are valid"
            )
        self._length += num_tokens

    def clear(self) -> None:
        """Forget the sequence and zero what it wrote, so that nothing of it, NaN included, reaches the next one."""
        self._slots.narrow(2, 0, self._num_written).zero_()
        self._num_written = self._length = 0

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises CacheRollbackError outside 0..length; nothing is copied."""
        if not 0 <= length <= self._length:
            raise CacheRollbackError(f"cannot roll back to {length!r} tokens: the cache holds {self._length}")
        self._length = length

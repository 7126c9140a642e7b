"""A preallocated cache of keys and values whose rollback is moving a pointer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec_core.errors import CacheRollbackError

__all__ = ["StaticKVCache"]


class StaticKVCache:
    """Keys and values of one sequence, per layer [2 * num_kv_heads, num_slots, head_dim], keys first.

    Keys and values share a tensor so that a pass writes both with one copy. Slot i belongs to position i.
    ``token_ids`` are the tokens whose slots are valid, ``length`` their number; whatever lies beyond is garbage that
    attention must mask. A mask hides finite garbage only (zero times NaN is NaN), so slots start as zeros and ``cut``
    makes them zeros again.
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
        self._token_ids: list[int] = []  # the pointer and the record of what it covers, moved as one

    @property
    def length(self) -> int:
        """Tokens whose keys and values are valid."""
        return len(self._token_ids)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens whose keys and values are valid, from position 0 on."""
        return tuple(self._token_ids)

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
        """Say that slots before ``stop`` may hold something, for ``cut``."""
        self._num_written = max(self._num_written, stop)

    def read(self, layer_id: int, extent: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first ``extent`` slots: two views, each [num_kv_heads, extent, head_dim]."""
        window = self._layers[layer_id].narrow(1, 0, extent)
        return window[: self._num_kv_heads], window[self._num_kv_heads :]

    def advance(self, token_ids: Sequence[int]) -> None:
        """Declare the next slots valid, which hold ``token_ids``. Raises CacheRollbackError without such slots."""
        if self.length + len(token_ids) > self._num_slots:
            raise CacheRollbackError(
                f"cannot advance by {len(token_ids)} tokens: {self.length} of {self._num_slots} slots are valid"
            )
        self._token_ids.extend(token_ids)

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises CacheRollbackError outside 0..length; nothing is copied."""
        if not 0 <= length <= self.length:
            raise CacheRollbackError(f"cannot roll back to {length!r} tokens: the cache holds {self.length}")
        del self._token_ids[length:]

    def cut(self, length: int) -> None:
        """Roll back and zero what was written behind, so that nothing of it, NaN included, reaches what comes next."""
        self.rollback(length)
        self._slots.narrow(2, length, max(0, self._num_written - length)).zero_()
        self._num_written = min(self._num_written, length)

    def copy(self, start: int, num_tokens: int) -> Tensor:
        """A copy of the slots from ``start`` on, [num_layers, 2 * num_kv_heads, num_tokens, head_dim]."""
        return self._slots.narrow(2, start, num_tokens).clone(memory_format=torch.contiguous_format)

    def append(self, token_ids: Sequence[int], keys_values: Tensor) -> None:
        """Write what ``copy`` gave into the next slots and declare them valid. Raises as ``advance``."""
        start, num_tokens = self.length, len(token_ids)
        if start + num_tokens <= self._num_slots:
            self._num_written = max(self._num_written, start + num_tokens)
            self._slots.narrow(2, start, num_tokens).copy_(keys_values)
        self.advance(token_ids)

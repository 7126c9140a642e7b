"""Keys and values of prompt beginnings, kept for the prompts to come.

A prompt is cut into chunks counted from position 0. The keys and values of a chunk depend on all ids up to its end, so
a block is found by its own exact ids and by the block before it: a tree whose paths are beginnings of prompts, as in
vLLM's automatic prefix caching (Kwon et al. 2023, arXiv 2309.06180, section 4.4) and SGLang's radix tree (Zheng et al.
2023, arXiv 2312.07104, section 3). Here the ids themselves are compared, not hashes of them.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["PrefixCache"]

_Key = tuple[int, tuple[int, ...]]  # number of the block before (_ROOT for the first chunk), ids of this one

_ROOT = 0


@dataclass(frozen=True, slots=True)
class _Block:
    number: int  # never given twice: what hung on an evicted block cannot hang on a later one
    keys_values: Tensor


class PrefixCache:
    """Blocks of ``chunk`` tokens each, at most ``max_blocks``; the least recently used goes first.

    A block is used whenever one behind it is, and a moment later, so the oldest block has none behind it: eviction
    never cuts a path in the middle. Bits depend on the number of threads, so all blocks are dropped when it changes.

    >>> cache = PrefixCache(chunk=2, max_blocks=8)
    >>> cache.store([5, 6, 7, 8, 9], lambda start, num_tokens: torch.full((num_tokens,), start))
    >>> [block.tolist() for block in cache.find([5, 6, 7, 8])], len(cache.find([5, 6, 7])), len(cache.find([0, 6]))
    ([[0, 0], [2, 2]], 1, 0)
    """

    def __init__(self, chunk: int, max_blocks: int) -> None:
        self._chunk = chunk
        self._max_blocks = max_blocks
        self._blocks: OrderedDict[_Key, _Block] = OrderedDict()  # least recently used first
        self._numbers = itertools.count(_ROOT + 1)
        self._num_threads = torch.get_num_threads()

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def max_blocks(self) -> int:
        """The most blocks kept."""
        return self._max_blocks

    @property
    def num_bytes(self) -> int:
        """Memory held by the blocks."""
        return sum(block.keys_values.nbytes for block in self._blocks.values())

    def find(self, token_ids: Sequence[int]) -> list[Tensor]:
        """The blocks of the longest known run of whole chunks that ``token_ids`` begins with. Not to be written to."""
        path = self._path(token_ids)
        self._use(path)
        return [self._blocks[key].keys_values for key in path]

    def store(self, token_ids: Sequence[int], copy: Callable[[int, int], Tensor]) -> None:
        """Keep the whole chunks of ``token_ids``, as many from the first on as there is room for.

        Args:
            token_ids: A sequence from position 0 on.
            copy: (start, number of tokens) -> a tensor of its own with their keys and values; asked for new chunks.
        """
        path = self._path(token_ids)
        self._use(path)
        parent = self._blocks[path[-1]].number if path else _ROOT
        for start in range(len(path) * self._chunk, len(token_ids) - self._chunk + 1, self._chunk):
            if not self._make_room(path):
                break
            block = _Block(next(self._numbers), copy(start, self._chunk))
            key = (parent, tuple(token_ids[start : start + self._chunk]))
            self._blocks[key] = block
            path.append(key)
            parent = block.number
        self._use(path)

    def clear(self) -> None:
        """Drop everything."""
        self._blocks.clear()

    def _path(self, token_ids: Sequence[int]) -> list[_Key]:
        """Keys of the known chunks, first to last."""
        if self._num_threads != torch.get_num_threads():
            self._num_threads = torch.get_num_threads()
            self.clear()
        path: list[_Key] = []
        parent = _ROOT
        for start in range(0, len(token_ids) - self._chunk + 1, self._chunk):
            key = (parent, tuple(token_ids[start : start + self._chunk]))
            if key not in self._blocks:
                break
            path.append(key)
            parent = self._blocks[key].number
        return path

    def _use(self, path: Iterable[_Key]) -> None:
        """Mark as used, the last block of the path first."""
        for key in reversed(list(path)):
            self._blocks.move_to_end(key)

    def _make_room(self, path: Sequence[_Key]) -> bool:
        """Evict the oldest block where the cache is full; False where only ``path`` itself is left."""
        if len(self._blocks) < self._max_blocks:
            return True
        if len(self._blocks) == len(path):
            return False
        self._blocks.popitem(last=False)
        return True

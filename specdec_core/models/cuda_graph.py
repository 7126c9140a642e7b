"""Decode passes as captured CUDA graphs: one launch instead of hundreds, and no host value inside.

A pass of a few rows is over in milliseconds and launches some ten kernels a layer, so the host falls behind. A graph
replays them as they were captured: shapes are fixed, and what changes (ids, start) lies in a tensor that is written
before the replay. Attention must then run over a fixed extent. The whole context would be read by every pass, and a
graph for every 64 slots would be captured again and again while a text grows; so extents are 512 slots and doublings of
it: few graphs (for 4,096 slots four per width), each captured when first needed, and never more than twice the slots
that count. The self-test runs over these very extents.

A graph is used only if its logits are those of the eager pass, bit for bit; else passes stay eager, with a warning.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specdec_core.kv_cache import StaticKVCache
from specdec_core.models.base import Geometry
from specdec_core.models.llama import LlamaNetwork
from specdec_core.models.runner import LlamaTarget

__all__ = ["GraphedLlamaTarget", "StaticPass", "with_graphs"]

_SMALLEST_EXTENT = 512


class StaticPass:
    """One decode pass of fixed shape: everything that changes between two of them is in ``inputs``.

    Args:
        num_rows: Rows of the pass.
        extent: Slots attended over.
    """

    def __init__(self, network: LlamaNetwork, cache: StaticKVCache, num_rows: int, extent: int) -> None:
        self._network = network
        self._cache = cache
        self._extent = extent
        self._steps = torch.arange(num_rows, device=network.device)
        self.inputs = torch.zeros(num_rows + 1, dtype=torch.int64, device=network.device)  # ids, then the start
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits = torch.empty(0)

    def run(self, row_ids: Sequence[int], start: int) -> Tensor:
        """Logits of every row, [num_rows, vocab]; they stay valid. Nothing here waits for the device."""
        pinned = self.inputs.is_cuda
        self.inputs.copy_(torch.tensor([*row_ids, start], pin_memory=pinned), non_blocking=True)
        if self._graph is None:
            return self._compute()
        self._graph.replay()
        return self._logits.clone()

    def capture(self, pool: Any) -> bool:
        """Capture the pass with the inputs of the last ``run``; whether it has the eager bits. CUDA only.

        Args:
            pool: A memory pool that graphs share, which is right because they never run at once.
        """
        stream = torch.cuda.Stream(self._network.device)
        stream.wait_stream(torch.cuda.current_stream(self._network.device))
        with torch.cuda.stream(stream):  # libraries allocate their workspaces before the capture
            expected = self._compute()
        torch.cuda.current_stream(self._network.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._logits = self._compute()
        graph.replay()
        if not torch.equal(self._logits, expected):
            return False
        self._graph = graph
        return True

    def _compute(self) -> Tensor:
        positions = self._steps + self.inputs[-1]
        return self._network.logits(self._network.forward_at(self.inputs[:-1], positions, self._extent, self._cache))


class GraphedLlamaTarget(LlamaTarget):
    """A LlamaTarget whose decode passes are :class:`StaticPass`, captured on CUDA and eager elsewhere.

    In law exactness a pass is padded to the next power of two, so that there are few shapes.
    """

    def __init__(self, network: LlamaNetwork, cache: StaticKVCache, geometry: Geometry, context_length: int) -> None:
        super().__init__(network, cache, geometry, context_length)
        self._captures = network.device.type == "cuda"
        self._pool: Any = None  # made with the first capture
        self._passes: dict[tuple[int, int], StaticPass] = {}

    @property
    def num_graphs(self) -> int:
        """Shapes met so far, each with a graph of its own on CUDA."""
        return len(self._passes)

    def decode_extent(self, start: int, num_rows: int) -> int:
        """512 slots or a doubling of it that holds the pass; at most all slots there are."""
        extent = _SMALLEST_EXTENT
        while extent < start + num_rows:
            extent *= 2
        return min(extent, self.cache.num_slots)

    def _decode_pass(self, token_ids: Sequence[int]) -> Tensor:
        start, num_tokens = self.cache.length, len(token_ids)
        num_rows = self._num_rows(num_tokens)
        logits = self._pass_for(num_rows, self.decode_extent(start, num_rows), [*token_ids], start)
        self.cache.note_written(start + num_rows)
        self.cache.advance(token_ids)
        self.num_passes += 1
        self.num_pass_rows += num_rows
        return logits[:num_tokens]

    def _num_rows(self, num_tokens: int) -> int:
        if self.geometry.exactness == "bitwise":
            return self.geometry.num_decode_rows(num_tokens)
        return min(1 << (num_tokens - 1).bit_length(), self.geometry.width)

    def _pass_for(self, num_rows: int, extent: int, token_ids: list[int], start: int) -> Tensor:
        """Run the pass of this shape; the first one of a shape runs eagerly and is captured then."""
        row_ids = [*token_ids, *[0] * (num_rows - len(token_ids))]
        known = self._passes.get((num_rows, extent))
        if known is not None:
            return known.run(row_ids, start)
        new = self._passes[num_rows, extent] = StaticPass(self.network, self.cache, num_rows, extent)
        logits = new.run(row_ids, start)
        if self._captures:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            if not new.capture(self._pool):
                self._captures = False
                warnings.warn(f"a captured pass of {num_rows} rows has other bits than the eager one", stacklevel=2)
        return logits


def with_graphs(target: LlamaTarget) -> tuple[LlamaTarget, list[str]]:
    """(the target with captured passes on CUDA, the reason); elsewhere it comes back as it is.

    ``SPECDEC_CUDA_GRAPHS=0`` in the environment keeps them off.
    """
    if target.network.device.type != "cuda":
        return target, []
    if os.environ.get("SPECDEC_CUDA_GRAPHS") == "0":
        return target, ["decode passes are launched kernel by kernel: SPECDEC_CUDA_GRAPHS=0"]
    graphed = GraphedLlamaTarget(target.network, target.cache, target.geometry, target.context_length)
    return graphed, ["decode passes are CUDA graphs, one per width and extent (512 slots and its doublings)"]

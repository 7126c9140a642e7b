"""Takes tensors out of a state dict, moves them, and knows which were never asked for."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from specdec_core.errors import ModelLoadError

__all__ = ["TensorReader"]


class TensorReader:
    """Tensors by name, moved to ``device`` and ``dtype`` as they are taken. Each method raises ModelLoadError."""

    def __init__(self, tensors: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype) -> None:
        self._tensors = tensors
        self._device = device
        self._dtype = dtype
        self._unread = {name for name in tensors if not name.endswith("rotary_emb.inv_freq")}

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The tensor ``name``, which must be there and have this shape."""
        if name not in self._tensors:
            raise ModelLoadError(f"the weights have no tensor {name!r}")
        tensor = self._tensors[name]
        if tuple(tensor.shape) != shape:
            raise ModelLoadError(f"tensor {name!r} has shape {tuple(tensor.shape)}, the config says {shape}")
        self._unread.discard(name)
        return tensor.to(device=self._device, dtype=self._dtype)

    def take_if_present(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        """The same, or None where there is none."""
        return self.take(name, shape) if name in self._tensors else None

    def fused(self, prefix: str, sizes: Mapping[str, int], width: int) -> tuple[Tensor, Tensor | None]:
        """Several linears of one input stacked: weight [sum of sizes, width], bias [sum of sizes] or None."""
        weight = torch.cat([self.take(f"{prefix}.{name}.weight", (size, width)) for name, size in sizes.items()])
        biases = [self.take_if_present(f"{prefix}.{name}.bias", (size,)) for name, size in sizes.items()]
        if all(bias is None for bias in biases):
            return weight, None
        zeros = [weight.new_zeros(size) for size in sizes.values()]
        return weight, torch.cat([zero if bias is None else bias for bias, zero in zip(biases, zeros, strict=True)])

    def refuse_unread(self) -> None:
        """Raise when tensors were never taken: the forward would leave them out."""
        unread = sorted(self._unread)
        if unread:
            shown = ", ".join(unread[:4]) + (", ..." if len(unread) > 4 else "")
            raise ModelLoadError(f"the weights hold {len(unread)} tensors this forward does not know: {shown}")
